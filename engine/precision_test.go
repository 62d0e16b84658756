package engine_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/engine/rng"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// bf16 returns the options of a plan in bfloat16.
func bf16() engine.Options {
	return engine.Options{Numerics: engine.Numerics{Precision: "bf16", Winograd: true, UseHeuristics: true}, Reuse: engine.Reuse{Store: engine.NewStore()}}
}

// gradientTolerance16 bounds the relative error of a gradient with bfloat16
// activations. Rounding changes each value by at most 2⁻⁸/√3 in root mean
// square, independently. There are some ten roundings between input and loss,
// and as many in the backward pass: √20·2⁻⁸/√3 = 1.0e-2. The tolerance is twice
// that, for the points where a ReLU, a maximum or the sign of the loss
// switches.
const gradientTolerance16 = 2e-2

// gradientToleranceProducts is the tolerance for convolutions that multiply
// bfloat16: somewhat above the observed 4.6e-2 at depth 1 and 2.4e-2 at depth
// 2. A layer changes its result by 1.1e-2 to 3.2e-2.
const gradientToleranceProducts = 6e-2

// TestPrecisionGradient verifies that a network in bfloat16 has the gradient of
// the reference, the same bits for any number of threads, and also under a
// memory limit.
func TestPrecisionGradient(t *testing.T) {
	for precision, tolerance := range map[string]float64{"bf16": gradientTolerance16, "bf16_products": gradientToleranceProducts} {
		t.Run(precision, func(t *testing.T) { precisionGradient(t, precision, tolerance) })
	}
}

func precisionGradient(t *testing.T, precision string, tolerance float64) {
	bf16 := func() engine.Options {
		o := bf16()
		o.Precision = precision
		return o
	}
	for _, depth := range []int{1, 2, 3} {
		t.Run(fmt.Sprintf("depth %d", depth), func(t *testing.T) {
			run := func(o engine.Options) *engine.Plan {
				p := compile(t, layered(t, depth), o)
				train(t, p, 1)
				return p
			}
			first := run(bf16())
			want := run(engine.Options{Device: engine.Device{Backend: "ref"}, Numerics: engine.Numerics{Float64: true}})
			if e := distance(first.Store().Grads(), want.Store().Grads()); e > tolerance || e < 1e-4 {
				t.Errorf("gradient differs by %.2e, want more than 1e-4 and at most %g", e, tolerance)
			}
			for _, name := range []string{"out", "inner"} {
				if e := distance(first.Output(name), want.Output(name)); e > tolerance {
					t.Errorf("output %s differs by %.2e", name, e)
				}
			}
			for _, threads := range []int{2, 3} {
				o := bf16()
				o.Threads = threads
				if p := run(o); bits(p.Store()) != bits(first.Store()) {
					t.Errorf("%d threads give other bits than one", threads)
				}
			}
			o := bf16()
			o.Memory.Limit = first.ArenaBytes()*9/10 + first.ScratchBytes()
			small := run(o)
			if small.ArenaBytes()+small.ScratchBytes() > o.Memory.Limit || bits(small.Store()) != bits(first.Store()) {
				t.Errorf("under a limit of %d bytes: %d bytes, or other bits", o.Memory.Limit, small.ArenaBytes()+small.ScratchBytes())
			}
		})
	}
}

// TestPrecisionPoints verifies that layers with filters of one grid point, too, have the gradient of the
// reference in bf16_products, and that with many channels the kernel of larger filters computes them where there
// is one for both.
func TestPrecisionPoints(t *testing.T) {
	b := graph.New(3)
	x, y := b.Input("x", graph.Shape{2, 40, 2, 11, 24}), b.Input("y", graph.Shape{2, 32, 2, 11, 24})
	layer := func(name string, v graph.Value, out, side int) graph.Value {
		w := b.Param(name, graph.Shape{out, v.Dim(1), 1, side, side}, graph.HeNormal(v.Dim(1)*side*side))
		return op.Bias(b, op.Conv3D(b, v, w, op.Conv{Pad: op.Same(1, side, side)}), b.Param(name+".bias", graph.Shape{out}, graph.Zeros()))
	}
	u := op.ReLU(b, layer("point", op.ReLU(b, layer("first", x, 64, 3)), 80, 1))
	out := layer("last", op.ReLU(b, layer("second", u, 16, 1)), 32, 3)
	b.Output("out", out)
	b.Loss(op.MSE(b, out, y))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	run := func(o engine.Options) *engine.Plan {
		p := compile(t, g, o)
		train(t, p, 1)
		return p
	}
	o := bf16()
	o.Precision = "bf16_products"
	got, want := run(o), run(engine.Options{Device: engine.Device{Backend: "ref"}, Numerics: engine.Numerics{Float64: true}})
	if e := distance(got.Store().Grads(), want.Store().Grads()); e > gradientToleranceProducts || e < 1e-4 {
		t.Errorf("gradient differs by %.2e, want more than 1e-4 and at most %g", e, gradientToleranceProducts)
	}
	if e := distance(got.Output("out"), want.Output("out")); e > gradientToleranceProducts {
		t.Errorf("output differs by %.2e", e)
	}
	kernels, products := map[string]int{}, 0
	for _, m := range got.Movement(engine.Peaks{}) {
		if m.Class == engine.Contraction {
			kernels[m.Kernel]++
		}
		if m.BF16Products {
			products++
		}
		if m.Kernel == "direct" && !m.BF16Products || m.BF16Products && m.Class != engine.Contraction {
			t.Errorf("%s by kernel %s: multiplies bfloat16 %v", m.Op, m.Kernel, m.BF16Products)
		}
	}
	if products < 8 { // three passes of the inner layers, two of the outer ones
		t.Errorf("%d convolutions multiply bfloat16", products)
	}
	for _, m := range run(bf16()).Movement(engine.Peaks{}) {
		if m.BF16Products {
			t.Errorf("%s multiplies bfloat16 where fields are only stored so", m.Op)
		}
	}
	if kernels["direct"] > 0 && (kernels["point"] != 2 || kernels["point filter"] != 1) { // those of second
		t.Errorf("kernels of convolutions: %v, want direct ones for all but those with 16 channels", kernels)
	}
}

