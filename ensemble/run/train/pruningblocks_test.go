package train

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
)

// TestTrainingSkipsMaskedBlocks checks that the plans of training and validation skip masked blocks to the
// extent that the mask is fixed, and give the same bits as dense plans.
func TestTrainingSkipsMaskedBlocks(t *testing.T) {
	train := func(kernels string) (weights string, sparse [2]int) {
		tr, _, err := trainRain(t, rainConfig(t, "train.networks=1", "train.epochs=4", "model.base=16", "prune.method=magnitude", "prune.structure=block",
			"prune.kernels="+kernels, "prune.target=0.6", "prune.from=10%", "prune.to=50%", "prune.every=1", "train.learning_rate=0.001"), nil)
		if err != nil {
			t.Fatal(err)
		}
		tr.observers.report = func(int, string) {
			for i, n := range []*network.Network{tr.current.train, tr.current.eval} {
				sparse[i] = 0
				for _, nd := range n.Plan.Graph().Nodes {
					if a, ok := nd.Attrs.(op.FusedConv); ok && strings.Contains(string(a.Mask), "0") {
						sparse[i]++
					}
				}
			}
		}
		if err := tr.loop(context.Background()); err != nil {
			t.Fatal(err)
		}
		for _, w := range tr.model.Networks[0] {
			v, err := w.Float32()
			if err != nil {
				t.Fatal(err)
			}
			weights += fmt.Sprintf("%s %x\n", w.Name, v)
		}
		return weights, sparse
	}
	want, none := train("dense")
	got, sparse := train("sparse")
	if none != [2]int{} || sparse[0] == 0 || sparse[0] != sparse[1] {
		t.Errorf("%v convolutions skip zero blocks, and %v without a mask", sparse, none)
	}
	if got != want {
		t.Error("the training has other bits")
	}
}

func TestSparseKernelsOfBlocks(t *testing.T) {
	for _, c := range []struct {
		structure string
		block     config.PruneBlock
		want      bool
	}{
		{config.BlockStructure, config.PruneBlock{Out: 16, In: 16}, true},
		{config.BlockStructure, config.PruneBlock{Out: 32, In: 16}, true},
		{config.BlockStructure, config.PruneBlock{Out: 16, In: 8}, false},
		{config.ElementStructure, config.PruneBlock{Out: 16, In: 16}, false},
	} {
		if got := hasSparseKernels(config.Prune{Structure: c.structure, Block: c.block}); got != c.want {
			t.Errorf("%s %+v: %v", c.structure, c.block, got)
		}
	}
}
