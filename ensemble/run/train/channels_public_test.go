package train_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/prune/channels"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
)

// Ranks with a sharded optimiser remove as many channels as a single rank, and take the same steps before and
// after.
func TestRanksRemoveTheSameChannels(t *testing.T) {
	f := demotest.Files(t)
	options := func(dir string, more ...string) train.Options {
		return train.Options{Config: runtest.ChannelPruning(t, f, append(more, "prune.method=taylor", "train.epochs=3", "train.ema=0.5", "prune.target_unit=operations", "baselines=[climatology]")...), RunDir: dir, Version: "test"}
	}
	alone, shared := filepath.Join(t.TempDir(), "alone"), filepath.Join(t.TempDir(), "shared")
	if _, err := train.Run(context.Background(), options(alone)); err != nil {
		t.Fatal(err)
	}
	if err := traintest.TrainOnRanks(2, func(int) train.Options { return options(shared, "train.mesh=lon:2", "train.shard_optimizer=true") }); err != nil {
		t.Fatal(err)
	}
	var left [2][]channels.Kept
	for i, dir := range []string{alone, shared} {
		m, err := model.Load(filepath.Join(dir, "model"), false)
		if err != nil {
			t.Fatal(err)
		}
		left[i] = m.Spec.Kept
	}
	for i, k := range left[0] {
		if len(left[1]) != len(left[0]) || len(left[1][i].Channels) != len(k.Channels) {
			t.Fatalf("alone %v are left, on ranks %v", left[0], left[1])
		}
	}
	want, got := runtest.Losses(t, alone), runtest.Losses(t, shared)
	for i := range want {
		if d := got[i] - want[i]; d*d > 1e-6*want[i]*want[i] {
			t.Fatalf("step %d: loss %v on ranks, %v alone", i+1, got[i], want[i])
		}
	}
}