// TestPrecisionKinds verifies that batch normalisation, dropout, differences
// and products of bfloat16 fields follow the reference, alone and in chains.
func TestPrecisionKinds(t *testing.T) {
	b := graph.New(3)
	s := graph.Shape{2, 16, 2, 16, 24}
	x, y := b.Input("x", s), b.Input("y", s)
	layer := func(name string, v graph.Value) graph.Value {
		w := b.Param(name, graph.Shape{16, 16, 3, 3, 3}, graph.HeNormal(16*27))
		return op.Conv3D(b, v, w, op.Conv{Pad: op.SameGlobal(3, 3, 3)})
	}
	u := layer("one", x)
	u = op.BatchNorm(b, u, b.Param("gamma", graph.Shape{16}, graph.Ones()), b.Param("beta", graph.Shape{16}, graph.Zeros()),
		b.State("mean", graph.Shape{16}, graph.Zeros()), b.State("var", graph.Shape{16}, graph.Ones()), op.BatchNormOptions{})
	u = op.Dropout(b, op.ReLU(b, u), 0.2)
	v := layer("two", u)
	z := op.Sub(b, op.Mul(b, v, u), op.Scale(b, layer("three", op.Add(b, u, v)), 0.25))
	b.Output("out", z)
	b.Loss(op.MSE(b, layer("four", z), y))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	run := func(t *testing.T, o engine.Options) *engine.Plan {
		p := compile(t, g, o)
		train(t, p, 1)
		return p
	}
	want := run(t, engine.Options{Device: engine.Device{Backend: "ref"}, Numerics: engine.Numerics{Float64: true}})
	kinds := []string{"add", "dropout", "channel_norm_fused", "conv3d"}
	for _, c := range []struct {
		name   string
		passes []pass.Pass
		kinds  []string
	}{
		{"chains", pass.List, append(kinds[:4:4], "elementwise_chain")},
		{"alone", unchained(), append(kinds[:4:4], "sub", "mul", "scale")},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := bf16()
			o.Passes = c.passes
			got := run(t, o)
			if e := distance(got.Store().Grads(), want.Store().Grads()); e > gradientTolerance16 {
				t.Errorf("gradient differs by %.2e", e)
			}
			if e := distance(got.Store().States(), want.Store().States()); e > gradientTolerance16 {
				t.Errorf("running statistics differ by %.2e", e)
			}
			blocked := map[string]bool{}
			for _, n := range got.Graph().Nodes {
				if n.Kind == graph.KindOp && n.DType == graph.BFloat16 {
					blocked[n.Op.Name] = true
				}
			}
			for _, name := range c.kinds {
				if !blocked[name] {
					t.Errorf("no %s gives bfloat16: %v", name, blocked)
				}
			}
		})
	}
}

