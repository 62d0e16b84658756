package search

import (
	"math"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/spatial"
)

// An exchange costs a copy of the shard and its halo, 8 bytes a value, if upsampling reads them or a convolution of a few channels;
// convolutions of whole blocks of channels read the shard where it is. The computing time of a rank is that of its operations and
// of these copies.
func TestCopiesOfShardsArePriced(t *testing.T) {
	b := graph.New(1)
	conv := func(name string, x graph.Value, out int) graph.Value {
		w := b.Param(name+".weight", graph.Shape{out, x.Dim(1), 1, 3, 3}, graph.HeNormal(27))
		return op.Conv3D(b, x, w, op.Conv{Pad: op.SameGlobal(1, 3, 3)})
	}
	x := b.Input("x", graph.Shape{1, 16, 1, 16, 16})
	h := conv("blocks", x, 16)                   // halo of x: apart
	h = op.Upsample(b, h, [3]int{1, 2, 2}, true) // halo of h: a copy, also of the gradient
	h = conv("few", conv("more", h, 16), 2)      // "more": apart; "few": a copy of the gradient, with 2 channels
	b.Loss(op.L1(b, h, b.Input("target", graph.Shape{1, 2, 1, 32, 32})))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	whole, err := wholeStep(g, 0)
	if err != nil {
		t.Fatal(err)
	}
	mesh := parseMesh(t, "lat:2")
	m := Machine{FLOPs: math.Inf(1), Bytes: 1e9, IntraNode: fastLinks.IntraNode, InterNode: fastLinks.InterNode}
	e, step, err := newPricer(&m, Optimiser{State: 2}, mesh).price(whole, 0)
	if err != nil {
		t.Fatal(err)
	}
	var want float64
	apart, copied := 0, 0
	for _, id := range step.Sequence {
		n := step.Graph.Nodes[id]
		_, _, isExchange := spatial.RedistributionOf(n)
		switch {
		case isExchange && step.Halos[id]:
			apart++
		case isExchange:
			copied++
			want += 8 * float64(n.Shape.Size()) / m.Bytes
		case !spatial.IsDeferredSum(n):
			if _, isSum := spatial.SumAxes(n); !isSum {
				want += m.computeTime(workOf(step.Graph, n)).Seconds()
			}
		}
	}
	if apart < 3 || copied < 3 {
		t.Errorf("%d exchanges with halos apart and %d with copies: want 3 or more of each", apart, copied)
	}
	if got := e.Compute.Seconds(); math.Abs(got/want-1) > 1e-6 {
		t.Errorf("computing takes %g s, operations and copies %g s", got, want)
	}
}
