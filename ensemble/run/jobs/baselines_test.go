package jobs

import (
	"path/filepath"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Launched processes that share the fits of baselines and references leave the files of one process.
func TestBaselinesOverMPI(t *testing.T) { checkLaunchedBaselines(t, onALauncher) }

// checkLaunchedBaselines compares these files.
func checkLaunchedBaselines(t *testing.T, on launchers) {
	training := func(dir, mesh string) rankTraining {
		r := failing(t, dir, "train.epochs=1", "train.stall_timeout=2m", "baselines=[emos, emos_grid, mbm, climatology]", "model.reference=emos_grid",
			"model.cross_fit.folds=4", "model.cross_fit.gap=0h", "data.split.fractions.train=0.8", "data.split.fractions.validation=0.1", "train.mesh="+mesh)
		r.PIDs, r.Pause = t.TempDir(), 0
		return r
	}
	alone := filepath.Join(t.TempDir(), "alone")
	if err := training(alone, "auto").run(); err != nil {
		t.Fatal(err)
	}
	want := runtest.ModelFiles(t, alone)
	on(t, func(t *testing.T, launcher string) {
		runDir := filepath.Join(t.TempDir(), "run")
		if code, out := start(t, launcher, 3, training(runDir, "lon:3")).end(t); code != exit.OK {
			t.Fatal(out)
		}
		got := runtest.ModelFiles(t, runDir)
		for _, name := range []string{"baselines.safetensors", "reference.safetensors"} {
			if len(got[name]) == 0 || string(got[name]) != string(want[name]) {
				t.Errorf("%s differs", name)
			}
		}
	})
}
