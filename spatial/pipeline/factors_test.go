package pipeline

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// weighted is a network whose loss is a mean over samples with weights.
func weighted(t testing.TB, samples int, build func(b *graph.Builder, x graph.Value) graph.Value) *graph.Graph {
	t.Helper()
	b := graph.New(7)
	p := build(b, b.Input("x", graph.Shape{samples, 3, 1, 8, 16}))
	errors := op.Square(b, op.Sub(b, p, b.Input("y", p.Shape())))
	b.Loss(op.Mean(b, op.Mul(b, errors, b.Input("w", graph.Shape{p.Shape()[0], 1, 1, 1, 1}))))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// wholeFactors are the factors and their layers of one plan for all pieces, each with the weight of its samples.
func wholeFactors(t testing.TB, g *graph.Graph, weights []float32, maxSide int) ([]pass.LayerFactors, map[string][]float32) {
	t.Helper()
	p, err := engine.Compile(g, engine.Options{MaxFactorSide: maxSide, Numerics: engine.Numerics{UseHeuristics: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	n := len(weights)
	for _, name := range []string{"x", "y", "w"} {
		x := p.Input(name)
		for i := range n {
			part := x[len(x)/n*i : len(x)/n*(i+1)]
			if err := withWeights(samples)(i, name, part); err != nil {
				t.Fatal(err)
			}
			for k := range part {
				if name == "w" { // the mean over all samples is divided by n
					part[k] = weights[i] * float32(n)
				}
			}
		}
	}
	if err := p.Run(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	out := map[string][]float32{}
	for _, l := range p.Factors() {
		if l.Form != pass.NoFactors {
			out[l.RowsName()], out[l.ColsName()] = slices.Clone(p.Output(l.RowsName())), slices.Clone(p.Output(l.ColsName()))
		}
	}
	return p.Factors(), out
}

// withWeights is a feed whose weights of samples are 1.
func withWeights(f Feed) Feed {
	return func(piece int, input string, into []float32) error {
		if input == "w" {
			for i := range into {
				into[i] = 1
			}
			return nil
		}
		return f(piece, input, into)
	}
}

// checkFactors compares the factors that workers own with those of one plan.
func checkFactors(ctx context.Context, c *comm.Comm, s *Schedule, stages []*Stage, o Options, weights []float32, layers []pass.LayerFactors, want map[string][]float32) (found []string, err error) {
	w, err := NewWorker(c, s, stages, o)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	w.Weights = weights[w.firstPiece():][:s.Pieces()]
	feed := withWeights(feedOf(w))
	var before [][]float32
	for step := range 3 { // of which the second computes factors
		w.WithFactors = step == 1
		if _, err := w.Step(ctx, 0, feed); err != nil {
			return nil, err
		}
		for pipe := range s.Pipes() {
			g := w.Store(pipe).Grads()
			if step == 0 {
				before = append(before, slices.Clone(g))
			} else if !slices.Equal(g, before[pipe]) {
				return nil, fmt.Errorf("step %d: other gradients than in the first", step)
			}
		}
		if step != 1 {
			continue
		}
		for _, l := range w.Factors() {
			i := slices.IndexFunc(layers, func(x pass.LayerFactors) bool { return x.Param == l.Param })
			if l.Form != layers[i].Form || l.Rows != layers[i].Rows && l.Form != pass.NoFactors || l.Cols != layers[i].Cols || l.Bias != layers[i].Bias {
				return nil, fmt.Errorf("factors %+v, of one plan %+v", l, layers[i])
			}
			for _, name := range []string{l.RowsName(), l.ColsName()} {
				got := w.Factor(name)
				if owner := len(w.Holders(l.Param)) > 0 && w.Holders(l.Param)[0] == w.c.Rank() && l.Form != pass.NoFactors; owner != (got != nil) {
					return nil, fmt.Errorf("rank %d has %d values of %s", c.Rank(), len(got), name)
				}
				if got == nil {
					continue
				}
				found = append(found, name)
				if len(got) != len(want[name]) {
					return nil, fmt.Errorf("%s: %d values, want %d", name, len(got), len(want[name]))
				}
				most := 0.
				for _, v := range want[name] {
					most = max(most, math.Abs(float64(v)))
				}
				for k, v := range want[name] {
					if !(math.Abs(float64(got[k]-v)) <= 1e-5*most) {
						return nil, fmt.Errorf("%s[%d] is %g, of one plan %g", name, k, got[k], v)
					}
				}
			}
		}
	}
	return found, nil
}

// Kronecker factors of the pieces of a pipeline, with weights, are those of one plan with all samples, on the worker that sums the
// gradients: by all schedules and copies, and of groups of ranks. They leave the bits of gradients, and shared filters have none.
func TestFactorsEqualWholeBatch(t *testing.T) {
	const noFactors = "shared filters" // all of them
	unet := func(b *graph.Builder, x graph.Value) graph.Value {
		return unet3d.UNet{Base: 2, Stages: 1, Periodic: true}.Build(b, x)
	}
	shared := func(b *graph.Builder, x graph.Value) graph.Value {
		return unet3d.RecurrentUNet{UNet: unet3d.UNet{Base: 2, Stages: 1}, Leads: 3}.Build(b, x)
	}
	check := func(name string, s *Schedule, m spatial.Mesh, build func(b *graph.Builder, x graph.Value) graph.Value) {
		t.Helper()
		const maxSide, rows = 60, 6 // rows of a piece: two samples with three leads
		weights := make([]float32, m.DataRanks()*s.Pieces())
		for i := range weights {
			weights[i] = 0.1 + 0.3*float32(i%3)
		}
		layers, want := wholeFactors(t, weighted(t, rows*len(weights), build), weights, maxSide)
		stages := splitEvenly(t, weighted(t, rows, build), s.Stages)
		found := make([][]string, s.Stages*m.Size())
		err := comm.Run(len(found), comm.Parallel, func(c *comm.Comm) (err error) {
			o := Options{Mesh: m, MaxFactorSide: maxSide, Recompute: s.Pipes() > 1}
			found[c.Rank()], err = checkFactors(t.Context(), c, s, stages, o, weights, layers, want)
			return err
		})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all := slices.Concat(found...)
		if len(all) != len(want)*m.Size() || (len(all) == 0) != (name == noFactors) {
			t.Errorf("%s: workers have %d factors, want %d of %d ranks", name, len(all), len(want), m.Size())
		}
	}
	for name, s := range schedules(t, 4) {
		check(name, s, nil, unet)
	}
	two, err := Chimera(2, 2, ChimeraOptions{})
	if err != nil {
		t.Fatal(err)
	}
	check("one piece for a pipe", two, parse(t, "lat:2"), unet)
	s, err := OneFOneB(2, 3)
	if err != nil {
		t.Fatal(err)
	}
	check("data ranks", s, parse(t, "data:2 lon:2"), unet)
	check(noFactors, s, nil, shared)
	one, err := Chimera(4, 1, ChimeraOptions{})
	if err != nil {
		t.Fatal(err)
	}
	check("fewer pieces than pipes", one, nil, unet)
}
