package obs_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/prune/obs"
)

// network is a convolution with bias; its inputs are correlated.
func network(t *testing.T, o engine.Options) *engine.Plan {
	t.Helper()
	b := graph.New(5)
	x := b.Input("x", graph.Shape{1, 6, 2, 6, 8})
	w := b.Param("w", graph.Shape{4, 6, 1, 3, 3}, graph.HeNormal(54))
	b.Output("y", op.Bias(b, op.Conv3D(b, x, w, op.Conv{Pad: op.SameGlobal(1, 3, 3)}), b.Param("b", graph.Shape{4}, graph.Ones())))
	return compiled(t, b, o)
}

// run computes the results for a sample.
func run(t *testing.T, p *engine.Plan, sample int) []float32 {
	t.Helper()
	x := p.Input("x")
	for i := range x {
		at := i % 96
		x[i] = float32(math.Sin(0.7*float64(at+sample))+0.3*math.Sin(float64(i*i+sample))) + 0.5
	}
	if err := p.Run(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	return p.Output("y")
}

// TestProblemIsTheErrorOfResults checks that the increases of a problem are half the squared error of the layer's
// results on the calibration samples, for each position, and that removing the same blocks without
// the update is worse. A Hessian of the channels is an approximation: its removals are better than plain ones too.
func TestProblemIsTheErrorOfResults(t *testing.T) {
	const samples, damping = 6, 1e-9
	for _, maxSide := range []int{100, 20} {
		c := &obs.Calibration{Filter: "w", MaxSide: maxSide}
		p := network(t, engine.Options{Debug: engine.Debug{Passes: c.Passes()}})
		var want [][]float32
		for s := range samples {
			want = append(want, append([]float32(nil), run(t, p, s)...))
			c.KeepResults(p)
			c.SetTarget(p)
			run(t, p, s)
			if err := c.Observe(p); err != nil {
				t.Fatal(err)
			}
		}
		w, _, _ := p.Store().Get("w")
		bias, _, _ := p.Store().Get("b")
		trained := append([]float32(nil), w...)
		full := maxSide == 100
		if (c.Bias() == "b") != full {
			t.Errorf("bias %q", c.Bias())
		}
		problem, err := c.Problem(w, bias, 2, 2, damping)
		if err != nil {
			t.Fatal(err)
		}
		removed, err := problem.Remove(4 * 2 * 2 * 9)
		if err != nil || len(removed) != 4 {
			t.Fatalf("removed %v, %v", removed, err)
		}
		sum := 0.0
		for _, r := range removed {
			sum += r.Increase
		}
		errorOf := func() (e float64) {
			for s := range samples {
				for i, v := range run(t, p, s) {
					d := float64(v) - float64(want[s][i])
					e += d * d / 2
				}
			}
			return e
		}
		c.Write(problem, w, bias)
		adapted := errorOf()
		for i := range w { // the same zeros, other weights as trained
			if w[i] != 0 {
				w[i] = trained[i]
			}
		}
		for i := range bias {
			bias[i] = 1
		}
		plain := errorOf()
		if adapted >= plain {
			t.Errorf("side %d: error %g, without the update %g", maxSide, adapted, plain)
		}
		if full {
			if got := sum * samples * 2 * 6 * 8; math.Abs(got-adapted) > 1e-4*adapted {
				t.Errorf("predicted error %g, want %g", got, adapted)
			}
		}
	}
	c := &obs.Calibration{Filter: "other", MaxSide: 100}
	network(t, engine.Options{Debug: engine.Debug{Passes: c.Passes()}})
	if p, err := c.Problem(nil, nil, 2, 2, damping); p != nil || err != nil {
		t.Errorf("a problem of a filter that does not exist: %v", err)
	}
}

// compiled is a plan of the reference kernels.
func compiled(t *testing.T, b *graph.Builder, o engine.Options) *engine.Plan {
	t.Helper()
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	o.Backend, o.Mode = "ref", engine.Infer
	p, err := engine.Compile(g, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// twoLayers are convolutions with filters of one point: x → (v₀x, v₁x) → w₀v₀x + w₁v₁x + b, all 1 but v₁ = 2, w = 3, 4.
func twoLayers(t *testing.T, o engine.Options) *engine.Plan {
	t.Helper()
	b := graph.New(5)
	x := b.Input("x", graph.Shape{1, 1, 1, 2, 4})
	v := b.Param("v", graph.Shape{2, 1, 1, 1, 1}, graph.Ones())
	w := b.Param("w", graph.Shape{1, 2, 1, 1, 1}, graph.Ones())
	b.Output("y", op.Bias(b, op.Conv3D(b, op.Conv3D(b, x, v, op.Conv{}), w, op.Conv{}), b.Param("b", graph.Shape{1}, graph.Ones())))
	p := compiled(t, b, o)
	set(p, "v", 1, 2)
	set(p, "w", 3, 4)
	return p
}

// set sets a parameter.
func set(p *engine.Plan, name string, values ...float32) {
	v, _, _ := p.Store().Get(name)
	copy(v, values)
}

// TestSecondLayerRepairsTheFirst removes the channel v₁ of two layers y = 3x + 8x + 1. Pruned alone, the second layer keeps
// w₀ = 3, and the result is 3x + 1. Its least-squares fit to the inputs of the pruned network is w₀ = 11: the result is that of
// the dense network. w₁, which has no effect, stays. With damping λ and h = Σx²/g, w₀ = 3 + 8 h/(h + λ) if x has the mean 0.
func TestSecondLayerRepairsTheFirst(t *testing.T) {
	x := []float32{1, -1, 2, -2, 3, -3, 1, -1} // mean 0
	for _, damping := range []float64{1e-9, 0.5} {
		c := &obs.Calibration{Filter: "w", MaxSide: 100}
		p := twoLayers(t, engine.Options{Debug: engine.Debug{Passes: c.Passes()}})
		runs := func() []float32 {
			copy(p.Input("x"), x)
			if err := p.Run(context.Background(), 0); err != nil {
				t.Fatal(err)
			}
			return p.Output("y")
		}
		runs()
		c.KeepResults(p)
		c.SetTarget(p)
		set(p, "v", 1, 0)
		runs()
		if err := c.Observe(p); err != nil {
			t.Fatal(err)
		}
		w, _, _ := p.Store().Get("w")
		bias, _, _ := p.Store().Get("b")
		problem, err := c.Problem(w, bias, 1, 1, damping)
		if err != nil {
			t.Fatal(err)
		}
		c.Write(problem, w, bias)
		squares, ones, columns := 30.0, 8.0, 3.0
		h := squares / ((squares + ones) / columns)
		want := 3 + 8*h/(h+damping)
		if math.Abs(float64(w[0])-want) > 1e-5 || w[1] != 4 || math.Abs(float64(bias[0])-1) > 1e-6 {
			t.Errorf("damping %g: weights %v, bias %v, want %g, 4 and 1", damping, w, bias, want)
		}
		for i, y := range runs() {
			if dense := 11*x[i] + 1; damping < 0.1 && math.Abs(float64(y-dense)) > 1e-5 {
				t.Errorf("result %g, want %g", y, dense)
			}
		}
	}
}

// TestRefine has the results 2 and −2 of a layer before its ReLU, and the inputs 1 and 1 in the pruned network. The weight
// that fits the results is 0. Refined, it is 1: the activations 1 and 1 are nearest to 2 and 0. Another pass changes nothing.
func TestRefine(t *testing.T) {
	b := graph.New(5)
	x := b.Input("x", graph.Shape{1, 2, 1, 1, 2})
	inner := op.Conv3D(b, x, b.Param("v", graph.Shape{2, 2, 1, 1, 1}, graph.Zeros()), op.Conv{})
	b.Output("y", op.ReLU(b, op.Conv3D(b, inner, b.Param("w", graph.Shape{1, 2, 1, 1, 1}, graph.Ones()), op.Conv{})))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	c := &obs.Calibration{Filter: "w", MaxSide: 100}
	pass := func(w0 float32) (w []float32) {
		p, err := engine.Compile(g, engine.Options{Device: engine.Device{Backend: "ref"}, Mode: engine.Infer, Debug: engine.Debug{Passes: c.Passes()}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		run := func(v1, w0 float32) {
			set(p, "v", 1, 0, 0, v1)
			set(p, "w", w0, 1)
			copy(p.Input("x"), []float32{1, 1, 1, -3})
			if err := p.Run(context.Background(), 0); err != nil {
				t.Fatal(err)
			}
		}
		run(1, 1)
		c.KeepResults(p)
		c.SetTarget(p)
		run(0, w0)
		if err := c.Observe(p); err != nil {
			t.Fatal(err)
		}
		w = []float32{w0, 1}
		problem, err := c.Problem(w, nil, 1, 1, 1e-9)
		if err != nil {
			t.Fatal(err)
		}
		c.Write(problem, w, nil)
		return w
	}
	w := pass(1)
	for i, want := range []float64{0, 1, 1} {
		if math.Abs(float64(w[0])-want) > 1e-6 {
			t.Errorf("pass %d: weight %g, want %g", i, w[0], want)
		}
		c.Refine()
		w = pass(w[0])
	}
}

// TestCalibrationNamesValuesThatAreNotFinite: a NaN or an infinity in the inputs is reported with its sample, and not as a
// Hessian that is not positive definite.
func TestCalibrationNamesValuesThatAreNotFinite(t *testing.T) {
	for _, maxSide := range []int{100, 20} {
		for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1))} {
			c := &obs.Calibration{Filter: "w", MaxSide: maxSide}
			p := network(t, engine.Options{Debug: engine.Debug{Passes: c.Passes()}})
			run(t, p, 0)
			c.KeepResults(p)
			c.SetTarget(p)
			if err := c.Observe(p); err != nil {
				t.Fatal(err)
			}
			p.Input("x")[3] = bad
			if err := p.Run(context.Background(), 0); err != nil {
				t.Fatal(err)
			}
			if err := c.Observe(p); !errors.Is(err, obs.ErrNotFinite) {
				t.Errorf("side %d, %g: error %v", maxSide, bad, err)
			}
		}
	}
}
