package train

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
)

// TestTrainingSkipsMaskedBlocks checks that the plans of training and validation skip masked blocks to the
// extent that the mask is fixed, and give the same bits as dense plans.
func TestTrainingSkipsMaskedBlocks(t *testing.T) {
	train := func(kernels string) (weights string, sparse [2]int) {
		tr, _, err := trainRain(t, rainConfig(t, append(blockTraining("magnitude"), "prune.kernels="+kernels)...), nil)
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
		return finalBits(t, tr), sparse
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

// blockTraining are the settings of a short training that removes blocks.
func blockTraining(method string) []string {
	return []string{"train.networks=1", "train.epochs=4", "model.base=16", "prune.method=" + method, "prune.structure=block",
		"prune.target=0.6", "prune.from=10%", "prune.to=50%", "prune.every=1", "train.learning_rate=0.001"}
}

// finalBits are the weights of a finished training, as text.
func finalBits(t *testing.T, tr *trainer) (bits string) {
	t.Helper()
	for _, w := range tr.model.Networks[0] {
		v, err := w.Float32()
		if err != nil {
			t.Fatal(err)
		}
		bits += fmt.Sprintf("%s %x\n", w.Name, v)
	}
	return bits
}

// TestRegrowingTrainingSkipsBlocks checks that trainings with masks that regrow skip blocks from the first step on,
// without another compilation when the mask changes, with the bits of dense kernels. Only steps that change the mask
// compute the gradient of all blocks; by topkast none, and by sr_ste all.
func TestRegrowingTrainingSkipsBlocks(t *testing.T) {
	for _, method := range []string{"set", "rigl", "topkast", "sr_ste"} {
		var bits [2]string
		for i, kernels := range []string{"dense", "sparse"} {
			set := append(blockTraining(method), "prune.kernels="+kernels)
			if method == "set" || method == "rigl" {
				set = append(set, "prune.drop_fraction=0.7")
			}
			if method == "sr_ste" { // with more decay masks settle at once
				set = append(set, "prune.masked_decay=0.0002")
			}
			tr, _, err := trainRain(t, rainConfig(t, set...), nil)
			if err != nil {
				t.Fatal(err)
			}
			plans, masks := map[*network.Network]bool{}, map[string]bool{}
			var whole, all int // steps that compute the gradients of all blocks
			tr.observers.beforeStep = func(step uint64) {
				n := tr.current
				plans[n.train], masks[n.pruning.mask.Hash()] = true, true
				forward, gradients := 0, 0
				for _, nd := range n.train.Plan.Graph().Nodes {
					if op.MaskOf(nd.Attrs) == "" {
						continue
					}
					if nd.Op.Conv.Is(graph.ConvFilter) {
						gradients++
					} else if nd.Op.Conv.Is(graph.ConvForward) {
						forward++
					}
				}
				if all++; gradients == 0 {
					whole++
				}
				if (forward > 0) != (kernels == "sparse") {
					t.Errorf("%s, %s kernels: step %d has %d convolutions with masks", method, kernels, step, forward)
				}
			}
			if err := tr.loop(context.Background()); err != nil {
				t.Fatal(err)
			}
			byWeight := method == "topkast" || method == "sr_ste"
			// these choose by weights, of which the blocks of a layer have different numbers here: counts of blocks change too
			if bits[i] = finalBits(t, tr); len(masks) < 3 || len(plans) != 1 && !byWeight {
				t.Errorf("%s: %d masks and %d plans", method, len(masks), len(plans))
			}
			if kernels == "sparse" && ((whole == 0) != (method == "topkast") || whole > all/2 && method != "sr_ste") {
				t.Errorf("%s: the gradients of all blocks in %d of %d steps", method, whole, all)
			}
		}
		if bits[0] != bits[1] {
			t.Errorf("%s: the training has other bits", method)
		}
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
