package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend/ref/reftest"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/engine/rng"
	"github.com/ensemble-weather/ensemble/internal/allocs"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// unet is a small network with every kind of layer of the 3-D U-Net, with batch
// normalisation and dropout.
func unet(t testing.TB, batch int, seed uint64) *graph.Graph {
	t.Helper()
	b := graph.New(seed)
	x := b.Input("x", graph.Shape{batch, 3, 2, 8, 16})
	y := b.Input("y", graph.Shape{batch, 1, 2, 8, 16})
	conv := func(name string, v graph.Value, out int) graph.Value {
		in := v.Dim(1)
		w := b.Param(name+".weight", graph.Shape{out, in, 3, 3, 3}, graph.HeNormal(in*27))
		c := b.Param(name+".bias", graph.Shape{out}, graph.KaimingUniform(in*27))
		return op.Bias(b, op.Conv3D(b, v, w, op.Conv{Pad: op.SameGlobal(3, 3, 3)}), c)
	}
	e0 := op.ReLU(b, conv("enc0", x, 4))
	p := op.MaxPool(b, e0, [3]int{1, 2, 2})
	e1 := op.Dropout(b, op.ReLU(b, conv("enc1", p, 6)), 0.1)
	norm := func(name string, v float64) graph.Value {
		return b.Param(name, graph.Shape{6}, graph.Fill(v))
	}
	mean := b.State("norm.running_mean", graph.Shape{6}, graph.Zeros())
	vari := b.State("norm.running_var", graph.Shape{6}, graph.Ones())
	e1 = op.BatchNorm(b, e1, norm("norm.weight", 1), norm("norm.bias", 0), mean, vari, op.BatchNormOptions{})
	u := op.Concat(b, 1, op.Upsample(b, e1, [3]int{1, 2, 2}, true), x)
	out := op.AddScalar(b, op.Softplus(b, conv("dec0", u, 1)), 1e-3)
	b.Output("spread", out)
	b.Loss(op.Mean(b, op.GaussianCRPS(b, op.Slice(b, x, 1, 0, 1), out, y)))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// compile compiles g, and skips the test if the device is missing.
func compile(t testing.TB, g *graph.Graph, o engine.Options) *engine.Plan {
	t.Helper()
	p, err := engine.Compile(g, o)
	if exit.CodeOf(err) == exit.NoDevice && o.Memory.Limit == 0 {
		t.Skip("skipped: no device: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// available lists the backends of this build and machine; ref is always
// available.
func available(t testing.TB) []string {
	t.Helper()
	var names []string
	for _, b := range engine.Backends {
		dev, err := b.Open(engine.Options{Device: engine.Device{Threads: 1}})
		if err == nil {
			names = append(names, b.Name)
			err = dev.Close()
		} else if exit.CodeOf(err) == exit.NoDevice && b.Name != "ref" {
			t.Logf("left out: %v", err)
			err = nil
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return names
}

func fill(v []float32, key uint64) {
	for i := range v {
		v[i] = float32(rng.Normal(key, uint64(i)))
	}
}

// train runs steps of plain gradient descent and returns the losses.
func train(t testing.TB, p *engine.Plan, steps int) []float64 {
	t.Helper()
	var losses []float64
	s := p.Store()
	for step := range steps {
		fill(p.Input("x"), rng.Key(1, uint64(step%2)))
		fill(p.Input("y"), rng.Key(2, uint64(step%2)))
		if err := p.Run(context.Background(), uint64(step)); err != nil {
			t.Fatal(err)
		}
		losses = append(losses, p.Loss())
		for i, g := range s.Grads() {
			s.Params()[i] -= 0.05 * g
		}
	}
	return losses
}

// bits returns the exact contents of a store.
func bits(s *engine.Store) string {
	var b strings.Builder
	for _, flat := range [][]float32{s.Params(), s.Grads(), s.States()} {
		for _, v := range flat {
			fmt.Fprintf(&b, "%08x", math.Float32bits(v))
		}
	}
	return b.String()
}

// TestTrainingLearns verifies that gradient descent lowers the loss on every
// backend, and that the backends agree step by step.
func TestTrainingLearns(t *testing.T) {
	want := train(t, compile(t, unet(t, 2, 1), engine.Options{Device: engine.Device{Backend: "ref"}}), 8)
	if !(want[7] < want[1]-0.01) {
		t.Errorf("losses on ref %v, want a clear fall", want)
	}
	for _, name := range available(t) {
		for _, o := range []engine.Options{{}, {Numerics: engine.Numerics{Winograd: true}, Device: engine.Device{Threads: 2}}} {
			o.Backend = name
			got := train(t, compile(t, unet(t, 2, 1), o), 8)
			for i := range want {
				// 2⁻²³ per operation, amplified by eight steps of descent
				if math.Abs(got[i]-want[i]) > 2e-5 {
					t.Errorf("%s: losses %v, on ref %v", name, got, want)
					break
				}
			}
		}
	}
}

// TestSameBits verifies that three steps give the same bytes twice, on newly
// compiled plans with the kernels of the first one, and that another seed gives
// other bytes.
func TestSameBits(t *testing.T) {
	for _, name := range available(t) {
		var ruled []string
		o := engine.Options{Device: engine.Device{Backend: name, Threads: 2}}
		first := compile(t, unet(t, 2, 1), o)
		train(t, first, 3)
		o.Choices = first.Choices()
		second := compile(t, unet(t, 2, 1), o)
		train(t, second, 3)
		if bits(first.Store()) != bits(second.Store()) {
			t.Errorf("%s: two runs with the same seed differ", name)
		}
		for _, p := range []*engine.Plan{
			compile(t, unet(t, 2, 1), engine.Options{Device: engine.Device{Backend: name, Threads: 2}, Numerics: engine.Numerics{UseHeuristics: true}}),
			compile(t, unet(t, 2, 1), engine.Options{Device: engine.Device{Backend: name, Threads: 2}, Numerics: engine.Numerics{UseHeuristics: true}}),
		} {
			train(t, p, 3)
			if name == "ref" && bits(p.Store()) != bits(first.Store()) {
				t.Error("ref has no choices, yet the bits differ by rule")
			}
			ruled = append(ruled, bits(p.Store()))
		}
		if ruled[0] != ruled[1] {
			t.Errorf("%s: two runs with kernels chosen by rule differ", name)
		}
		third := compile(t, unet(t, 2, 2), o)
		train(t, third, 3)
		if bits(first.Store()) == bits(third.Store()) {
			t.Errorf("%s: another seed gives the same bits", name)
		}
	}
}

// TestResumedBits verifies that training continues with the same bits after
// parameters and states were copied to a new store.
func TestResumedBits(t *testing.T) {
	o := engine.Options{}
	through := compile(t, unet(t, 2, 1), o)
	train(t, through, 2)
	o.Choices = through.Choices()
	later := compile(t, unet(t, 2, 9), o)
	for _, e := range through.Store().Entries() {
		v, _, _ := through.Store().Get(e.Name)
		if err := later.Store().Set(e.Name, v); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []*engine.Plan{through, later} {
		fill(p.Input("x"), 5)
		fill(p.Input("y"), 6)
	}
	// dropout depends on the seed, so the seed must be restored too
	again := compile(t, unet(t, 2, 1), engine.Options{Reuse: engine.Reuse{Store: later.Store(), Choices: o.Choices}})
	fill(again.Input("x"), 5)
	fill(again.Input("y"), 6)
	for _, p := range []*engine.Plan{through, again} {
		if err := p.Run(context.Background(), 2); err != nil {
			t.Fatal(err)
		}
	}
	if bits(through.Store()) != bits(again.Store()) {
		t.Error("the resumed step differs")
	}
}

// TestRunAllocatesNothing covers the default backend.
func TestRunAllocatesNothing(t *testing.T) {
	for _, mode := range []engine.Mode{engine.Train, engine.Infer} {
		p := compile(t, unet(t, 2, 1), engine.Options{Device: engine.Device{Threads: 2}, Mode: mode})
		fill(p.Input("x"), 1)
		ctx := context.Background()
		step := uint64(0)
		n := allocs.PerRun(20, func() {
			if err := p.Run(ctx, step); err != nil {
				t.Fatal(err)
			}
			step++
		})
		if n != 0 {
			t.Errorf("mode %d: %v allocations a run, want none", mode, n)
		}
	}
}

// TestNetworkGradient compares the gradient of the whole network with central
// differences in random directions of each parameter, in float64.
func TestNetworkGradient(t *testing.T) {
	g := unet(t, 2, 1)
	if err := g.AddGradients(op.Add); err != nil {
		t.Fatal(err)
	}
	feed := map[string][]float64{}
	for _, n := range g.Nodes {
		if n.Kind == graph.KindOp || n.Kind == graph.KindConst {
			continue
		}
		f := make([]float32, n.Shape.Size())
		if n.Kind == graph.KindInput {
			fill(f, rng.Hash(n.Name))
		} else {
			n.Init.Fill(f, g.Seed, n.Name)
		}
		for _, v := range f {
			feed[n.Name] = append(feed[n.Name], float64(v))
		}
	}
	eval := func() [][]float64 {
		v, err := reftest.Eval(g, feed, 3)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	at := eval()
	if len(g.Grads) != 8 {
		t.Fatalf("%d gradients, want 8", len(g.Grads))
	}
	for _, d := range g.Grads {
		name := g.Nodes[d.Param].Name
		x := feed[name]
		start := slices.Clone(x)
		var want float64
		dir := make([]float64, len(x))
		for i := range dir {
			dir[i] = rng.Normal(rng.Hash(name), uint64(i))
			want += dir[i] * at[d.Value][i]
		}
		const h = 1e-6
		loss := func(h float64) float64 {
			for i := range x {
				x[i] = start[i] + h*dir[i]
			}
			return eval()[g.Loss][0]
		}
		got := (loss(h) - loss(-h)) / (2 * h)
		copy(x, start)
		// truncation h², rounding 2⁻⁵²/h, and the kinks of ReLU and maxima
		if math.Abs(got-want) > 1e-7*(1+math.Abs(want)) {
			t.Errorf("%s: directional difference %.10g, gradient gives %.10g", name, got, want)
		}
	}
}

// TestOptionalPasses verifies that omitting an optional pass changes results by
// rounding only.
func TestOptionalPasses(t *testing.T) {
	want := compile(t, unet(t, 2, 1), engine.Options{Device: engine.Device{Backend: "ref"}, Numerics: engine.Numerics{Float64: true}})
	losses := train(t, want, 3)
	for i, p := range pass.List {
		if p.Absence == pass.Required {
			continue
		}
		list := slices.Delete(slices.Clone(pass.List), i, i+1)
		got := compile(t, unet(t, 2, 1), engine.Options{Device: engine.Device{Backend: "ref"}, Numerics: engine.Numerics{Float64: true}, Debug: engine.Debug{Passes: list}})
		for k, v := range train(t, got, 3) {
			if math.Abs(v-losses[k]) > 1e-6 { // parameters are float32
				t.Errorf("without %s: step %d has loss %v, want %v", p.Name, k, v, losses[k])
			}
		}
	}
}

// TestInference verifies that states do not change, dropout is off, a result
// does not depend on its batch, and plans for other batch sizes share the
// parameters.
func TestInference(t *testing.T) {
	for _, name := range available(t) {
		store := engine.NewStore()
		trained := compile(t, unet(t, 2, 1), engine.Options{Device: engine.Device{Backend: name}, Reuse: engine.Reuse{Store: store}})
		train(t, trained, 3)
		before := slices.Clone(store.States())
		one := compile(t, unet(t, 1, 1), engine.Options{Device: engine.Device{Backend: name}, Reuse: engine.Reuse{Store: store}, Mode: engine.Infer})
		four := compile(t, unet(t, 4, 1), engine.Options{Device: engine.Device{Backend: name}, Reuse: engine.Reuse{Store: store}, Mode: engine.Infer})
		fill(four.Input("x"), 3)
		n := len(one.Input("x"))
		copy(one.Input("x"), four.Input("x")[2*n:3*n])
		for step, p := range []*engine.Plan{one, four} {
			if err := p.Run(context.Background(), uint64(step)); err != nil {
				t.Fatal(err)
			}
		}
		m := len(one.Output("spread"))
		if s := one.OutputShape("spread"); m != 2*8*16 || !s.Equal(graph.Shape{1, 1, 2, 8, 16}) || one.InputShape("x").Size() != n {
			t.Fatalf("output of %d values, shape %v", m, s)
		}
		for i, v := range one.Output("spread") {
			if w := four.Output("spread")[2*m+i]; math.Abs(float64(v-w)) > 1e-5 {
				t.Fatalf("%s: value %d is %v alone and %v in a batch", name, i, v, w)
			}
		}
		if !slices.Equal(before, store.States()) {
			t.Errorf("%s: inference changed states", name)
		}
	}
}

// TestSharedAndMissingGradients verifies that two parameters with the same
// gradient both receive it, that a parameter without effect on the loss
// receives zeros, and that two states can be exchanged.
func TestSharedAndMissingGradients(t *testing.T) {
	b := graph.New(1)
	s := graph.Shape{3}
	p, q := b.Param("p", s, graph.Ones()), b.Param("q", s, graph.Fill(2))
	b.Param("unused", s, graph.Ones())
	x := b.Input("x", s)
	u, v := b.State("u", s, graph.Fill(5)), b.State("v", s, graph.Fill(7))
	b.Assign(u, v)
	b.Assign(v, u)
	b.Loss(op.Sum(b, op.Mul(b, x, op.Add(b, p, q))))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	for _, back := range available(t) {
		plan := compile(t, g, engine.Options{Device: engine.Device{Backend: back}})
		copy(plan.Input("x"), []float32{1, -2, 3})
		st := plan.Store()
		junk, _ := st.Grad("unused")
		junk[0] = 99
		if err := plan.Run(context.Background(), 0); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string][]float32{"p": {1, -2, 3}, "q": {1, -2, 3}, "unused": {0, 0, 0}} {
			if got, _ := st.Grad(name); !slices.Equal(got, want) {
				t.Errorf("%s: gradient of %s is %v, want %v", back, name, got, want)
			}
		}
		if err := plan.Run(context.Background(), 1); err != nil {
			t.Fatal(err)
		}
		if err := plan.Run(context.Background(), 2); err != nil {
			t.Fatal(err)
		}
		nu, _, _ := st.Get("u")
		nv, _, _ := st.Get("v")
		if nu[0] != 7 || nv[0] != 5 {
			t.Errorf("%s: states %v and %v, want 7 and 5 exchanged", back, nu[0], nv[0])
		}
	}
}

// TestRefusals lists what Compile and Run reject, with the exit codes.
func TestRefusals(t *testing.T) {
	g := unet(t, 2, 1)
	other := graph.New(1)
	w := other.Param("enc0.weight", graph.Shape{5}, graph.Ones())
	other.Loss(op.Sum(other, w))
	misfit, err := other.Build()
	if err != nil {
		t.Fatal(err)
	}
	laid := compile(t, g, engine.Options{Device: engine.Device{Backend: "ref"}})
	for _, c := range []struct {
		name string
		g    *graph.Graph
		o    engine.Options
		want exit.Code
	}{
		{"unknown backend", g, engine.Options{Device: engine.Device{Backend: "abacus"}}, exit.Usage},
		{"float64 on cpu", g, engine.Options{Device: engine.Device{Backend: "cpu"}, Numerics: engine.Numerics{Float64: true}}, exit.Usage},
		{"threads", g, engine.Options{Device: engine.Device{Threads: -1}}, exit.Usage},
		{"parameters of another network", misfit, engine.Options{Device: engine.Device{Backend: "ref"}, Reuse: engine.Reuse{Store: laid.Store()}}, exit.Usage},
		{"memory", g, engine.Options{Device: engine.Device{Backend: "ref"}, Memory: engine.Memory{Limit: 1000}}, exit.NoDevice},
	} {
		p, err := engine.Compile(c.g, c.o)
		if exit.CodeOf(err) != c.want {
			t.Errorf("%s: error %v, want code %d", c.name, err, c.want)
		}
		if p != nil {
			p.Close()
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := laid.Run(ctx, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: error %v", err)
	}
	if err := laid.Close(); err != nil {
		t.Error(err)
	}
	if err := laid.Run(context.Background(), 0); err == nil {
		t.Error("a closed plan ran")
	}
	if err := laid.Store().Set("enc0.bias", make([]float32, 5)); err == nil {
		t.Error("five values for four were accepted")
	}
	if err := laid.Store().Set("nothing", nil); err == nil {
		t.Error("an unknown name was accepted")
	}
}

// TestExplain verifies that the printed plan has one line per kernel, the sums
// and the notes.
func TestExplain(t *testing.T) {
	b := graph.New(1)
	x := b.Param("x", graph.Shape{1, 1, 1, 12, 16}, graph.Ones())
	b.Loss(op.MSSSIM(b, x, b.Input("y", x.Shape()), op.SimilarityOptions{Range: 2}))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	var passes []string
	p := compile(t, g, engine.Options{Device: engine.Device{Backend: "ref"}, Debug: engine.Debug{Profile: true, AfterPass: func(name string, _ *graph.Graph) { passes = append(passes, name) }}})
	if err := p.Run(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	var s strings.Builder
	if err := p.Explain(&s); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"conv3d_grad_data", "GFLOP/s", "backend ref", "note: ms_ssim on 12×16 points uses 1 of 5 scales", "arena"} {
		if !strings.Contains(s.String(), want) {
			t.Errorf("the printed plan lacks %q:\n%s", want, s.String())
		}
	}
	if len(passes) != len(pass.List) || len(p.Times()) == 0 {
		t.Errorf("passes seen: %v; operations timed: %d", passes, len(p.Times()))
	}
}

// TestDonatedInputs verifies that the memory of donated inputs is reused without
// changing a bit, and that an input which is also an output is kept.
func TestDonatedInputs(t *testing.T) {
	b := graph.New(1)
	shape := graph.Shape{1, 2, 2, 16, 16}
	x, kept := b.Input("x", shape), b.Input("kept", shape)
	y := op.Scale(b, x, 2)
	y = op.Concat(b, 1, y, op.Upsample(b, op.MaxPool(b, y, [3]int{1, 2, 2}), [3]int{1, 2, 2}, false), op.Square(b, y))
	b.Output("y", op.Sum(b, y, 1))
	b.Output("kept", kept)
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range available(t) {
		var results [2][]float32
		var arenas [2]int64
		for i := range results {
			p := compile(t, g, engine.Options{Device: engine.Device{Backend: name}, Mode: engine.Infer, Memory: engine.Memory{DonateInputs: i == 1}})
			arenas[i] = p.ArenaBytes()
			for run := range 2 {
				for q := range p.Input("x") {
					p.Input("x")[q], p.Input("kept")[q] = float32((run+1)*q%97), float32(run+q)
				}
				if err := p.Run(context.Background(), 0); err != nil {
					t.Fatal(err)
				}
				results[i] = slices.Concat(results[i], p.Output("y"), p.Output("kept"))
			}
		}
		if !slices.Equal(results[0], results[1]) {
			t.Errorf("%s: results differ where inputs are overwritten", name)
		}
		if arenas[1] >= arenas[0] {
			t.Errorf("%s: an arena of %d bytes, %d where inputs stay", name, arenas[1], arenas[0])
		}
	}
}

func ExampleCompile() {
	b := graph.New(1)
	x := b.Input("x", graph.Shape{4})
	w := b.Param("w", graph.Shape{4}, graph.Fill(0.5))
	b.Loss(op.Sum(b, op.Square(b, op.Mul(b, x, w))))
	g, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	plan, err := engine.Compile(g, engine.Options{Device: engine.Device{Backend: "ref"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer plan.Close()
	copy(plan.Input("x"), []float32{1, 2, 3, 4})
	if err := plan.Run(context.Background(), 0); err != nil {
		fmt.Println(err)
		return
	}
	grad, _ := plan.Store().Grad("w")
	fmt.Println(plan.Loss(), grad)
	// Output: 7.5 [1 4 9 16]
}
