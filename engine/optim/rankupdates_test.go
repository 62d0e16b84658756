package optim

import (
	"math"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Updates that a rank computes, and the optimiser applies, train as AdamW does, with the same average of the weights. The
// other parameter is clipped by its own norm alone. Tolerance: that of TestTorch.
func TestUpdatesAreAdamW(t *testing.T) {
	const tol, rate, decay = 2e-6, 0.01, 0.1
	names, shapes := []string{"given", "other"}, []graph.Shape{{40, 3}, {7}}
	want, got := laidOut(t, names, nil, shapes, nil), laidOut(t, names, nil, shapes, nil)
	average := [2]Options{}
	options := func(i int, o Options) Options {
		average[i].Average = laidOut(t, names, nil, shapes, nil)
		o.Kind, o.Decay, o.EMA, o.Average = AdamW, decay, 0.9, average[i].Average
		return o
	}
	reference, err := New(want, options(0, Options{}))
	if err != nil {
		t.Fatal(err)
	}
	defer reference.Close()
	p, err := New(got, options(1, Options{Updates: []string{"given"}, Clip: 1000}))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	m, v := make([]float32, 120), make([]float32, 120)
	for step := range 20 {
		for _, name := range names {
			a, _ := want.Grad(name)
			b, _ := got.Grad(name)
			for i := range a {
				a[i] = float32(math.Sin(0.7*float64(step)+1.3*float64(i)) * (1 + 0.1*float64(i)))
			}
			copy(b, a)
			if name == "given" {
				own := slices.Clone(a)
				clear(b)
				u := NewRankUpdates(rate, uint64(step)+1)
				u.Add(b, m, v, own, 1e4) // updates do not depend on the scale of gradients
			}
		}
		if _, err := reference.Step(rate); err != nil {
			t.Fatal(err)
		}
		norm, err := p.Step(rate)
		if err != nil {
			t.Fatal(err)
		}
		other, _ := got.Grad("other")
		if own := math.Sqrt(square(other)); math.Abs(norm-own) > 1e-6*own {
			t.Errorf("step %d: norm %g, want %g of the parameter without updates", step, norm, own)
		}
	}
	for i, pair := range [][2][]float32{{want.Params(), got.Params()}, {average[0].Average.Params(), average[1].Average.Params()}} {
		for k, x := range pair[0] {
			if d := math.Abs(float64(x - pair[1][k])); d > tol {
				t.Errorf("array %d, value %d: %g, want %g", i, k, pair[1][k], x)
			}
		}
	}
}

// Only AdamW applies updates.
func TestUpdatesRefused(t *testing.T) {
	s := laidOut(t, []string{"w"}, nil, []graph.Shape{{3}}, nil)
	for _, k := range Kinds {
		p, err := New(s, Options{Kind: k, Updates: []string{"w"}})
		if (k == AdamW) != (err == nil) || err != nil && exit.CodeOf(err) != exit.Usage {
			t.Errorf("%s: error %v", k, err)
		}
		if p != nil {
			p.Close()
		}
	}
}
