//go:build long

package train_test

import (
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
)

// TestLongPruning runs TestPruningResumes for all methods and structures.
func TestLongPruning(t *testing.T) {
	f := demotest.Files(t)
	for _, c := range []pruningCase{
		{"two networks", []string{"prune.method=magnitude", "prune.scope=global", "prune.every=2", "train.networks=2", "train.ema=0.7"}, []int{3, 5, 6}},
		{"random", []string{"prune.method=random", "prune.every=2"}, []int{5}},
		{"movement", []string{"prune.method=movement", "prune.every=2", "train.ema=0.7", "train.batch_size=2", "train.accumulate=2"}, []int{5, 6}},
		{"rigl", []string{"prune.method=rigl", "prune.scope=uniform", "prune.every=2"}, []int{3, 2}},
		{"set", []string{"prune.method=set", "prune.every=3"}, []int{5}},
		{"topkast", []string{"prune.method=topkast", "prune.every=3", "train.batch_size=2", "train.accumulate=2"}, []int{5, 6}},
		{"sr_ste", []string{"prune.method=sr_ste", "prune.every=3", "train.batch_size=2", "train.accumulate=2"}, []int{5, 6}},
		{"2:4", []string{"prune.method=sr_ste", "prune.structure=2:4", "prune.every=1"}, []int{4}},
		{"blocks of soft thresholds", []string{"prune.method=soft_threshold", "prune.structure=block", "prune.every=2", "prune.to=40%", "model.base=16"}, []int{3, 5}},
		{"lottery", []string{"prune.method=lottery"}, []int{4, 5}},
		{"lottery with an average", []string{"prune.method=lottery", "train.ema=0.7", "train.networks=2"}, []int{4, 5, 14}},
		{"early bird", []string{"prune.method=early_bird", "prune.early_bird.distance=0.3", "prune.early_bird.epochs=1"}, []int{6}},
		{"blocks", []string{"prune.method=magnitude", "prune.structure=block", "prune.block.out=2", "prune.block.in=2", "prune.every=2"}, []int{4}},
		{"narrow blocks", []string{"prune.method=movement", "prune.structure=block", "prune.scope=global", "prune.block.out=2", "prune.block.in=1", "prune.every=2"}, []int{4}},
		{"blocks that kernels skip", []string{"prune.method=magnitude", "prune.structure=block", "prune.kernels=sparse", "prune.every=2", "model.base=16", "train.ema=0.7"}, []int{4, 4}},
		{"random blocks that return", []string{"prune.method=set", "prune.structure=block", "prune.scope=uniform", "prune.every=2", "model.base=16"}, []int{9}},
		{"2:4", []string{"prune.method=magnitude", "prune.structure=2:4", "prune.every=2"}, []int{4}},
	} {
		t.Run(c.name, func(t *testing.T) { c.prunes(t, f) })
	}
}

// TestLongPruningOnRanks runs TestPruningOnRanks for meshes and methods.
func TestLongPruningOnRanks(t *testing.T) {
	f := demotest.Files(t)
	t.Run("blocks", func(t *testing.T) {
		pruningRanks(t, f, "data:2 lat:2", 4, "prune.method=magnitude", "prune.structure=block", "prune.every=2", "model.base=16")
	})
	for mesh, ranks := range map[string]int{"data:2": 2, "lon:3": 3, "data:2 lat:2": 4} {
		for _, method := range []string{"magnitude", "movement", "rigl", "topkast", "sr_ste", "soft_threshold", "lottery"} {
			t.Run(method+" "+mesh, func(t *testing.T) {
				set := []string{"prune.method=" + method, "prune.every=2"}
				if method == "lottery" { // has no use for it
					set = set[:1]
				}
				pruningRanks(t, f, mesh, ranks, set...)
			})
		}
	}
}
