package draft_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/check"
	"github.com/ensemble-weather/ensemble/ensemble/run/draft"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

func TestMain(m *testing.M) { demotest.Main(m) }

// The drafted configuration is valid, has at most 30 lines, and the files meet its requirements.
func TestDraftIsTrainable(t *testing.T) {
	f := demotest.Files(t)
	files := append(append([]string{}, f.GRIB2...), f.Analyses...)
	d, err := draft.Run(context.Background(), draft.Options{Files: files})
	if err != nil {
		t.Fatal(err)
	}
	text := string(d.Config)
	if n := strings.Count(text, "\n"); n > 30 {
		t.Errorf("%d lines", n)
	}
	path := filepath.Join(t.TempDir(), "train.yaml")
	if err := os.WriteFile(path, d.Config, 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := config.LoadTrain(config.Sources{Files: []string{path}, IgnoreEnvironment: true})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	r, err := check.Run(context.Background(), check.Options{Config: c})
	if err != nil || r.FaultCount > 0 {
		t.Fatalf("%v, %+v\n%s", err, r.Faults, text)
	}
	for _, want := range []string{"variables: [t, gh, u, v, vo]", "target_lead: 48h", "variable: t, levels: [850hPa]", "full: 4", "demo_fc_200*00.grib2"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// Files without an ensemble, and too few dates, are refused with what to do.
func TestDraftRefuses(t *testing.T) {
	f := demotest.Files(t)
	for name, files := range map[string][]string{"analyses": f.Analyses, "two initialisations": append(slices.Clone(f.GRIB2[:2]), f.Analyses...)} {
		if _, err := draft.Run(context.Background(), draft.Options{Files: files}); exit.CodeOf(err) != exit.BadData {
			t.Errorf("%s: %v", name, err)
		}
	}
	d, err := draft.Run(context.Background(), draft.Options{Files: f.GRIB2})
	if err != nil || !strings.Contains(string(d.Config), "head: spread") {
		t.Errorf("without analyses: %v, %+v", err, d)
	}
}
