package optim

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// golden is what testdata/torch_trajectory.py writes.
type golden struct {
	SGD           path      `json:"sgd"`
	Nesterov      path      `json:"sgd_nesterov"`
	Adam          path      `json:"adam"`
	AdamW         path      `json:"adamw"`
	AdamWClip     path      `json:"adamw_clip"`
	Cosine        []float64 `json:"cosine"`
	PlateauValues []float64 `json:"plateau_values"`
	Plateau       []float64 `json:"plateau"`
}

type path struct {
	Path  [][]float64 `json:"path"`
	Norms []float64   `json:"norms"`
}

func load(t *testing.T) golden {
	t.Helper()
	raw, err := os.ReadFile("testdata/torch_trajectory.json")
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(raw, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

// store lays out the two parameters of the golden file.
func store(t *testing.T) *engine.Store {
	t.Helper()
	var w, c []float32
	for i := range 6 {
		w = append(w, float32(0.5*math.Sin(1+float64(i))))
	}
	for i := range 3 {
		c = append(c, float32(0.1*math.Cos(2+float64(i))))
	}
	b := graph.New(1)
	v := b.Param("conv.weight", graph.Shape{6}, graph.Values(w))
	u := b.Param("conv.bias", graph.Shape{3}, graph.Values(c))
	b.Loss(op.Add(b, op.Sum(b, v), op.Sum(b, u)))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	s := engine.NewStore()
	p, err := engine.Compile(g, engine.Options{Backend: "ref", Store: s})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	return s
}

// setGrads repeats the formula of the script.
func setGrads(s *engine.Store, step int) {
	for name, shift := range map[string]float64{"conv.weight": 0, "conv.bias": 0.5} {
		g, _ := s.Grad(name)
		for i := range g {
			g[i] = float32(math.Sin(0.7*float64(step)+1.3*float64(i)+shift) * (1 + 0.1*float64(i)))
		}
	}
}

// TestTorch follows PyTorch's trajectories over 20 steps. Tolerance: twenty
// float32 updates of values below one, 2⁻²³ each and a few roundings more.
func TestTorch(t *testing.T) {
	const tol = 2e-6
	g := load(t)
	for _, c := range []struct {
		name string
		o    Options
		rate float64
		want path
	}{
		{"sgd", Options{Kind: SGD, Momentum: 0.9, Decay: 0.01}, 0.05, g.SGD},
		{"nesterov", Options{Kind: SGD, Momentum: 0.9, Nesterov: true}, 0.05, g.Nesterov},
		{"adam", Options{Decay: 0.01}, 0.01, g.Adam},
		{"adamw", Options{Kind: AdamW, Decay: 0.05, NoDecay: Biases}, 0.01, g.AdamW},
		{"adamw, clipped", Options{Kind: AdamW, Decay: 0.05, NoDecay: Biases, Beta1: 0.8, Beta2: 0.95, Eps: 1e-6, Clip: 0.7, Threads: 2}, 0.01, g.AdamWClip},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := store(t)
			p, err := New(s, c.o)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			w, _, _ := s.Get("conv.weight")
			bias, _, _ := s.Get("conv.bias")
			if len(c.want.Path) != 20 {
				t.Fatalf("golden file has %d steps, want 20", len(c.want.Path))
			}
			for step, want := range c.want.Path {
				setGrads(s, step)
				norm, err := p.Step(c.rate)
				if err != nil {
					t.Fatal(err)
				}
				for i, v := range want {
					got := append(append([]float32{}, w...), bias...)[i]
					if math.Abs(float64(got)-v) > tol {
						t.Fatalf("step %d, value %d: %v, PyTorch has %v", step, i, got, v)
					}
				}
				if len(c.want.Norms) > 0 && math.Abs(norm-c.want.Norms[step]) > 1e-5 {
					t.Fatalf("step %d: norm %v, PyTorch has %v", step, norm, c.want.Norms[step])
				}
			}
		})
	}
}

// TestLoopAgreesWithKernel: the plain loop and the kernel in use move alike.
func TestLoopAgreesWithKernel(t *testing.T) {
	sw, err := newSweeper(2)
	if err != nil {
		t.Fatal(err)
	}
	defer sw.close()
	const n = 1003
	fresh := func() (w, m, v, g []float32) {
		for i := range n {
			x := float64(i)
			w = append(w, float32(math.Sin(x)))
			m = append(m, float32(0.1*math.Cos(2*x)))
			v = append(v, float32(0.01*(1+math.Sin(3*x))))
			g = append(g, float32(math.Cos(5*x)))
		}
		return
	}
	for _, coupled := range []bool{false, true} {
		a := adamStep{rate: 0.01, beta1: 0.9, beta2: 0.999, eps: 1e-8, decay: 0.1, factor: 0.5, correct1: 0.3, correct2: 0.01, coupled: coupled}
		w1, m1, v1, g := fresh()
		w2, m2, v2, _ := fresh()
		loopSweeper{}.adam(w1, m1, v1, g, a)
		sw.adam(w2, m2, v2, g, a)
		for i := range n {
			for k, d := range []float32{w1[i] - w2[i], m1[i] - m2[i], v1[i] - v2[i]} {
				if math.Abs(float64(d)) > 5e-7 {
					t.Fatalf("coupled %v: element %d of %s differs by %g", coupled, i, "wmv"[k:k+1], d)
				}
			}
		}
		if a, b := (loopSweeper{}).norm(g), sw.norm(g); math.Abs(a-b) > 1e-9*a {
			t.Errorf("norms %v and %v", a, b)
		}
	}
}

