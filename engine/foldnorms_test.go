package engine_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/engine/rng"
)

// TestFoldNorms verifies that a prediction with folded normalisation equals
// that of ref without folding to 1e-5 of its largest value, has less memory
// traffic, and has no kernel that normalises.
func TestFoldNorms(t *testing.T) {
	b := graph.New(3)
	x := b.Input("x", graph.Shape{1, 8, 1, 48, 64})
	conv := func(name string, x graph.Value, out, k int) graph.Value {
		w := b.Param(name+".w", graph.Shape{out, x.Dim(1), 1, k, k}, graph.HeNormal(x.Dim(1)*k*k))
		return op.Bias(b, op.Conv3D(b, x, w, op.Conv{Pad: op.SameGlobal(1, k, k)}), b.Param(name+".b", graph.Shape{out}, graph.Fill(0.3)))
	}
	norm := func(name string, x graph.Value) graph.Value {
		c := graph.Shape{x.Dim(1)}
		return op.ReLU(b, op.BatchNorm(b, x, b.Param(name+".gamma", c, graph.Ones()), b.Param(name+".beta", c, graph.Zeros()),
			b.State(name+".mean", c, graph.Zeros()), b.State(name+".var", c, graph.Ones()), op.BatchNormOptions{}))
	}
	h := norm("one", conv("a", x, 16, 3))
	h = norm("two", op.Concat(b, 1, conv("b", h, 16, 3), conv("c", h, 16, 5)))
	b.Output("y", conv("d", h, 1, 1))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	unfolded := slices.DeleteFunc(slices.Clone(pass.List), func(p pass.Pass) bool { return p.Name == "fold-norms" })
	predict := func(o engine.Options) []float32 {
		o.Mode, o.Store = engine.Infer, engine.NewStore()
		p := compile(t, g, o)
		for i, v := range []string{"one.gamma", "one.beta", "one.mean", "one.var", "two.gamma", "two.beta", "two.mean", "two.var"} {
			s, _, ok := p.Store().Get(v)
			if !ok {
				t.Fatalf("no %s", v)
			}
			for k := range s {
				s[k] = float32(0.5 + rng.Uniform(rng.Key(2, uint64(i)), uint64(k)))
			}
		}
		for k := range p.Input("x") {
			p.Input("x")[k] = float32(rng.Normal(rng.Key(1), uint64(k)))
		}
		if err := p.Run(context.Background(), 0); err != nil {
			t.Fatal(err)
		}
		return slices.Clone(p.Output("y"))
	}
	want := predict(engine.Options{Device: engine.Device{Backend: "ref"}, Numerics: engine.Numerics{Float64: true}, Debug: engine.Debug{Passes: unfolded}})
	var largest float64
	for _, v := range want {
		largest = max(largest, math.Abs(float64(v)))
	}
	for _, back := range available(t) {
		for _, winograd := range []bool{false, true} {
			o := engine.Options{Device: engine.Device{Backend: back}, Numerics: engine.Numerics{Winograd: winograd, UseHeuristics: true}}
			for i, v := range predict(o) {
				if math.Abs(float64(v-want[i])) > 1e-5*largest {
					t.Fatalf("%s: [%d]: got %g, want %g", back, i, v, want[i])
				}
			}
			o.Mode = engine.Infer
			folded, err := engine.Explain(g, o, engine.Peaks{})
			if err != nil {
				t.Fatal(err)
			}
			o.Passes = unfolded
			alone, err := engine.Explain(g, o, engine.Peaks{})
			if err != nil {
				t.Fatal(err)
			}
			sweeps := func(e *engine.Explanation) (n int) {
				for _, c := range e.Classes {
					if c.Class == engine.Normalisation {
						n += c.Ops
					}
				}
				return n
			}
			if sweeps(folded) != 0 || sweeps(alone) != 2 || folded.Bytes >= alone.Bytes {
				t.Errorf("%s: %d normalisations and %d bytes, unfolded %d and %d; want 0 and 2, and fewer bytes",
					back, sweeps(folded), folded.Bytes, sweeps(alone), alone.Bytes)
			}
		}
	}
}