// even is a network of convolutions whose channels fill whole blocks.
func even(t testing.TB) *graph.Graph {
	t.Helper()
	b := graph.New(7)
	x := b.Input("x", graph.Shape{1, 16, 2, 16, 24})
	y := b.Input("y", graph.Shape{1, 16, 2, 16, 24})
	v := x
	for i, c := range []int{32, 48, 64, 48, 32, 16} {
		w := b.Param(fmt.Sprint("w", i), graph.Shape{c, v.Dim(1), 3, 3, 3}, graph.HeNormal(v.Dim(1)*27))
		if v = op.Conv3D(b, v, w, op.Conv{Pad: op.SameGlobal(3, 3, 3)}); i < 5 {
			v = op.ReLU(b, v)
		}
	}
	b.Loss(op.MSE(b, v, y))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// activations is the memory of a plan without the values that always stay
// float32: inputs, outputs and constants, whose buffers are never reused.
func activations(p *engine.Plan) int64 {
	n := p.ArenaBytes()
	for _, nd := range p.Graph().Nodes {
		if nd.Kind == graph.KindInput || nd.Kind == graph.KindConst {
			n -= 4 * int64(nd.Elems())
		}
	}
	return n
}

// TestPrecisionMemory verifies that activations take half of the bytes, and
// that parameters and outputs stay float32.
func TestPrecisionMemory(t *testing.T) {
	o := bf16()
	o.Precision = "f32"
	full, half := compile(t, even(t), o), compile(t, even(t), bf16())
	if r := float64(activations(half)) / float64(activations(full)); r > 0.55 {
		t.Errorf("activations take %.3f of their bytes in float32, want 0.55 at most", r)
	}
	for _, n := range half.Graph().Nodes {
		want := graph.Float32
		if n.Layout == graph.Blocked {
			want = graph.BFloat16
		}
		if n.DType != want {
			t.Errorf("%s %s %v %v is stored as %v", n.Kind, n.Label(), n.Shape, n.Layout, n.DType)
		}
	}
	for _, n := range half.Graph().Nodes {
		if n.Kind == graph.KindOp && n.Op.Name == "reorder" { // one operand in float32, the other in 16 bits
			if got, want := engine.BytesOf(half.Graph(), n), int64(6*n.Shape.Size()); got != want {
				t.Errorf("reorder of %v moves %d bytes, want %d", n.Shape, got, want)
			}
		}
	}
}

// TestPrecisionLearns verifies, over 50 steps of Adam, that the loss in
// bfloat16 differs from that in float32 by less than losses of different seeds
// do: at every step, the root mean square difference over five seeds is below
// their spread.
func TestPrecisionLearns(t *testing.T) {
	const seeds, steps = 5, 50
	curve := func(seed uint64, precision string) []float64 {
		o := bf16()
		o.Precision = precision
		g := layered(t, 2)
		g.Seed = seed
		p := compile(t, g, o)
		a, err := optim.New(p.Store(), optim.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		var losses []float64
		for step := range steps {
			// a target that can be learned: smooth in the inputs, with other fields in every step
			fill(p.Input("x"), rng.Key(1, seed, uint64(step)))
			x, y := p.Input("x"), p.Input("y")
			plane := len(y) / 2
			for i := range y {
				n := i / plane
				y[i] = x[n*11*plane+i%plane] + 0.5*x[(n*11+1)*plane+i%plane]
			}
			if err := p.Run(context.Background(), uint64(step)); err != nil {
				t.Fatal(err)
			}
			losses = append(losses, p.Loss())
			if _, err := a.Step(1e-3); err != nil {
				t.Fatal(err)
			}
		}
		return losses
	}
	var full, half [seeds][]float64
	for k := range seeds {
		full[k], half[k] = curve(uint64(k+1), "f32"), curve(uint64(k+1), "bf16")
	}
	var first, last float64
	for s := range steps {
		var mean, spread, diff float64
		for k := range seeds {
			mean += full[k][s] / seeds
		}
		for k := range seeds {
			spread += (full[k][s] - mean) * (full[k][s] - mean) / (seeds - 1)
			diff += (half[k][s] - full[k][s]) * (half[k][s] - full[k][s]) / seeds
		}
		if !(diff <= spread) {
			t.Errorf("step %d: bfloat16 differs by %.2e, the seeds among themselves by %.2e", s, math.Sqrt(diff), math.Sqrt(spread))
		}
		if s == 0 {
			first = mean
		}
		last = mean
	}
	if !(last < 0.8*first) {
		t.Errorf("loss falls from %.3f to %.3f only: nothing is learned", first, last)
	}
}

// TestPrecisionErrors lists the precisions that Compile rejects.
func TestPrecisionErrors(t *testing.T) {
	for _, c := range []struct {
		o    engine.Options
		want exit.Code
	}{
		{engine.Options{Device: engine.Device{Backend: "ref"}, Numerics: engine.Numerics{Precision: "bf16"}}, exit.NoDevice},
		{engine.Options{Device: engine.Device{Backend: "ref"}, Numerics: engine.Numerics{Precision: "f8"}}, exit.Usage},
		{engine.Options{Device: engine.Device{Backend: "cpu"}, Numerics: engine.Numerics{Precision: "f16"}}, exit.NoDevice},
	} {
		if _, err := engine.Compile(even(t), c.o); exit.CodeOf(err) != c.want {
			t.Errorf("%+v: %v, want exit code %d", c.o, err, c.want)
		}
	}
	if p := compile(t, even(t), engine.Options{Device: engine.Device{Backend: "ref"}, Numerics: engine.Numerics{Precision: "f32"}}); p.Graph().Nodes[0].DType != graph.Float32 {
		t.Error("precision f32 changes the reference")
	}
}