// TestResume: state carried to another optimiser continues bit for bit.
func TestResume(t *testing.T) {
	for _, kind := range []Kind{SGD, Adam, AdamW} {
		o := Options{Kind: kind, Momentum: 0.9, Decay: 0.01, Clip: 1}
		run := func(from, to int, s *engine.Store, p *Optimizer) {
			for step := from; step < to; step++ {
				setGrads(s, step)
				if _, err := p.Step(0.01); err != nil {
					t.Fatal(err)
				}
			}
		}
		make2 := func() (*engine.Store, *Optimizer) {
			s := store(t)
			p, err := New(s, o)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { p.Close() })
			return s, p
		}
		s1, p1 := make2()
		run(0, 10, s1, p1)
		s2, p2 := make2()
		for i, x := range p1.State() {
			copy(p2.State()[i].Values, x.Values)
		}
		p2.SetSteps(p1.Steps())
		copy(s2.Params(), s1.Params())
		run(10, 15, s1, p1)
		run(10, 15, s2, p2)
		for i, v := range s1.Params() {
			if math.Float32bits(v) != math.Float32bits(s2.Params()[i]) {
				t.Errorf("%s: element %d is %v after resuming, %v without a break", kind, i, s2.Params()[i], v)
			}
		}
	}
}

// TestNotFinite: a bad gradient changes nothing.
func TestNotFinite(t *testing.T) {
	s := store(t)
	p, err := New(s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	before := append([]float32{}, s.Params()...)
	g, _ := s.Grad("conv.bias")
	for _, bad := range []float64{math.NaN(), math.Inf(1)} {
		setGrads(s, 0)
		g[1] = float32(bad)
		if _, err := p.Step(0.1); !errors.Is(err, ErrNotFinite) {
			t.Errorf("gradient %v: error %v, want ErrNotFinite", bad, err)
		}
	}
	for i, v := range before {
		if s.Params()[i] != v {
			t.Fatalf("parameter %d changed", i)
		}
	}
	if p.Steps() != 0 {
		t.Errorf("%d steps counted, want 0", p.Steps())
	}
}

// TestOptions refuses what makes no sense.
func TestOptions(t *testing.T) {
	s := store(t)
	for _, o := range []Options{{Kind: "adagrad"}, {Beta1: 1}, {Decay: -1}, {Clip: math.NaN()}, {Threads: -1}, {Momentum: 1.5}} {
		if p, err := New(s, o); err == nil {
			p.Close()
			t.Errorf("%+v was accepted", o)
		}
	}
}

// TestTriangular2 is the table of the published schedule, 1e-6…1e-2, s = 4.
func TestTriangular2(t *testing.T) {
	s := Triangular2{Base: 1e-6, Max: 1e-2, Half: 4}
	want := []float64{1e-6, 0.00250075, 0.0050005, 0.00750025, 0.01, 0.00750025, 0.0050005, 0.00250075, 1e-6, 0.001250875}
	for n, w := range want {
		if got := s.Rate(uint64(n)); math.Abs(got-w) > 1e-15 {
			t.Errorf("step %d: %v, want %v", n, got, w)
		}
	}
	// the top of the second triangle is base + (max − base)/2
	if got := s.Rate(12); math.Abs(got-0.0050005) > 1e-15 {
		t.Errorf("step 12: %v, want 0.0050005", got)
	}
}

// TestSchedulesTorch: cosine and plateau as in PyTorch, and the warm-up.
func TestSchedulesTorch(t *testing.T) {
	g := load(t)
	c := Cosine{Max: 0.01, Min: 0.001, Total: 12}
	for n, want := range g.Cosine {
		if got := c.Rate(uint64(n)); math.Abs(got-want) > 1e-12 {
			t.Errorf("cosine step %d: %v, PyTorch has %v", n, got, want)
		}
	}
	p := &Plateau{Start: 0.1, Min: 0.02, Factor: 0.5, Threshold: 1e-3, Patience: 2, Cooldown: 1}
	for i, v := range g.PlateauValues {
		p.Observe(v)
		if got := p.Rate(0); math.Abs(got-g.Plateau[i]) > 1e-12 {
			t.Errorf("plateau observation %d: %v, PyTorch has %v", i, got, g.Plateau[i])
		}
	}
	w := Cosine{Max: 1, Warmup: 4, Total: 8}
	for n, want := range []float64{0.25, 0.5, 0.75, 1, 1, (2 + math.Sqrt2) / 4, 0.5, (2 - math.Sqrt2) / 4, 0} {
		if got := w.Rate(uint64(n)); math.Abs(got-want) > 1e-12 {
			t.Errorf("warm-up and cosine step %d: %v, want %v", n, got, want)
		}
	}
	if got := (Warmup{Constant(2), 4}).Rate(1); got != 1 {
		t.Errorf("warm-up of a constant: %v, want 1", got)
	}
}
