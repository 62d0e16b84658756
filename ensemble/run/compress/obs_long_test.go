//go:build long

package compress

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/run/demo"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
)

// TestLongPruneAtOnce prunes demo networks of base 16 without training, and prints the share of the reduction in validation
// CRPS relative to the raw members that remains. By obs it is larger than by magnitude for all seeds and targets.
func TestLongPruneAtOnce(t *testing.T) {
	testdecoder.Path(t)
	root := t.TempDir()
	for _, seed := range []string{"1", "2", "3"} {
		o := demo.Options{Root: root, Threads: 1, Version: "test", Set: []string{"train.networks=1", "model.base=16", "train.threads=1", "train.seed=" + seed}}
		d, err := demo.Run(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, target := range []float64{0.5, 0.8} {
			kept := map[string]float64{}
			for _, method := range []string{"magnitude", "obs"} {
				text := "version: 1\nrun_dir: %s\nprune: {method: %s, structure: block, target: %g, keep: [enc_conv0]}\n"
				if method == "magnitude" {
					text += "epochs: 0\n"
				}
				job := pruneJob(t, text, d.RunDir, method, target)
				r, err := Prune(context.Background(), job, RetrainOptions{RunDir: filepath.Join(t.TempDir(), "pruned"), Version: "test"})
				if err != nil {
					t.Fatal(err)
				}
				dense, pruned := r.Table.Rows[0], r.Table.Rows[1]
				kept[method] = float64(pruned.Skill / dense.Skill)
				t.Logf("seed %s, target %g, %s: skill %.4f of %.4f (%.0f %%), %d of %d nonzero", seed, target, method, pruned.Skill, dense.Skill, 100*kept[method], pruned.Nonzeros, pruned.Parameters)
			}
			if kept["obs"] < kept["magnitude"] {
				t.Errorf("seed %s, target %g: %v", seed, target, kept)
			}
		}
	}
}
