package optim

import (
	"math"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// TestMask: a masked parameter changes like one without the masked elements, with every rule, with
// clipping, accumulation and an average; masked elements are 0 in all arrays.
func TestMask(t *testing.T) {
	keep := []int{0, 2, 3, 7, 10}
	const n = 12
	start := func(i int) float32 { return float32(0.5 * math.Sin(1+float64(i))) }
	for _, kind := range Kinds {
		whole, few := make([]float32, n), make([]float32, len(keep))
		mask := make([]bool, n)
		for i := range whole {
			whole[i] = start(i)
		}
		for k, i := range keep {
			few[k], mask[i] = start(i), true
		}
		make2 := func(values []float32) (*Optimizer, []float32, []float32, []float32) {
			s := laidOut(t, []string{"w.weight"}, nil, []graph.Shape{{len(values), 1}}, [][]float32{values})
			a := laidOut(t, []string{"w.weight"}, nil, []graph.Shape{{len(values), 1}}, nil)
			p, err := New(s, Options{Kind: kind, Momentum: 0.9, Decay: 0.1, Clip: 0.5, EMA: 0.8, Average: a})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { p.Close() })
			return p, s.Params(), s.Grads(), a.Params()
		}
		masked, w, g, e := make2(whole)
		small, ws, gs, es := make2(few)
		all := make([]bool, len(w)) // gaps between parameters stay
		for i := range all {
			all[i] = i >= n || mask[i]
		}
		if err := masked.SetMask(all); err != nil {
			t.Fatal(err)
		}
		for step := range 6 {
			for range 2 {
				for i := range n {
					g[i] = float32(math.Cos(float64(3*i + step)))
				}
				for k, i := range keep {
					gs[k] = g[i]
				}
				if step%2 == 1 {
					masked.Accumulate(1.5)
					small.Accumulate(1.5)
				}
			}
			got, err := masked.Step(0.01)
			if err != nil {
				t.Fatal(err)
			}
			want, err := small.Step(0.01)
			if err != nil {
				t.Fatal(err)
			}
			if got != want {
				t.Errorf("%s step %d: the norm is %g, want %g", kind, step, got, want)
			}
			for k, i := range keep {
				if w[i] != ws[k] || e[i] != es[k] {
					t.Errorf("%s step %d: element %d is %g, in the average %g; want %g and %g", kind, step, i, w[i], e[i], ws[k], es[k])
				}
			}
			for i := range n {
				if !mask[i] && (w[i] != 0 || e[i] != 0 || masked.arena.m[i] != 0 || masked.arena.v != nil && masked.arena.v[i] != 0) {
					t.Errorf("%s step %d: element %d is masked and %g, in the average %g", kind, step, i, w[i], e[i])
				}
			}
		}
		if err := masked.SetMask(all[1:]); err == nil {
			t.Error("a mask of other parameters is taken")
		}
	}
}

// TestPresent: AddScaledGradient gives the gradient of the next step, without mask and clipping.
func TestPresent(t *testing.T) {
	s := store(t, graph.Bias)
	p, err := New(s, Options{Clip: 1e-3})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	keep := make([]bool, len(s.Params()))
	if err := p.SetMask(keep); err != nil {
		t.Fatal(err)
	}
	g := s.Grads()
	for i := range g {
		g[i] = float32(i)
	}
	x := make([]float32, len(g))
	p.AddScaledGradient(x, -2)
	for _, e := range s.Entries() {
		for i := e.Offset; i < e.Offset+e.Size(); i++ {
			if x[i] != -2*float32(i) {
				t.Errorf("element %d is %g, want %g", i, x[i], -2*float32(i))
			}
		}
	}
	p.Accumulate(1)
	for i := range g {
		g[i] = float32(3 * i)
	}
	p.Accumulate(3)
	clear(x)
	p.AddScaledGradient(x, 1)
	if x[3] != 2.5*3 {
		t.Errorf("the mean of gathered gradients is %g, want %g", x[3], 2.5*3)
	}
}
