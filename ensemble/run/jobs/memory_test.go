package jobs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/product"
)

// TestPredictInLessMemory checks that limits of memory and workspace change no bit of the products, and that
// a limit below the minimum is refused with a remedy.
func TestPredictInLessMemory(t *testing.T) {
	runDir := filepath.Join(t.TempDir(), "run")
	f := demotest.Files(t)
	_, err := train.Run(context.Background(), train.Options{Config: demotest.Config(t, f, "train.networks=2", "train.epochs=1", "model.stages=2"), RunDir: runDir, Version: "test"})
	if exit.CodeOf(err) == exit.NoDevice {
		t.Skip("skipped: no device: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	predict := func(memory, workspace int64) (string, error) {
		r, err := predict.Run(context.Background(), predict.Options{RunDir: runDir, Input: f.GRIB2[19:], Out: t.TempDir(), Formats: []product.Format{product.GRIB2},
			MemoryBytes: memory, WorkspaceBytes: workspace, Version: "test"})
		if err != nil {
			return "", err
		}
		var all strings.Builder
		for _, path := range r.Outputs {
			if filepath.Ext(path) == ".json" {
				continue // has the time
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(text)
		}
		if all.Len() == 0 {
			t.Errorf("no fields in %q", r.Outputs)
		}
		return all.String(), nil
	}
	want, err := predict(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = predict(1, 0)
	var arena *pass.MemoryLimitError
	if exit.CodeOf(err) != exit.NoDevice || !errors.As(err, &arena) || !strings.Contains(err.Error(), "at: --memory") ||
		!strings.Contains(err.Error(), fmt.Sprintf("give --memory %dMiB or more", setup.CeilMiB(arena.Smallest)>>20)) {
		t.Fatalf("predicting in one byte: %v", err)
	}
	_, err = predict(0, 1)
	var scratch *pass.WorkspaceError
	if exit.CodeOf(err) != exit.Usage || !errors.As(err, &scratch) || !strings.Contains(err.Error(), "at: --workspace") ||
		!strings.Contains(err.Error(), fmt.Sprintf("give --workspace %dMiB or more", setup.CeilMiB(scratch.Smallest)>>20)) {
		t.Fatalf("predicting with one byte of scratch: %v", err)
	}
	for _, least := range [][2]int64{{arena.Smallest, 0}, {0, scratch.Smallest}, {arena.Smallest, scratch.Smallest}} {
		if got, err := predict(least[0], least[1]); err != nil || got != want {
			t.Errorf("in %d bytes, %d of scratch: error %v, other products: %v", least[0], least[1], err, got != want)
		}
	}
	if _, err := predict(arena.Smallest-1, 0); exit.CodeOf(err) != exit.NoDevice {
		t.Errorf("one byte less than the least: %v", err)
	}
}
