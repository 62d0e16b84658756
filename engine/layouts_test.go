package engine_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// layered is a small U-Net whose fields are large enough for every layout: 20
// channels make padding lanes, three levels the odd depth.
func layered(t testing.TB, depth int) *graph.Graph {
	t.Helper()
	b := graph.New(7)
	x := b.Input("x", graph.Shape{2, 11, depth, 16, 24})
	y := b.Input("y", graph.Shape{2, 1, depth, 16, 24})
	layer := func(name string, v graph.Value, out int) graph.Value {
		in := v.Dim(1)
		w := b.Param(name+".weight", graph.Shape{out, in, 3, 3, 3}, graph.HeNormal(in*27))
		c := b.Param(name+".bias", graph.Shape{out}, graph.KaimingUniform(in*27))
		return op.Bias(b, op.Conv3D(b, v, w, op.Conv{Pad: op.SameGlobal(3, 3, 3)}), c)
	}
	half := [3]int{1, 2, 2}
	e0 := op.ReLU(b, layer("enc0", x, 20))
	p0 := op.MaxPool(b, e0, half)
	e1 := op.MaxPool(b, op.ReLU(b, layer("enc1", p0, 24)), half)
	d1 := op.Concat(b, 1, op.Upsample(b, e1, half, true), p0)
	d1 = op.ReLU(b, layer("dec1", d1, 33))
	d0 := op.Concat(b, 1, op.Upsample(b, d1, half, true), x)
	d0 = op.ReLU(b, layer("dec0", d0, 16))
	out := layer("last", d0, 1)
	b.Output("out", out)
	b.Output("inner", d1) // leaves the graph and is read inside
	b.Loss(op.L1(b, out, y))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestLayouts: a network in the layouts that the backend prefers has the
// gradient of the reference, whatever the depth and the number of threads.
func TestLayouts(t *testing.T) {
	for _, depth := range []int{1, 2, 3} {
		t.Run(fmt.Sprintf("depth %d", depth), func(t *testing.T) {
			run := func(o engine.Options) *engine.Plan {
				o.Store = engine.NewStore()
				p := compile(t, layered(t, depth), o)
				train(t, p, 2)
				return p
			}
			want := run(engine.Options{Backend: "ref", Float64: true})
			first := run(engine.Options{Winograd: true, ByRule: true})
			blocked := 0
			for _, n := range first.Graph().Nodes {
				if n.Layout == graph.Blocked {
					blocked++
				}
			}
			if blocked < 10 {
				t.Errorf("%d blocked values, want the inside of the network", blocked)
			}
			// gradients of order 1e-3 after two steps: float32 rounding, twice for
			// Winograd's products, and the few points where a ReLU decides otherwise
			const tolerance = 1e-4
			if e := distance(first.Store().Grads(), want.Store().Grads()); e > tolerance {
				t.Errorf("gradient differs by %.2e", e)
			}
			for _, name := range []string{"out", "inner"} {
				if e := distance(first.Output(name), want.Output(name)); e > tolerance {
					t.Errorf("output %s differs by %.2e", name, e)
				}
			}
			second := run(engine.Options{Winograd: true, ByRule: true, Threads: 2})
			if bits(first.Store()) != bits(second.Store()) {
				t.Error("two threads give other bits than one")
			}
		})
	}
}

// distance is the relative distance in the L2 norm.
func distance(got, want []float32) float64 {
	var d, n float64
	for i, w := range want {
		d += float64(got[i]-w) * float64(got[i]-w)
		n += float64(w) * float64(w)
	}
	return math.Sqrt(d / n)
}
