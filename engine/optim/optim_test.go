package optim

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/internal/allocs"
)

// golden is what testdata/torch_trajectory.py writes.
type golden struct {
	SGD           path      `json:"sgd"`
	Nesterov      path      `json:"sgd_nesterov"`
	Adam          path      `json:"adam"`
	AdamW         path      `json:"adamw"`
	AdamWClip     path      `json:"adamw_clip"`
	EMA           path      `json:"ema"`
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

// store lays out the two parameters of the golden file. The second is a bias, or a weight that decays.
func store(t *testing.T, second graph.Role) *engine.Store {
	t.Helper()
	var w, c []float32
	for i := range 6 {
		w = append(w, float32(0.5*math.Sin(1+float64(i))))
	}
	for i := range 3 {
		c = append(c, float32(0.1*math.Cos(2+float64(i))))
	}
	return laidOut(t, []string{"conv.weight", "conv.bias"}, []graph.Role{graph.Weight, second}, []graph.Shape{{6}, {3}}, [][]float32{w, c})
}

// laidOut returns a store of parameters with the given roles, nil means weights, and values; nil means random ones.
func laidOut(t testing.TB, names []string, roles []graph.Role, shapes []graph.Shape, values [][]float32) *engine.Store {
	t.Helper()
	b := graph.New(1)
	loss := b.Scalar(0)
	for i, name := range names {
		start := graph.KaimingUniform(3)
		if values != nil {
			start = graph.Values(values[i])
		}
		role := graph.Weight
		if roles != nil {
			role = roles[i]
		}
		loss = op.Add(b, loss, op.Sum(b, b.ParamOf(role, name, shapes[i], start)))
	}
	b.Loss(loss)
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	s := engine.NewStore()
	p, err := engine.Compile(g, engine.Options{Device: engine.Device{Backend: "ref"}, Reuse: engine.Reuse{Store: s}})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	return s
}

// setGrads sets the gradients by the formula of the script.
func setGrads(s *engine.Store, step int) {
	for name, shift := range map[string]float64{"conv.weight": 0, "conv.bias": 0.5} {
		g, _ := s.Grad(name)
		for i := range g {
			g[i] = float32(math.Sin(0.7*float64(step)+1.3*float64(i)+shift) * (1 + 0.1*float64(i)))
		}
	}
}

// TestTorch compares with PyTorch over 20 steps. Tolerance: twenty float32 updates of values below
// one, 2⁻²³ each, and a few roundings.
func TestTorch(t *testing.T) {
	const tol = 2e-6
	g := load(t)
	for _, c := range []struct {
		name   string
		second graph.Role
		o      Options
		rate   float64
		want   path
	}{
		{"sgd", graph.Weight, Options{Kind: SGD, Momentum: 0.9, Decay: 0.01}, 0.05, g.SGD},
		{"nesterov", graph.Weight, Options{Kind: SGD, Momentum: 0.9, Nesterov: true}, 0.05, g.Nesterov},
		{"adam", graph.Weight, Options{Decay: 0.01}, 0.01, g.Adam},
		{"adamw", graph.Bias, Options{Kind: AdamW, Decay: 0.05}, 0.01, g.AdamW},
		{"average beside adamw", graph.Weight, Options{Kind: AdamW, Decay: 0.05, EMA: 0.9}, 0.01, g.EMA},
		{"adamw, clipped", graph.Bias, Options{Kind: AdamW, Decay: 0.05, Beta1: 0.8, Beta2: 0.95, Eps: 1e-6, Clip: 0.7, Threads: 2}, 0.01, g.AdamWClip},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := store(t, c.second)
			seen := s
			if c.o.EMA > 0 {
				c.o.Average = store(t, c.second)
				seen = c.o.Average
			}
			p, err := New(s, c.o)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			w, _, _ := seen.Get("conv.weight")
			bias, _, _ := seen.Get("conv.bias")
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

// TestLoopAgreesWithKernel: the reference and the C kernels agree, with every rule, for tensors of
// one value, of a few, and of more than a chunk.
func TestLoopAgreesWithKernel(t *testing.T) {
	pieces := []chunk{{0, 1, 0, 0}, {16, 23, 1, 16}, {32, 16416, 2, 24}, {16416, 40032, 2, 16408}, {40032, 40032 + 555, 3, 40024}}
	const n = 40032 + 555
	sw, err := newSweeper(2, pieces)
	if err != nil {
		t.Fatal(err)
	}
	defer sw.close()
	loop := refSweeper{pieces}
	fresh := func() *arena {
		a := &arena{}
		for i := range n {
			x := float64(i)
			a.w = append(a.w, float32(math.Sin(x)))
			a.m = append(a.m, float32(0.1*math.Cos(2*x)))
			a.v = append(a.v, float32(0.01*(1.1+math.Sin(3*x))))
			a.g = append(a.g, float32(math.Cos(5*x)))
			a.e = append(a.e, float32(math.Sin(x+0.1)))
		}
		return a
	}
	for _, c := range []struct {
		rule     Kind
		nesterov bool
		blend    float64
	}{{SGD, false, 0.1}, {SGD, true, 1}, {Adam, false, 0.1}, {AdamW, false, 0.1}, {LARS, false, 0.1}, {LAMB, false, 0.1}} {
		s := step{rule: c.rule, nesterov: c.nesterov, rate: 0.01, beta1: 0.9, beta2: 0.999, eps: 1e-8, momentum: 0.9, factor: 0.5, correct1: 0.3, correct2: 0.01,
			blend: c.blend, decay: []float32{0, 0.1, 0.2, 0.3}, ratio: []float32{1, 0.5, 2, 3}}
		x, y := fresh(), fresh()
		var nx, ny [10]float64
		if c.rule == LAMB {
			loop.moments(nx[:], x, &s)
			sw.moments(ny[:], y, &s)
		} else {
			w := x.w
			if c.rule == SGD {
				w = nil
			}
			loop.squares(nx[:], w, x.g)
			sw.squares(ny[:], w, y.g)
		}
		for k := range nx { // u differs by a few roundings, 2⁻²³ each
			if tol := []float64{1e-12, 1e-5}[k%2]; math.Abs(nx[k]-ny[k]) > tol*nx[k] {
				t.Errorf("%s: sums %d are %v and %v", c.rule, k, nx[k], ny[k])
			}
		}
		loop.apply(x, &s)
		sw.apply(y, &s)
		loop.accumulate(x.m, x.g, 0.25)
		sw.accumulate(y.m, y.g, 0.25)
		for i := range n {
			for k, d := range []float32{x.w[i] - y.w[i], x.m[i] - y.m[i], x.v[i] - y.v[i], x.e[i] - y.e[i]} {
				if math.Abs(float64(d)) > 5e-7 {
					t.Fatalf("%s: element %d of %s differs by %g", c.rule, i, "wmve"[k:k+1], d)
				}
			}
		}
		for i, want := range fresh().w[24:32] { // between two tensors
			if y.w[24+i] != want {
				t.Fatalf("%s: a gap was written", c.rule)
			}
		}
	}
}

// TestThreads: a step has the same bits with any number of threads.
func TestThreads(t *testing.T) {
	for _, kind := range Kinds {
		var want []float32
		for _, threads := range []int{1, 3} {
			s := big(t)
			p, err := New(s, Options{Kind: kind, Momentum: 0.9, Decay: 0.01, Clip: 1, Threads: threads})
			if err != nil {
				t.Fatal(err)
			}
			for k := range 3 {
				for i, g := range s.Grads() {
					s.Grads()[i] = g + float32(math.Sin(float64(i+7*k)))
				}
				if _, err := p.Step(0.01); err != nil {
					t.Fatal(err)
				}
			}
			if want == nil {
				want = slices.Clone(s.Params())
			} else if !slices.Equal(want, s.Params()) {
				t.Errorf("%s: other bits with %d threads", kind, threads)
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestStepAllocatesNothing: steps and accumulation allocate no memory.
func TestStepAllocatesNothing(t *testing.T) {
	for _, kind := range Kinds {
		s := big(t)
		p, err := New(s, Options{Kind: kind, Momentum: 0.9, Decay: 0.01, Clip: 1, EMA: 0.99, Average: big(t), Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		p.Accumulate(1)
		if n := allocs.PerRun(5, func() {
			p.Accumulate(1)
			if _, err := p.Step(0.01); err != nil {
				t.Fatal(err)
			}
		}); n > 0 {
			t.Errorf("%s: %v allocations a step", kind, n)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

// big is a store with tensors of several chunks.
func big(t *testing.T) *engine.Store {
	t.Helper()
	return laidOut(t, []string{"a.weight", "a.bias", "b.weight"}, []graph.Role{graph.Weight, graph.Bias, graph.Weight}, []graph.Shape{{7, 5001}, {33}, {3, 3, 3}}, nil)
}

// TestResume: an optimiser with a restored state continues bit for bit, weights and average.
func TestResume(t *testing.T) {
	for _, kind := range Kinds {
		make2 := func() (s, average *engine.Store, p *Optimizer) {
			s, average = store(t, graph.Bias), store(t, graph.Bias)
			p, err := New(s, Options{Kind: kind, Momentum: 0.9, Decay: 0.01, Clip: 1, EMA: 0.8, Average: average})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { p.Close() })
			return s, average, p
		}
		run := func(from, to int, s *engine.Store, p *Optimizer) {
			for step := from; step < to; step++ {
				setGrads(s, step)
				p.Accumulate(0.25)
				setGrads(s, step+100)
				p.Accumulate(0.75)
				if _, err := p.Step(0.01); err != nil {
					t.Fatal(err)
				}
			}
		}
		s1, a1, p1 := make2()
		run(0, 10, s1, p1)
		s2, a2, p2 := make2()
		moved, err := p1.State()
		if err != nil {
			t.Fatal(err)
		}
		err = p2.Restore(p1.Steps(), func(name string, n int) ([]float32, error) {
			for _, x := range moved {
				if x.Name == name && len(x.Values) == n {
					return x.Values, nil
				}
			}
			return nil, fmt.Errorf("no %s of %d values", name, n)
		})
		if err != nil {
			t.Fatal(err)
		}
		copy(s2.Params(), s1.Params())
		copy(a2.Params(), a1.Params())
		run(10, 15, s1, p1)
		run(10, 15, s2, p2)
		if !slices.Equal(s1.Params(), s2.Params()) || !slices.Equal(a1.Params(), a2.Params()) {
			t.Errorf("%s: %v and average %v after resuming, %v and %v without a break", kind, s2.Params(), a2.Params(), s1.Params(), a1.Params())
		}
		if slices.Equal(s1.Params(), a1.Params()) {
			t.Errorf("%s: the average is the last value", kind)
		}
	}
}

// TestFault32: a gradient that is not finite changes nothing.
func TestFault32(t *testing.T) {
	s := store(t, graph.Bias)
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

// TestOptions: invalid options are refused.
func TestOptions(t *testing.T) {
	s := store(t, graph.Bias)
	for _, o := range []Options{{Kind: "adagrad"}, {Beta1: 1}, {Decay: -1}, {Clip: math.NaN()}, {Threads: -1}, {Momentum: 1.5},
		{Trust: -1}, {EMA: 1, Average: s}, {EMA: 0.9}, {Average: s}, {EMA: 0.9, Average: big(t)}} {
		if p, err := New(s, o); err == nil {
			p.Close()
			t.Errorf("%+v was accepted", o)
		}
	}
}

// TestTriangular2: the published schedule, 1e-6 to 1e-2, s = 4.
func TestTriangular2(t *testing.T) {
	s := Triangular2{Base: 1e-6, Max: 1e-2, HalfCycle: 4}
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

// TestSchedulesTorch: cosine, plateau and warm-up as in PyTorch.
func TestSchedulesTorch(t *testing.T) {
	g := load(t)
	c := Cosine{Max: 0.01, Min: 0.001, Total: 12}
	for n, want := range g.Cosine {
		if got := c.Rate(uint64(n)); math.Abs(got-want) > 1e-12 {
			t.Errorf("cosine step %d: %v, PyTorch has %v", n, got, want)
		}
	}
	p := &Plateau{Initial: 0.1, Min: 0.02, Factor: 0.5, Threshold: 1e-3, Patience: 2, Cooldown: 1}
	for i, v := range g.PlateauValues {
		p.Observe(v)
		if got := p.Rate(0); math.Abs(got-g.Plateau[i]) > 1e-12 {
			t.Errorf("plateau observation %d: %v, PyTorch has %v", i, got, g.Plateau[i])
		}
	}
	w := Warmup{Schedule: Cosine{Max: 1, Hold: 4, Total: 8}, Steps: 4}
	for n, want := range []float64{0.25, 0.5, 0.75, 1, 1, (2 + math.Sqrt2) / 4, 0.5, (2 - math.Sqrt2) / 4, 0} {
		if got := w.Rate(uint64(n)); math.Abs(got-want) > 1e-12 {
			t.Errorf("warm-up and cosine step %d: %v, want %v", n, got, want)
		}
	}
	if got := (Warmup{Schedule: Constant(2), Steps: 4}).Rate(1); got != 1 {
		t.Errorf("warm-up of a constant: %v, want 1", got)
	}
}
