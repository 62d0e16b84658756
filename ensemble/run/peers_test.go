package run

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/loader"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// What is wrong with the sources of starts is told by all ranks.
func TestSourceWarnings(t *testing.T) {
	costs := inputCosts{counts: loader.Counts{DiskError: errors.New("full"), PeerError: errors.New("rank 1: its answer is damaged")}}
	alone, err := costs.warnings(nil)
	if err != nil || len(alone) != 2 || !strings.Contains(alone[1], "rank 1: its answer is damaged") {
		t.Errorf("%v: %q", err, alone)
	}
	err = comm.Run(3, comm.Free, func(c *comm.Comm) error {
		own := inputCosts{}
		if c.Rank() == 2 {
			own = costs
		}
		w, err := own.warnings(team.New(c))
		if err == nil && (len(w) != 2 || slices.ContainsFunc(w, func(w string) bool { return !strings.HasPrefix(w, "rank 2: ") })) {
			err = fmt.Errorf("warnings %q", w)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// asking is a training on ranks that take starts from each other, and the digest of one on
// ranks of this process that do not.
func asking(t *testing.T, set ...string) (training func(t *testing.T) rankTraining, want string) {
	t.Helper()
	f := smallData(t)
	dir := prepared(t, quick(t, f), "f32")
	set = append(set, "model.head=spread", "train.loss.kind=mse", "model.base=1", "data.store="+dir, fmt.Sprintf("data.memory=%dB", 14*startBytes(t, dir)))
	of := func(dir, peers string) rankTraining {
		return withMesh(failing(t, dir, append(slices.Clone(set), "data.peers="+peers)...), "data:2")
	}
	whole := filepath.Join(t.TempDir(), "whole")
	alone := of(whole, "never")
	c, err := config.LoadTrain(config.Sources{Files: []string{alone.Config}, Set: alone.Set})
	if err != nil {
		t.Fatal(err)
	}
	if err := trainOnRanks(2, func(int) TrainOptions { return TrainOptions{RunDir: whole, Version: "test", Config: c} }); err != nil {
		t.Fatal(err)
	}
	return func(t *testing.T) rankTraining { return of(filepath.Join(t.TempDir(), "run"), "always") }, digest(t, whole)
}

// Under a launcher ranks are processes. They take starts from each other, and end with the
// bits of ranks of one process that do not.
func TestProcessesTakeStartsOfEachOther(t *testing.T) {
	training, want := asking(t, "train.epochs=2")
	onLaunchers(t, func(t *testing.T, launcher string) {
		r := training(t)
		r.Pause = 0
		if code, out := launch(t, launcher, 2, r).end(t); code != exit.OK {
			t.Fatal(out)
		}
		if digest(t, r.RunDir) != want {
			t.Error("other bits than without peers")
		}
		var asked float64
		for _, e := range epochs(t, r.RunDir) {
			n, _ := e.Number("peers_reads")
			asked += n
		}
		if asked == 0 {
			t.Error("rank 0 took nothing from rank 1")
		}
	})
}
