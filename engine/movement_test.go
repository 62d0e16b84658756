package engine_test

import (
	"math"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// TestMovementOracle compares bytes and FLOPs of the block 42 → 8 channels at
// 1/8 of the published field (2×44×88 points) with closed forms: input + filter
// + result for the fused convolution, two fields and the values per channel for
// the normalisation.
func TestMovementOracle(t *testing.T) {
	const d, h, w, in, out = 2, 44, 88, 42, 8
	b := graph.New(1)
	x := b.Input("x", graph.Shape{1, in, d, h, w})
	f := b.Param("w", graph.Shape{out, in, 3, 3, 3}, graph.HeNormal(in*27))
	c := b.Param("b", graph.Shape{out}, graph.Zeros())
	y := op.ReLU(b, op.Bias(b, op.Conv3D(b, x, f, op.Conv{Pad: op.Same(3, 3, 3)}), c))
	mean, vari := b.State("mean", graph.Shape{out}, graph.Zeros()), b.State("var", graph.Shape{out}, graph.Ones())
	gamma, beta := b.Param("gamma", graph.Shape{out}, graph.Ones()), b.Param("beta", graph.Shape{out}, graph.Zeros())
	y = op.BatchNorm(b, y, gamma, beta, mean, vari, op.BatchNormOptions{})
	b.Output("y", y)
	b.Loss(op.Mean(b, op.Square(b, y)))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	peak := engine.Peaks{FLOPs: 20e9, Bytes: 10e9} // convolutions are bound by compute, in Winograd's form too
	p := compile(t, g, engine.Options{Device: engine.Device{Backend: "ref"}})
	const v = d * h * w
	const I, E, W, one = 8 * in * v, 8 * out * v, 8 * 27 * in * out, 8 * out // ref stores 8 bytes per value
	// 4 of 6 taps in depth fall inside the field
	const product = 2 * in * out * 9 * 4 * h * w
	want := map[string]struct {
		class        engine.Class
		back         bool
		flops, bytes int64
		bound        engine.Bound
	}{
		"conv3d_fused":            {engine.Contraction, false, product + 2*out*v, I + W + E + one, engine.ByCompute},
		"channel_moments":         {engine.Normalisation, false, 4 * out * v, E + 4*one, engine.ByMemory},
		"channel_norm":            {engine.Normalisation, false, 2 * out * v, 2*E + 4*one, engine.ByMemory},
		"channel_norm_fused_grad": {engine.Normalisation, true, 4 * out * v, 3*E + 5*one, engine.ByMemory},
		"channel_norm_sums":       {engine.Normalisation, true, 4 * out * v, 2*E + 4*one, engine.ByMemory},
		"relu_grad":               {engine.Pointwise, true, out * v, 3 * E, engine.ByMemory},
		"conv3d_grad_filter":      {engine.Contraction, true, product, I + E + W, engine.ByCompute},
		"slice":                   {engine.Copying, false, 0, 2 * one, engine.ByMemory},
	}
	seen := map[string]bool{}
	for _, m := range p.Movement(peak) {
		o, ok := want[m.Op]
		if !ok || seen[m.Op] {
			continue
		}
		seen[m.Op] = true
		if m.Class != o.class || m.Backward != o.back || m.FLOPs != o.flops || m.Bytes != o.bytes || m.Bound != o.bound {
			t.Errorf("%s: %s, backward %v, %d FLOPs, %d bytes, bound by %s; want %+v", m.Op, m.Class, m.Backward, m.FLOPs, m.Bytes, m.Bound, o)
		}
		if bound := max(float64(m.LeastFLOPs)/20e9, float64(m.Bytes)/10e9); math.Abs(m.BoundS-bound) > 1e-12*bound {
			t.Errorf("%s: bound %g s, want %g s", m.Op, m.BoundS, bound)
		}
		if m.MeasuredS != 0 || m.MUE != 0 {
			t.Errorf("%s: measured %g s, MUE %g without a profile", m.Op, m.MeasuredS, m.MUE)
		}
	}
	if len(seen) != len(want) {
		t.Errorf("the plan has %v of the operations %v", seen, want)
	}
}

// TestMovementMeasured verifies that every kernel has a time after a profiled
// run, and that MUE is the achieved share of the bandwidth.
func TestMovementMeasured(t *testing.T) {
	p := compile(t, unet(t, 1, 1), engine.Options{Device: engine.Device{Backend: "ref"}, Debug: engine.Debug{Profile: true}})
	train(t, p, 1)
	const rate = 1e9
	for _, m := range p.Movement(engine.Peaks{Bytes: rate}) {
		if want := 100 * float64(m.Bytes) / m.MeasuredS / rate; !(m.MeasuredS > 0) || math.Abs(m.MUE-want) > 1e-9*want {
			t.Errorf("%s: %g s, MUE %g %%, want %g %%", m.Op, m.MeasuredS, m.MUE, want)
		}
	}
}

// TestMovementBlocked verifies that the traffic of a blocked value of 20
// channels includes its 12 padding lanes.
func TestMovementBlocked(t *testing.T) {
	b := graph.New(1)
	x := b.Input("x", graph.Shape{2, 20, 2, 4, 6})
	y := op.ReLU(b, op.Reorder(b, x, graph.Blocked))
	y.SetLayout(graph.Blocked)
	b.Output("y", op.Reorder(b, y, graph.Plain))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	const plain, blocked = 4 * 2 * 20 * 2 * 4 * 6, 4 * 2 * 32 * 2 * 4 * 6
	for i, want := range map[int]int64{1: plain + blocked, 2: 2 * blocked, 3: blocked + plain} {
		if got := engine.BytesOf(g, g.Nodes[i]); got != want {
			t.Errorf("%s moves %d bytes, want %d", g.Nodes[i].Op.Name, got, want)
		}
	}
}

// TestBoundWithCaches: bytes that fit into each level of caches count at its rate, the rest at that of memory; an unknown or a
// slower cache changes nothing.
func TestBoundWithCaches(t *testing.T) {
	near := []engine.CacheLevel{{Size: 40, Bytes: 20}}
	two := append(near, engine.CacheLevel{Size: 20, Bytes: 10})
	for _, c := range []struct {
		peak  engine.Peaks
		bytes int64
		want  float64
	}{
		{engine.Peaks{Bytes: 10}, 100, 10},
		{engine.Peaks{Bytes: 10, Caches: near}, 20, 1},
		{engine.Peaks{Bytes: 10, Caches: near}, 100, 8},
		{engine.Peaks{Bytes: 10, Caches: []engine.CacheLevel{{Size: 40, Bytes: 5}}}, 100, 10},
		{engine.Peaks{Bytes: 8, Caches: two}, 45, 2.5},
		{engine.Peaks{Bytes: 8, Caches: two}, 100, 9},
		{engine.Peaks{FLOPs: 1, Bytes: 10, Caches: near}, 20, 7},
	} {
		if got, _ := c.peak.Bound(7, c.bytes); got != c.want {
			t.Errorf("%+v, %d bytes: %g s, want %g s", c.peak, c.bytes, got, c.want)
		}
	}
}

// TestMovementOfNormBlocks compares the bytes of two blocks of convolution, batch normalisation and ReLU with the oracle of
// data movement, in fields I and E of the operand and the result and filters W. Without fusion a block moves 3I + 3W + 16E:
// I + W + 6E forward, 2I + 2W + 10E backward. The plan moves 3I + 3W + 11E. Of the fused 3I + 3W + 10E it lacks only the
// statistics in the epilogue of the convolution, E. So it moves 15.7 % and 25.1 % less, of 18.9 % and 30.1 %.
//
// The second block follows the first, as in a network: its convolution does not read the result of the ReLU in the
// backward pass either.
func TestMovementOfNormBlocks(t *testing.T) {
	for out, cut := range map[int]float64{8: 0.157, 32: 0.251} {
		const d, h, w, in = 2, 44, 88, 42
		b := graph.New(1)
		x := b.Param("x", graph.Shape{1, in, d, h, w}, graph.Ones()) // so that the gradient of the operand is computed
		block := func(name string, x graph.Value) graph.Value {
			c := graph.Shape{out}
			y := op.Conv3D(b, x, b.Param(name, graph.Shape{out, x.Dim(1), 3, 3, 3}, graph.HeNormal(27*x.Dim(1))), op.Conv{Pad: op.Same(3, 3, 3)})
			return op.ReLU(b, op.BatchNorm(b, y, b.Param(name+".gamma", c, graph.Ones()), b.Param(name+".beta", c, graph.Zeros()),
				b.State(name+".mean", c, graph.Zeros()), b.State(name+".var", c, graph.Ones()), op.BatchNormOptions{}))
		}
		y := block("second", block("first", x))
		b.Output("y", y)
		b.Loss(op.Mean(b, op.Square(b, y)))
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		p := compile(t, g, engine.Options{Device: engine.Device{Backend: "ref"}})
		const v, elem = d * h * w, 8 // ref stores 8 bytes per value
		I, E, one := elem*in*v, elem*out*v, elem*out
		I2, W, W2 := E, elem*27*in*out, elem*27*out*out
		want := I + W + E + I2 + W2 + E // convolutions
		want += 2 * (E + 4*one)         // moments, of which [2 C] and the running ones [C] are small
		want += 2 * (2*E + 4*one)       // normalisation and ReLU
		want += 2 * (2*E + 6*one)       // sums of the backward pass, of x and dy
		want += 2 * (3*E + 6*one)       // its map
		want += 2*(I+W+E) + 2*(I2+W2+E) // gradients of operands and filters
		got := 0
		for _, m := range p.Movement(engine.Peaks{}) {
			if m.Op == "conv3d" || m.Class == engine.Contraction || m.Class == engine.Normalisation && len(m.Shape) == 5 || m.Op == "channel_moments" || m.Op == "channel_norm_fused_sums" {
				got += int(m.Bytes)
			}
		}
		if got != want {
			t.Errorf("%d channels: blocks move %d bytes, want %d", out, got, want)
		}
		if first, fused := got-(3*I2+3*W2+11*E), 3*I+3*W+11*E; first < fused || float64(first) > 1.001*float64(fused) { // values per channel are small
			t.Errorf("%d channels: a block moves %d bytes, want %d", out, first, fused)
		}
		// At the published size, in bytes of the field of a channel and of a filter of two channels.
		const field, filter = 4 * 2 * 352 * 704, 4 * 27
		i, e, f := in*field, out*field, in*out*filter
		if saved := float64(5*e) / float64(3*i+3*f+16*e); math.Abs(saved-cut) > 1e-3 {
			t.Errorf("%d channels: fusion saves %.4f of the bytes of a block, want %g", out, saved, cut)
		}
	}
}
