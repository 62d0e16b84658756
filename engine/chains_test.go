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

// unchained is the list of passes without fuse-chains.
func unchained() []pass.Pass {
	return slices.DeleteFunc(slices.Clone(pass.List), func(p pass.Pass) bool { return p.Name == "fuse-chains" })
}

// head builds the last layers of a calibrated network: affine maps with numbers
// per variable, maps per grid point, the CRPS, and the gate of a recurrent cell
// over its features.
func head(t *testing.T) *graph.Graph {
	t.Helper()
	b := graph.New(3)
	s, one := graph.Shape{2, 3, 2, 8, 16}, graph.Shape{1, 3, 2, 8, 16}
	x, y, spread := b.Input("x", graph.Shape{2, 16, 2, 8, 16}), b.Input("y", s), b.Input("spread", s)
	w := b.Param("w", graph.Shape{64, 16, 3, 3, 3}, graph.HeNormal(16*27))
	f := op.Conv3D(b, x, w, op.Conv{Pad: op.SameGlobal(3, 3, 3)})
	part := func(k int) graph.Value { return op.Slice(b, f, 1, 16*k, 16*k+16) }
	cell := op.Add(b, op.Mul(b, op.Sigmoid(b, part(0)), op.Tanh(b, part(1))), op.Mul(b, op.Sigmoid(b, part(2)), part(3)))
	u := op.Conv3D(b, cell, b.Param("v", graph.Shape{6, 16, 3, 3, 3}, graph.HeNormal(16*27)), op.Conv{Pad: op.SameGlobal(3, 3, 3)})
	per := b.Param("per", graph.Shape{1, 3, 2, 1, 1}, graph.Ones())
	mu := op.Add(b, op.Mul(b, op.Slice(b, u, 1, 0, 3), per), b.Param("map", one, graph.Fill(0.1)))
	sigma := op.Mul(b, op.Add(b, op.Mul(b, spread, op.Softplus(b, b.Param("slope", one, graph.Zeros()))), b.Scalar(0.2)),
		op.Exp(b, op.Slice(b, u, 1, 3, 6)))
	b.Output("mu", mu)
	b.Output("sigma", sigma)
	b.Loss(op.WeightedMean(b, op.GaussianCRPS(b, mu, sigma, y), b.Const("", graph.Shape{1, 1, 1, 8, 1}, []float32{1, 2, 3, 4, 4, 3, 2, 1})))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestChains verifies that chains reduce the number of operations and the
// memory traffic, in prediction and training, and do not change the values of a
// step. Values are equal if the convolutions use the same kernels.
func TestChains(t *testing.T) {
	g := head(t)
	for _, back := range available(t) {
		for _, mode := range []engine.Mode{engine.Infer, engine.Train} {
			run := func(passes []pass.Pass) (*engine.Plan, *engine.Explanation, [][]float32) {
				o := engine.Options{Device: engine.Device{Backend: back, Threads: 2}, Mode: mode, Numerics: engine.Numerics{Float64: back == "ref", UseHeuristics: true}, Debug: engine.Debug{Passes: passes}}
				e, err := engine.Explain(g, o, engine.Peaks{})
				if err != nil {
					t.Fatal(err)
				}
				p := compile(t, g, o)
				for i, name := range []string{"x", "y", "spread"} {
					for k := range p.Input(name) {
						p.Input(name)[k] = float32(0.5 + rng.Uniform(rng.Key(1, uint64(i)), uint64(k)))
					}
				}
				if err := p.Run(context.Background(), 0); err != nil {
					t.Fatal(err)
				}
				out := [][]float32{slices.Clone(p.Output("mu")), slices.Clone(p.Output("sigma"))}
				if mode == engine.Train {
					out = append(out, []float32{float32(p.Loss())}, p.Store().Grads())
				}
				return p, e, out
			}
			_, chained, got := run(pass.List)
			_, alone, want := run(unchained())
			if len(chained.Ops) >= len(alone.Ops) || 10*chained.Bytes > 9*alone.Bytes || chained.FLOPs != alone.FLOPs {
				t.Errorf("%s, mode %d: %d operations, %d bytes, %d FLOPs; alone %d, %d, %d; want fewer, 10 %% fewer, as many", back, mode,
					len(chained.Ops), chained.Bytes, chained.FLOPs, len(alone.Ops), alone.Bytes, alone.FLOPs)
			}
			for i := range want {
				for k, v := range got[i] {
					if v != want[i][k] && !(math.IsNaN(float64(v)) && math.IsNaN(float64(want[i][k]))) {
						t.Fatalf("%s, mode %d: part %d [%d]: got %g, want %g", back, mode, i, k, v, want[i][k])
					}
				}
			}
		}
	}
}

// TestChainsBlocked verifies that a gate over fields of a network keeps their
// layout.
func TestChainsBlocked(t *testing.T) {
	if !slices.Contains(available(t), "cpu") {
		t.Skip("skipped: no backend cpu")
	}
	p := compile(t, head(t), engine.Options{Device: engine.Device{Backend: "cpu"}, Mode: engine.Infer, Numerics: engine.Numerics{Winograd: true}})
	blocked := 0
	for _, n := range p.Graph().Nodes {
		if n.Kind == graph.KindOp && n.Op.Name == "elementwise_chain" && n.Layout == graph.Blocked {
			blocked++
		}
	}
	if blocked != 1 {
		t.Errorf("%d blocked chains, want 1", blocked)
	}
}
