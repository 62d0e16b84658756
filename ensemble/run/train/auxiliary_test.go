package train

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// An auxiliary field is constant in time, and on the grid of the forecasts.
func TestAuxiliaryIsRefused(t *testing.T) {
	f := demotest.Files(t)
	for name, c := range map[string]struct {
		files, variables string
		code             exit.Code
	}{
		"many fields":   {f.GRIB2[0], "t", exit.BadData},
		"none":          {runtest.FirstMessage(t, f.GRIB2[0]), "lsm", exit.BadData},
		"no such file":  {"/nowhere/orography.grib2", "z", exit.NotYet},
		"not both":      {"", "z", exit.Usage},
		"a second time": {runtest.FirstMessage(t, f.GRIB2[0]), "t, t", exit.Usage},
	} {
		c0 := demotest.Config(t, f, runtest.FirstInits(f, 7))
		path := filepath.Join(t.TempDir(), "train.yaml")
		if err := os.WriteFile(path, c0.YAML(), 0o644); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.LoadTrain(config.Sources{Files: []string{path}, Set: []string{"data.auxiliary.files=[" + c.files + "]", "data.auxiliary.variables=[" + c.variables + "]"}})
		if err == nil {
			_, err = Run(context.Background(), Options{Config: cfg, RunDir: filepath.Join(t.TempDir(), "r"), Version: "test"})
		}
		if exit.CodeOf(err) != c.code {
			t.Errorf("%s: %v, want exit %d", name, err, c.code)
		}
	}
}
