package jobs

import (
	"context"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// A training on a mesh with more parts than processes has the same bits as on as many ranks, also if it
// resumes with another number of processes.
func TestSameBitsOnAnyProcesses(t *testing.T) {
	traintest.CheckProcessCounts(t, []traintest.ProcessCounts{
		{Mesh: "data:2 lat:2", Processes: [][]int{{3, 1}}, Overrides: []string{"train.shard_optimizer=true", "train.clip=0.05", "train.ema=0.5", "train.optimizer=adam"}},
		{Mesh: "lon:3", Processes: [][]int{{2}}, Overrides: nil},
	})
}

// The same holds under MPI launchers: the training is stopped by a signal to one process, and resumes with
// fewer.
func TestSameBitsOnLaunchedProcesses(t *testing.T) { checkLaunchedMesh(t, onALauncher) }

// checkLaunchedMesh compares the weights of a mesh of four ranks on launched processes with those on one process.
func checkLaunchedMesh(t *testing.T, on launchers) {
	whole := filepath.Join(t.TempDir(), "whole")
	r := withMesh(failing(t, whole), "lat:2 lon:2")
	c, err := config.LoadTrain(config.Sources{Files: []string{r.Config}, Set: r.Set})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := train.Run(context.Background(), train.Options{Config: c, RunDir: whole, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	want := runtest.Digest(t, whole)
	on(t, func(t *testing.T, launcher string) {
		r := withMesh(failing(t, filepath.Join(t.TempDir(), "run")), "lat:2 lon:2")
		l := start(t, launcher, 3, r)
		l.atStep(t, r.RunDir, 2)
		if err := syscall.Kill(l.pid(t, 2), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		code, out := l.end(t)
		if code != exit.SaveAndStop && !strings.HasSuffix(launcher, "mpich") || code == exit.OK || !strings.Contains(out, "error[E075]: ") { // of one rank; the launcher may end others before they tell
			t.Fatal(out)
		}
		r.Pause = 0
		if code, out := start(t, launcher, 2, r).end(t); code != exit.OK {
			t.Fatal(out)
		}
		if runtest.Digest(t, r.RunDir) != want {
			t.Error("other weights than on one process")
		}
		if _, err := rundir.ReadManifest(r.RunDir); err != nil {
			t.Error(err)
		}
	})
}

// Settings of pipelines of four ranks.
var (
	chimeraOfFour  = []string{"train.mesh=auto", "train.pipeline.stages=4", "train.pipeline.schedule=chimera", "train.ema=0.5"}
	dataRanksOfTwo = []string{"train.mesh=data:2", "train.pipeline.stages=2", "train.pipeline.schedule=1f1b", "train.ema=0.5"}
)

// So do the stages of a pipeline, one on each process, and two on each after a stop.
func TestPipelineOnLaunchedProcesses(t *testing.T) {
	checkLaunchedPipeline(t, onALauncher, chimeraOfFour...)
}

// So do two stages of two data ranks each.
func TestPipelineOfDataRanksOnLaunchedProcesses(t *testing.T) {
	checkLaunchedPipeline(t, onALauncher, dataRanksOfTwo...)
}

// checkLaunchedPipeline compares the weights of a pipeline of four ranks on launched processes with those on one process.
func checkLaunchedPipeline(t *testing.T, on launchers, pipeline ...string) {
	t.Helper()
	whole := failing(t, filepath.Join(t.TempDir(), "whole"))
	c, err := config.LoadTrain(config.Sources{Files: []string{whole.Config}, Set: append(whole.Set, pipeline...)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := train.Run(t.Context(), train.Options{Config: c, RunDir: whole.RunDir, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	want := runtest.Digest(t, whole.RunDir)
	on(t, func(t *testing.T, launcher string) {
		r := failing(t, filepath.Join(t.TempDir(), "run"))
		r.Set = append(r.Set, pipeline...)
		l := start(t, launcher, 4, r)
		l.atStep(t, r.RunDir, 2)
		if err := syscall.Kill(l.pid(t, 2), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if code, out := l.end(t); code == exit.OK || !strings.Contains(out, "error[E075]: ") {
			t.Fatal(out)
		}
		r.Pause = 0
		if code, out := start(t, launcher, 2, r).end(t); code != exit.OK {
			t.Fatal(out)
		}
		if runtest.Digest(t, r.RunDir) != want {
			t.Error("other weights than on one process")
		}
	})
}
