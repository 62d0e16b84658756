package train

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// After rewinding to early weights, training continues with the new mask at the schedule of the rewind step;
// the total number of steps increases accordingly.
func TestLotteryRewinds(t *testing.T) {
	f := demotest.Files(t)
	dir := filepath.Join(t.TempDir(), "run")
	r, err := Run(context.Background(), Options{Config: demotest.Config(t, f, "train.networks=1", "train.epochs=4", "prune.method=lottery", "prune.target=0.8", "prune.scope=uniform", "prune.from=25%", "prune.to=75%"), RunDir: dir, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if want := uint64(16 + 12 - 4); r.Steps != want {
		t.Errorf("%d steps, want %d", r.Steps, want)
	}
	events, err := rundir.ReadEvents(dir)
	if err != nil {
		t.Fatal(err)
	}
	var rates, sparsity []float64
	for _, e := range events {
		if v, ok := e.Number("rate"); ok {
			rates = append(rates, v)
		}
		if v, ok := e.Number("sparsity"); ok {
			sparsity = append(sparsity, v)
		}
	}
	if !slices.Equal(rates[4:12], rates[12:20]) || rates[3] <= rates[4] || rates[23] >= rates[22] {
		t.Errorf("rates %v", rates)
	}
	if len(sparsity) != 6 || slices.Max(sparsity[:3]) != 0 || math.Abs(slices.Min(sparsity[3:])-0.8) > 0.01 {
		t.Errorf("sparsity by epoch %v", sparsity)
	}
}

// The rate of a plateau schedule returns to that of the rewind step too.
func TestLotteryRewindsThePlateau(t *testing.T) {
	f := demotest.Files(t)
	dir := filepath.Join(t.TempDir(), "run")
	_, err := Run(context.Background(), Options{Config: demotest.Config(t, f, "train.networks=1", "train.epochs=9", "train.schedule=plateau", "train.learning_rate=1e-12", "prune.method=lottery",
		"prune.target=0.8", "prune.scope=uniform", "prune.from=5%", "prune.to=95%"), RunDir: dir, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	events, err := rundir.ReadEvents(dir)
	if err != nil {
		t.Fatal(err)
	}
	var rates []float64
	for _, e := range events {
		if v, ok := e.Number("rate"); ok {
			rates = append(rates, v)
		}
	}
	lowered := slices.IndexFunc(rates, func(r float64) bool { return r < rates[0] })
	if lowered < 0 || !slices.Contains(rates[lowered:], rates[0]) {
		t.Errorf("rates %v: never lowered, or not %g again after the rewind", rates, rates[0])
	}
}

// Targets that the layers do not allow are refused before the first step.
func TestPruningRefuses(t *testing.T) {
	f := demotest.Files(t)
	for _, c := range []struct {
		name string
		set  []string
		code exit.Code
		want string
	}{
		{"no weight for each input", []string{"prune.target=0.995", "prune.scope=uniform"}, exit.Usage, "would remove layer"},
		{"one step", []string{"prune.target=0.5", "prune.from=50%", "prune.to=51%"}, exit.Usage, "starts and ends at step"},
		{"2:4 on a processor", []string{"prune.target=0.5", "prune.structure=2:4", "prune.kernels=sparse"}, exit.NoDevice, "no kernel of this device skips the zeros of prune.structure: 2:4"},
		{"single weights", []string{"prune.target=0.5", "prune.kernels=sparse"}, exit.NoDevice, "no kernel of this device skips the zeros of prune.structure: element"},
	} {
		dir := filepath.Join(t.TempDir(), "run")
		_, err := Run(context.Background(), Options{Config: demotest.Config(t, f, append(c.set, "prune.method=magnitude")...), RunDir: dir, Version: "test"})
		if exit.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want exit %d: %s", c.name, err, c.code, c.want)
		}
		if _, err := os.Stat(filepath.Join(dir, "checkpoints")); err == nil {
			t.Errorf("%s: refused after a checkpoint", c.name)
		}
	}
}
