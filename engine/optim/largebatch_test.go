package optim

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// three is the store of testdata/large_batch.py.
func three(t *testing.T) *engine.Store {
	t.Helper()
	values := [][]float32{nil, nil, make([]float32, 4)}
	for i := range 6 {
		values[0] = append(values[0], float32(0.5*math.Sin(1+float64(i))))
	}
	for i := range 3 {
		values[1] = append(values[1], float32(0.1*math.Cos(2+float64(i))))
	}
	return laidOut(t, []string{"a.weight", "a.shift", "b.weight"}, []graph.Role{graph.Weight, graph.Bias, graph.Weight}, []graph.Shape{{2, 3}, {3}, {2, 2}}, values)
}

// TestPapers follows 20 steps of LARS and LAMB in float64. Tolerance: as for the
// trajectories of PyTorch, times the largest value, about ten.
func TestPapers(t *testing.T) {
	raw, err := os.ReadFile("testdata/large_batch.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct{ LARS, LAMB [][]float64 }
	if err := json.Unmarshal(raw, &golden); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		o    Options
		rate float64
		want [][]float64
	}{
		{Options{Kind: LARS, Momentum: 0.9, Trust: 0.02, Decay: 0.1}, 0.5, golden.LARS},
		{Options{Kind: LAMB, Decay: 0.1}, 0.01, golden.LAMB},
	} {
		s := three(t)
		p, err := New(s, c.o)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.want) != 20 {
			t.Fatalf("golden file has %d steps of %s, want 20", len(c.want), c.o.Kind)
		}
		for step, want := range c.want {
			for k, name := range s.Names() {
				g, _ := s.Grad(name)
				for i := range g {
					g[i] = float32(math.Sin(0.7*float64(step)+1.3*float64(i)+0.5*float64(k)) * (1 + 0.1*float64(i)))
				}
				if k == 2 && step == 5 {
					clear(g)
				}
			}
			if _, err := p.Step(c.rate); err != nil {
				t.Fatal(err)
			}
			if got := values(s); !close(got, want, 2e-6) {
				t.Fatalf("%s step %d: %v, want %v", c.o.Kind, step, got, want)
			}
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

// values returns all parameters of a store without the padding between them.
func values(s *engine.Store) []float64 {
	var out []float64
	for _, name := range s.Names() {
		v, _, _ := s.Get(name)
		for _, x := range v {
			out = append(out, float64(x))
		}
	}
	return out
}

// close compares within tol of the larger of 1 and the value.
func close(got, want []float64, tol float64) bool {
	return slices.EqualFunc(got, want, func(a, b float64) bool { return math.Abs(a-b) <= tol*math.Max(1, math.Abs(b)) })
}

// TestPublishedSteps compares two steps of a filter of two values with results computed by hand.
func TestPublishedSteps(t *testing.T) {
	for _, c := range []struct {
		o    Options
		rate float64
		want [2][]float64
	}{
		{Options{Kind: LARS, Momentum: 0.9, Decay: 1e-4}, 2, [2][]float64{{2.994, 3.992}, {2.99457606, 3.976816}}},
		{Options{Kind: LAMB, Decay: 0.01}, 0.01, [2][]float64{{2.96481588, 3.96447427}, {2.95039252, 3.91711727}}},
	} {
		s := laidOut(t, []string{"w"}, nil, []graph.Shape{{1, 2}}, [][]float32{{3, 4}})
		p, err := New(s, c.o)
		if err != nil {
			t.Fatal(err)
		}
		for step, g := range [][]float32{{0.6, 0.8}, {-0.3, 0.4}} {
			copy(s.Grads(), g)
			if _, err := p.Step(c.rate); err != nil {
				t.Fatal(err)
			}
			if got := values(s); !close(got, c.want[step], 5e-7/3) { // float32 of values near 4
				t.Errorf("%s step %d: %v, want %v", c.o.Kind, step+1, got, c.want[step])
			}
			if ratio := []float32{0.004997501, 0.009970050}[step]; c.o.Kind == LARS && math.Abs(float64(p.sweepStep.ratio[0]-ratio)) > 1e-8 {
				t.Errorf("LARS step %d: ratio %v, want %v", step+1, p.sweepStep.ratio[0], ratio)
			}
			if ratio := []float32{3.415939738, 4.873007565}[step]; c.o.Kind == LAMB && math.Abs(float64(p.sweepStep.ratio[0]-ratio)) > 2e-6 {
				t.Errorf("LAMB step %d: ratio %v, want %v", step+1, p.sweepStep.ratio[0], ratio)
			}
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestLARSInvariance: without decay a step does not depend on the length of the gradient.
func TestLARSInvariance(t *testing.T) {
	run := func(c float32) []float64 {
		s := laidOut(t, []string{"w", "x"}, nil, []graph.Shape{{2, 3}, {5, 1}}, nil)
		p, err := New(s, Options{Kind: LARS, Momentum: 0.9})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		for step := range 5 {
			for k, name := range s.Names() {
				g, _ := s.Grad(name)
				for i := range g {
					g[i] = c * float32(k+1) * float32(math.Cos(float64(step+3*i)))
				}
			}
			if _, err := p.Step(3); err != nil {
				t.Fatal(err)
			}
		}
		return values(s)
	}
	if a, b := run(1), run(1000); !close(a, b, 1e-6) {
		t.Errorf("%v with gradients a thousand times as long, %v", b, a)
	}
}

// TestScaledWarmup: the published linear rule, rate 0.1 for a batch 8 times as large, over 5 epochs
// of 10 steps; and the square root rule.
func TestScaledWarmup(t *testing.T) {
	k := LinearScaling.Factor(8)
	w := Warmup{Schedule: Constant(0.1 * k), Steps: 50, From: 1 / k}
	for _, c := range []struct {
		step uint64
		want float64
	}{{0, 0.114}, {9, 0.24}, {24, 0.45}, {49, 0.8}, {50, 0.8}} {
		if got := w.Rate(c.step); math.Abs(got-c.want) > 1e-15 {
			t.Errorf("step %d: %v, want %v", c.step, got, c.want)
		}
	}
	if SqrtScaling.Factor(9) != 3 || NoScaling.Factor(9) != 1 {
		t.Errorf("factors of 9: sqrt %v, none %v", SqrtScaling.Factor(9), NoScaling.Factor(9))
	}
}

// small is a convolution with a weighted loss on n samples.
func small(t *testing.T, n int, s *engine.Store) *engine.Plan {
	t.Helper()
	b := graph.New(3)
	x, y, w := b.Input("x", graph.Shape{n, 2, 1, 5, 6}), b.Input("y", graph.Shape{n, 3, 1, 5, 6}), b.Input("w", graph.Shape{n, 3, 1, 5, 6})
	f := b.Param("f.weight", graph.Shape{3, 2, 3, 3, 3}, graph.HeNormal(54))
	c := b.ParamOf(graph.Bias, "f.bias", graph.Shape{3}, graph.Zeros())
	h := op.ReLU(b, op.Bias(b, op.Conv3D(b, x, f, op.Conv{Pad: op.SameGlobal(3, 3, 3)}), c))
	b.Loss(op.WeightedMSE(b, h, y, w))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	p, err := engine.Compile(g, engine.Options{Device: engine.Device{Backend: "ref"}, Reuse: engine.Reuse{Store: s}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// TestGathered: accumulation over batches of 2 gives the parameters and moments of one batch of 6,
// for a network without batch statistics. Tolerance: float32 rounding of a few sums, 2⁻²³ each,
// over five steps.
func TestGathered(t *testing.T) {
	for _, kind := range Kinds {
		var got [2][]float64
		for way, n := range []int{6, 2} {
			s := engine.NewStore()
			plan := small(t, n, s)
			p, err := New(s, Options{Kind: kind, Momentum: 0.9, Decay: 0.01, Clip: 0.5, Eps: 1e-3})
			if err != nil {
				t.Fatal(err)
			}
			for step := range 5 {
				for part := 0; part < 6; part += n {
					var weight float64
					for name, shift := range map[string]float64{"x": 1, "y": 2, "w": 3} {
						v := plan.Input(name)
						for i := range v {
							at := part*len(v)/n + i
							v[i] = float32(math.Sin(float64(at)*shift + float64(step)))
							if name == "w" { // unequal, and all zero for the last two samples
								v[i] = float32(math.Abs(float64(v[i]))) * float32(1+at/90)
								if at >= 4*90 {
									v[i] = 0
								}
								weight += float64(v[i])
							}
						}
					}
					if err := plan.Run(context.Background(), 0); err != nil {
						t.Fatal(err)
					}
					if n != 6 {
						p.Accumulate(weight)
					}
				}
				norm, err := p.Step(0.05)
				if err != nil {
					t.Fatal(err)
				}
				got[way] = append(got[way], norm)
			}
			got[way] = append(got[way], values(s)...)
			state, err := p.State()
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range state {
				for _, v := range x.Values {
					got[way] = append(got[way], float64(v))
				}
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		}
		if !close(got[0], got[1], 2e-6) {
			t.Errorf("%s: norms, parameters and moments\n%v of one batch\n%v of three", kind, got[0], got[1])
		}
	}
}

// TestGatheredNothing: gradients with weight 0 change parameters by momentum only, and a refused
// step discards accumulated gradients.
func TestGatheredNothing(t *testing.T) {
	s := store(t, graph.Bias)
	p, err := New(s, Options{Kind: SGD})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	before := slices.Clone(s.Params())
	setGrads(s, 1)
	p.Accumulate(0)
	if norm, err := p.Step(0.1); norm != 0 || err != nil || !slices.Equal(before, s.Params()) {
		t.Errorf("norm %v, %v, parameters %v, want those before, %v", norm, err, s.Params(), before)
	}
	s.Grads()[0] = float32(math.NaN())
	p.Accumulate(1)
	if _, err := p.Step(0.1); err == nil {
		t.Fatal("a gathered NaN was taken")
	}
	s.Grads()[0] = 0
	p.Accumulate(1)
	if _, err := p.Step(0.1); err != nil {
		t.Error(err)
	}
}
