package jobs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/store"
)

// Every file has one format version; others are refused with a remedy.
func TestOtherFormatsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		file, text string
		read       func(dir, path string) error
		fix        string
	}{
		"model": {model.File, `{"schema": "ensemble.model/0", "network": [], "networks": "two"}`, func(dir, _ string) error {
			_, err := model.Load(dir, false)
			return err
		}, "train"},
		"model with a head in words": {model.File, `{"schema": "ensemble.model/1", "version": "test", "network": {"kind": "unet3d", "head": "distribution", "loss": "crps"}, "networks": 1}`, func(dir, _ string) error {
			_, _, err := model.LoadDescription(dir)
			return err
		}, "train"},
		"model of numbered formats": {model.File, `{"format": 12, "version": "test", "network": {}, "networks": 1}`, func(dir, _ string) error {
			_, _, err := model.LoadDescription(dir)
			return err
		}, "train"},
		"run directory": {"manifest.json", `{"schema": "ensemble.run/0", "status": "ok", "command": "train", "outputs": []}`, func(dir, _ string) error {
			_, err := trained.ReadFinished(dir)
			return err
		}, "run again"},
		"sample store": {"store.json", `{"schema": "ensemble.store", "format": 2, "storage": 16}`, func(dir, _ string) error {
			s, err := store.Open(context.Background(), dir, store.OpenOptions{})
			if err == nil {
				s.Close()
			}
			return err
		}, "ensemble data prepare"},
		"sums": {"2020.sums", "ensemble.sums/2\n", func(_, path string) error {
			_, err := scoring.LoadSums(path)
			return err
		}, "ensemble verify"},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, c.file)
		if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		var e *exit.Error
		switch err := c.read(dir, path); {
		case !errors.As(err, &e) || e.Code != exit.BadData:
			t.Errorf("%s: %v, want exit %d", name, err, exit.BadData)
		case !strings.Contains(e.Fix, c.fix) || e.At != path || e.Why == "" || strings.Contains(e.What+e.Why+e.Fix, "\n"):
			t.Errorf("%s: %v, want a fix with %q in one line, at %s", name, err, c.fix, path)
		}
	}
}
