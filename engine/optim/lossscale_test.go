package optim

import (
	"math"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// TestLossScale: 2000 consecutive finite steps double the scale up to its maximum; each other step
// halves it down to 1.
func TestLossScale(t *testing.T) {
	l := NewLossScale()
	for step := range 2001 + 2000 {
		if step == 2000 { // the counter is reset
			if l.Scale != 0x1p17 || !l.CountSkip() || l.Scale != 0x1p16 || l.Skipped != 1 {
				t.Fatalf("step %d: %+v", step, l)
			}
			continue
		}
		if changed := l.CountStep(); changed != (step == 1999 || step == 4000) {
			t.Fatalf("step %d: changed %v, %+v", step, changed, l)
		}
	}
	for range 9 * 2000 {
		l.CountStep()
	}
	if l.Scale != 0x1p24 {
		t.Errorf("grows to %g", l.Scale)
	}
	for n := range 24 {
		if !l.CountSkip() {
			t.Fatalf("skip %d is refused", n)
		}
	}
	if l.Scale != 1 || l.CountSkip() || l.Skipped != 25 {
		t.Errorf("at the end %+v", l)
	}
}

// TestScaledGradients: scaled gradients with SetLossScale give the same steps, norms and gradients,
// with every rule. IsFinite detects gradients that are not finite before a step.
func TestScaledGradients(t *testing.T) {
	const n, scale = 40, 0x1p10
	for _, kind := range Kinds {
		var results [2][]float32
		for k, by := range []float64{1, scale} {
			s := laidOut(t, []string{"w.weight"}, nil, []graph.Shape{{n, 1}}, nil)
			p, err := New(s, Options{Kind: kind, Momentum: 0.9, Decay: 0.1, Clip: 0.5})
			if err != nil {
				t.Fatal(err)
			}
			p.SetLossScale(by)
			for step := range 5 {
				s.Params()[step] += 0.5
				g := s.Grads()
				for i := range n {
					g[i] = float32(by * math.Cos(float64(3*i+step)))
				}
				if step == 3 {
					g[7] = float32(math.Inf(1))
				}
				if step > 1 {
					p.Accumulate(2)
				}
				if ok, err := p.IsFinite(); err != nil || ok != (step != 3) {
					t.Fatalf("%s, step %d: finite %v, %v", kind, step, ok, err)
				}
				if step != 3 {
					present := make([]float32, len(s.Params()))
					p.AddScaledGradient(present, 1)
					results[k] = append(results[k], present...)
				}
				norm, err := p.Step(0.01)
				if (err != nil) != (step == 3) {
					t.Fatalf("%s, step %d: %v", kind, step, err)
				}
				if err == nil {
					results[k] = append(results[k], float32(norm))
				}
				results[k] = append(results[k], s.Params()...)
			}
			if p.Steps() != 4 {
				t.Errorf("%s: %d steps, want 4", kind, p.Steps())
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		}
		if !slices.Equal(results[0], results[1]) { // scaling by powers of two is exact
			t.Errorf("%s: other steps along the multiple", kind)
		}
	}
}
