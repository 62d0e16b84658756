package jobs

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples/samplestest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// peerTraining returns a training whose ranks exchange samples, and the digest of one on ranks of this
// process without exchange.
func peerTraining(t *testing.T, set ...string) (training func(t *testing.T) rankTraining, want string) {
	t.Helper()
	f := demotest.Files(t)
	dir := samplestest.PrepareStore(t, demotest.Config(t, f), "f32")
	set = append(set, "model.head=spread", "train.loss.kind=mse", "model.base=1", "data.store="+dir, fmt.Sprintf("data.memory=%dB", 14*runtest.InitBytes(t, dir)))
	of := func(dir, peers string) rankTraining {
		return withMesh(failing(t, dir, append(slices.Clone(set), "data.peers="+peers)...), "data:2")
	}
	whole := filepath.Join(t.TempDir(), "whole")
	alone := of(whole, "never")
	c, err := config.LoadTrain(config.Sources{Files: []string{alone.Config}, Set: alone.Set})
	if err != nil {
		t.Fatal(err)
	}
	if err := traintest.TrainOnRanks(2, func(int) train.Options { return train.Options{RunDir: whole, Version: "test", Config: c} }); err != nil {
		t.Fatal(err)
	}
	return func(t *testing.T) rankTraining { return of(filepath.Join(t.TempDir(), "run"), "always") }, runtest.Digest(t, whole)
}

// Under a launcher ranks are processes. They exchange samples, and end with the bits of ranks of one process
// without exchange.
func TestProcessesExchangeInits(t *testing.T) { checkLaunchedPeers(t, onALauncher) }

// checkLaunchedPeers compares the bits of processes of launchers.
func checkLaunchedPeers(t *testing.T, on launchers) {
	training, want := peerTraining(t, "train.epochs=2")
	on(t, func(t *testing.T, launcher string) {
		r := training(t)
		r.Pause = 0
		if code, out := start(t, launcher, 2, r).end(t); code != exit.OK {
			t.Fatal(out)
		}
		if runtest.Digest(t, r.RunDir) != want {
			t.Error("other bits than without peers")
		}
		var asked float64
		for _, e := range runtest.Epochs(t, r.RunDir) {
			n, _ := e.Number("peers_reads")
			asked += n
		}
		if asked == 0 {
			t.Error("rank 0 took nothing from rank 1")
		}
	})
}
