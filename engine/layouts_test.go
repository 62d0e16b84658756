package engine_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/tune"
)

// layered is a small U-Net whose fields are large enough for every layout. 20
// channels leave padding lanes, and the depth of three levels is odd.
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
	b.Output("inner", d1) // output that is also read in the graph
	b.Loss(op.L1(b, out, y))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestLayouts verifies that a network in the preferred layouts of the backend
// has the gradient of the reference, for all depths and thread counts.
func TestLayouts(t *testing.T) {
	for _, depth := range []int{1, 2, 3} {
		t.Run(fmt.Sprintf("depth %d", depth), func(t *testing.T) {
			run := func(o engine.Options) *engine.Plan {
				o.Store = engine.NewStore()
				p := compile(t, layered(t, depth), o)
				train(t, p, 2)
				return p
			}
			want := run(engine.Options{Device: engine.Device{Backend: "ref"}, Numerics: engine.Numerics{Float64: true}})
			first := run(engine.Options{Numerics: engine.Numerics{Winograd: true, UseHeuristics: true}})
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
			// Winograd, and the few points where a ReLU switches
			const tolerance = 1e-4
			if e := distance(first.Store().Grads(), want.Store().Grads()); e > tolerance {
				t.Errorf("gradient differs by %.2e", e)
			}
			for _, name := range []string{"out", "inner"} {
				if e := distance(first.Output(name), want.Output(name)); e > tolerance {
					t.Errorf("output %s differs by %.2e", name, e)
				}
			}
			second := run(engine.Options{Numerics: engine.Numerics{Winograd: true, UseHeuristics: true}, Device: engine.Device{Threads: 2}})
			if bits(first.Store()) != bits(second.Store()) {
				t.Error("two threads give other bits than one")
			}
		})
	}
}

// heavy has convolutions with enough work for timing their layout options, and
// no other expensive operations.
func heavy(t testing.TB) *graph.Graph {
	t.Helper()
	b := graph.New(7)
	v := b.Input("x", graph.Shape{2, 40, 2, 32, 48})
	y := b.Input("y", graph.Shape{2, 36, 2, 32, 48})
	for i, out := range []int{48, 64, 36} {
		in := v.Dim(1)
		w := b.Param(fmt.Sprintf("%d.weight", i), graph.Shape{out, in, 3, 3, 3}, graph.HeNormal(in*27))
		v = op.ReLU(b, op.Bias(b, op.Conv3D(b, v, w, op.Conv{Pad: op.SameGlobal(3, 3, 3)}), b.Param(fmt.Sprintf("%d.bias", i), graph.Shape{out}, graph.Zeros())))
	}
	b.Output("out", v)
	b.Loss(op.L1(b, v, y))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestMeasuredLayouts verifies that measured times decide the layouts, except
// with heuristics, and that results agree for all layouts. A plan with the
// choices of an earlier one has its layouts and bits, even if the timings are
// missing or favour others.
func TestMeasuredLayouts(t *testing.T) {
	options := engine.Options{Device: engine.Device{Threads: 2}, Numerics: engine.Numerics{Winograd: true}}
	run := func(o engine.Options) *engine.Plan {
		o.Store = engine.NewStore()
		p := compile(t, heavy(t), o)
		train(t, p, 2)
		return p
	}
	convolutions := func(p *engine.Plan) (text string) {
		for _, n := range p.Graph().Nodes {
			if n.Kind == graph.KindOp && strings.HasPrefix(n.Op.Name, "conv3d") {
				text += fmt.Sprintf("%s %v of", n.Op.Name, n.Layout)
				for _, in := range n.In {
					text += fmt.Sprintf(" %v", p.Graph().Nodes[in].Layout)
				}
				text += "\n"
			}
		}
		return text
	}
	open := func() *tune.Table { return tune.Open(t.TempDir(), cpu.Machine(options.Threads), nil) }
	// favouring returns timings in which convolutions with a blocked operand or
	// result take a tenth of the time, or those without.
	measured := open()
	options.Timings = measured
	run(options)
	raced := 0
	favouring := func(blocked bool) *tune.Table {
		table := open()
		for _, key := range keys(measured) {
			e, _ := measured.Lookup(key)
			if strings.HasPrefix(key, "ways ") {
				raced++
				for i, c := range e.Candidates {
					if e.Candidates[i].CPU = 1e9; strings.Contains(c.Name, "b") == blocked {
						e.Candidates[i].CPU = 1e8
					}
				}
			}
			table.Record(key, e)
		}
		return table
	}
	options.Timings = favouring(true)
	first := run(options)
	if raced != 8 {
		t.Fatalf("%d convolutions were timed, want 8:\n%s", raced, measured)
	}
	if text := convolutions(first); !strings.Contains(text, "blocked of blocked") {
		t.Fatalf("blocked is ten times as fast:\n%s", text)
	}
	before := options.Timings.String()
	if run(options); options.Timings.String() != before {
		t.Errorf("what was known was measured again:\n%s\nbefore:\n%s", options.Timings, before)
	}
	options.Timings = favouring(false)
	other := run(options)
	if text := convolutions(other); strings.Contains(text, "blocked") {
		t.Errorf("plain is ten times as fast:\n%s", text)
	}
	// two steps of float32 rounding of sums of 1728 products, twice for Winograd
	const tolerance = 1e-5
	if e := distance(first.Output("out"), other.Output("out")); e > tolerance {
		t.Errorf("outputs of both layouts differ by %.2e", e)
	}
	if bits(first.Store()) == bits(other.Store()) {
		t.Error("other layouts give the same bits: they need not be kept")
	}
	estimated := engine.Options{Device: engine.Device{Threads: options.Threads}, Numerics: engine.Numerics{Winograd: true, UseHeuristics: true}}
	ruled := estimated
	ruled.Timings = options.Timings
	if a, b := convolutions(run(estimated)), convolutions(run(ruled)); a != b {
		t.Errorf("by rule the table changes layouts from\n%s\nto\n%s", a, b)
	}
	for what, table := range map[string]*tune.Table{"no table": nil, "an empty table": open(), "timings that favour others": favouring(false)} {
		options.Timings, options.Choices = table, first.Choices()
		if p := run(options); convolutions(p) != convolutions(first) || bits(p.Store()) != bits(first.Store()) {
			t.Errorf("with the choices of an earlier plan and %s:\n%s\nbefore:\n%s", what, convolutions(p), convolutions(first))
		}
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
