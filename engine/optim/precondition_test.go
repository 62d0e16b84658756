package optim_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/engine/optim/kfac"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// regression is a linear regression of 2 results on 8 features with a condition number of 10⁴: features are
// orthogonal over the 16 samples, with norms from 1 to 0.01. The solution is known, with a loss of 0.
func regression(t *testing.T) *engine.Plan {
	t.Helper()
	const samples, features = 16, 8
	b := graph.New(2)
	w := b.Param("w", graph.Shape{2, features, 1, 1, 1}, graph.Zeros())
	y := op.Conv3D(b, b.Input("x", graph.Shape{samples, features, 1, 1, 1}), w, op.Conv{})
	b.Loss(op.Mean(b, op.Square(b, op.Sub(b, y, b.Input("y", graph.Shape{samples, 2, 1, 1, 1})))))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	p, err := engine.Compile(g, engine.Options{MaxFactorSide: 8, Numerics: engine.Numerics{UseHeuristics: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	for n := range samples {
		var sums [2]float64
		for f := range features {
			x := math.Pow(10, -2*float64(f)/(features-1)) * math.Cos(math.Pi*(float64(n)+.5)*float64(f+1)/samples)
			p.Input("x")[n*features+f] = float32(x)
			sums[0], sums[1] = sums[0]+x*float64(f+1), sums[1]-x*float64(features-f)
		}
		p.Input("y")[2*n], p.Input("y")[2*n+1] = float32(sums[0]), float32(sums[1])
	}
	return p
}

// stepsTo counts the steps until the loss is below the target; limit if it is not reached. next is called before every
// step.
func stepsTo(t *testing.T, p *engine.Plan, opt *optim.Optimizer, rate float64, next func() error) int {
	t.Helper()
	const target, limit = 1e-6, 20000
	for step := range limit {
		if err := p.Run(context.Background(), 0); err != nil {
			t.Fatal(err)
		}
		if p.Loss() < target {
			return step
		}
		if err := next(); err != nil {
			t.Fatal(err)
		}
		if _, err := opt.Step(rate); err != nil {
			t.Fatal(err)
		}
	}
	return limit
}

// identity is the identity as a factor with the size of an output of p.
func identity(p *engine.Plan, name string) []float32 {
	out := make([]float32, len(p.Output(name)))
	for i := 0; i*(i+3)/2 < len(out); i++ {
		out[i*(i+3)/2] = 1
	}
	return out
}

// On an ill-conditioned regression K-FAC needs one step with its own length, few with that of SGD, and SGD alone at nearly its
// largest stable rate thousands. The Fisher
// matrix of the results of a least squares fit is the identity; that of the residuals would vanish with them.
func TestPreconditionedRegression(t *testing.T) {
	p := regression(t)
	sgd, err := optim.New(p.Store(), optim.Options{Kind: optim.SGD})
	if err != nil {
		t.Fatal(err)
	}
	n := stepsTo(t, p, sgd, 3, func() error { return nil })
	if n < 1000 {
		t.Errorf("SGD needs %d steps", n)
	}
	clear(p.Store().Params())
	k, err := kfac.New(p.Store(), p.Factors(), kfac.Options{Damping: 1e-10})
	if err != nil {
		t.Fatal(err)
	}
	factors := func(name string) []float32 {
		if name == p.Factors()[0].RowsName() {
			return identity(p, name)
		}
		return p.Output(name)
	}
	if err := p.Run(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	if err := k.Update(factors); err != nil {
		t.Fatal(err)
	}
	u := make([]float32, len(p.Store().Grads()))
	k.Apply(u, p.Store().Grads())
	w := p.Store().Params()
	for i, v := range u { // with its own length a step solves a least squares problem
		w[i] -= v
	}
	if err := p.Run(context.Background(), 0); err != nil || !(p.Loss() < 1e-6) {
		t.Errorf("loss %g after a step of K-FAC, %v", p.Loss(), err)
	}
	clear(w)
	opt, err := optim.New(p.Store(), optim.Options{Kind: optim.SGD, Preconditioner: k})
	if err != nil {
		t.Fatal(err)
	}
	m := stepsTo(t, p, opt, 3, func() error { return nil })
	t.Logf("SGD needs %d steps, with the directions of K-FAC %d", n, m)
	if m > 20 {
		t.Errorf("SGD needs %d steps with the directions of K-FAC", m)
	}
}

// With identities as factors, K-FAC by SGD has the bits of SGD with momentum, decay and clipping.
func TestPreconditionedRules(t *testing.T) {
	p := regression(t)
	if err := p.Run(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	ones := func(name string) []float32 { return identity(p, name) }
	run := func(o optim.Options, factor func(string) []float32) []float32 {
		t.Helper()
		clear(p.Store().Params())
		if factor != nil {
			k, err := kfac.New(p.Store(), p.Factors(), kfac.Options{})
			if err == nil {
				err = k.Update(factor)
			}
			if err != nil {
				t.Fatal(err)
			}
			o.Preconditioner = k
		}
		opt, err := optim.New(p.Store(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer opt.Close()
		for range 3 {
			if err := p.Run(context.Background(), 0); err != nil {
				t.Fatal(err)
			}
			if _, err := opt.Step(.01); err != nil {
				t.Fatal(err)
			}
		}
		return slices.Clone(p.Store().Params())
	}
	sgd := optim.Options{Kind: optim.SGD, Momentum: .9, Decay: .1, Clip: .5}
	if want, got := run(sgd, nil), run(sgd, ones); !slices.Equal(got, want) {
		t.Errorf("with identities SGD makes %v, want %v", got, want)
	}
	if want, got := run(sgd, nil), run(sgd, p.Output); slices.Equal(got, want) {
		t.Error("factors do not change the steps of SGD")
	}
}

// A grafted step has the length of AdamW's step, in the direction of the preconditioned moment.
func TestGrafting(t *testing.T) {
	p := regression(t)
	step := func(o optim.Options) []float32 {
		t.Helper()
		clear(p.Store().Params())
		if err := p.Run(context.Background(), 0); err != nil {
			t.Fatal(err)
		}
		opt, err := optim.New(p.Store(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer opt.Close()
		if _, err := opt.Step(.01); err != nil {
			t.Fatal(err)
		}
		return slices.Clone(p.Store().Params())
	}
	adam := step(optim.Options{Kind: optim.AdamW, Decay: .1})
	k, err := kfac.New(p.Store(), p.Factors(), kfac.Options{Damping: .01})
	if err == nil {
		err = k.Update(p.Output)
	}
	if err != nil {
		t.Fatal(err)
	}
	got := step(optim.Options{Kind: optim.AdamW, Decay: .1, Preconditioner: k})
	u := make([]float32, len(got))
	k.Apply(u, p.Store().Grads())
	var a2, g2, u2, gu float64
	for i, v := range got {
		a2, g2 = a2+float64(adam[i])*float64(adam[i]), g2+float64(v)*float64(v)
		u2, gu = u2+float64(u[i])*float64(u[i]), gu-float64(v)*float64(u[i])
	}
	if math.Abs(math.Sqrt(g2/a2)-1) > 1e-5 {
		t.Errorf("length %g, want AdamW's %g", math.Sqrt(g2), math.Sqrt(a2))
	}
	if c := gu / math.Sqrt(u2*g2); c < 1-1e-5 {
		t.Errorf("cosine to the preconditioned gradient is %g", c)
	}
	if _, err := optim.New(p.Store(), optim.Options{Kind: optim.LAMB, Preconditioner: k}); exit.CodeOf(err) != exit.Usage {
		t.Errorf("a preconditioner for LAMB: %v", err)
	}
}
