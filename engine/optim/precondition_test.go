package optim_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
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

// twoRanks is one of two ranks in one process, which exchange all values in turn.
type twoRanks struct {
	rank     int
	owners   []int
	plan     *engine.Plan
	to, from chan any
}

func (r *twoRanks) Rank() int     { return r.rank }
func (r *twoRanks) Size() int     { return 2 }
func (r *twoRanks) Owners() []int { return r.owners }

// Grads has the gradients of the rank's chunks.
func (r *twoRanks) Grads() []float32 {
	chunks := optim.Chunks(r.plan.Store())
	at, n := optim.ChunkOffsets(chunks, r.owners, r.rank)
	out := make([]float32, n)
	for i, x := range chunks {
		if at[i] >= 0 {
			copy(out[at[i]:], r.plan.Store().Grads()[x.Lo:x.Hi])
		}
	}
	return out
}

func (r *twoRanks) AllReduce(x []float64) error {
	r.to <- slices.Clone(x)
	for i, v := range (<-r.from).([]float64) {
		x[i] += v
	}
	return nil
}

func (r *twoRanks) AllGather(x []float32) error {
	r.to <- slices.Clone(x)
	other := (<-r.from).([]float32)
	for i, c := range optim.Chunks(r.plan.Store()) {
		if r.owners[i] != r.rank {
			copy(x[c.Lo:c.Hi], other[c.Lo:c.Hi])
		}
	}
	return nil
}

func (r *twoRanks) GatherToRoot(x []float32, sizes []int, put func(rank int, x []float32)) error {
	if r.rank > 0 {
		r.to <- slices.Clone(x)
		return nil
	}
	put(0, x)
	put(1, (<-r.from).([]float32)[:sizes[1]])
	return nil
}

// twoLayers has two convolutions with biases, of which the second has a filter of several chunks, and a scale.
func twoLayers(t *testing.T) *engine.Plan {
	t.Helper()
	b := graph.New(5)
	x := b.Input("x", graph.Shape{2, 3, 1, 5, 6})
	layer := func(name string, x graph.Value, in, out int) graph.Value {
		y := op.Conv3D(b, x, b.Param(name, graph.Shape{out, in, 1, 3, 3}, graph.HeNormal(9*in)), op.Conv{Pad: op.Same(1, 3, 3)})
		return op.Tanh(b, op.Bias(b, y, b.ParamOf(graph.Bias, name+".bias", graph.Shape{out}, graph.HeNormal(1))))
	}
	h := op.Mul(b, layer("wide", layer("first", x, 3, 48), 48, 40), b.Param("scale", graph.Shape{1, 40, 1, 1, 1}, graph.Ones()))
	b.Loss(op.Mean(b, op.Square(b, h)))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	p, err := engine.Compile(g, engine.Options{MaxFactorSide: 50, Numerics: engine.Numerics{UseHeuristics: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	for i := range p.Input("x") {
		p.Input("x")[i] = float32(math.Sin(float64(i)))
	}
	return p
}

// Ranks that own whole layers take the steps of one process, bit for bit, by all rules; rank 0 gets the factors of both. A factor
// that is not finite is an error of both. Parts of a tensor on two ranks are refused.
func TestPreconditionedRanks(t *testing.T) {
	steps := func(p *engine.Plan, o optim.Options, r *twoRanks) ([]float32, []kfac.Tensor, error) {
		k := kfac.Options{Damping: .01, Decay: .5, History: true}
		if r != nil {
			o.Ranks, k.Owners = r, r
		}
		c, err := kfac.New(p.Store(), p.Factors(), k)
		if err != nil {
			return nil, nil, err
		}
		o.Preconditioner = c
		opt, err := optim.New(p.Store(), o)
		if err != nil {
			return nil, nil, err
		}
		defer opt.Close()
		for i := range 4 {
			if err := p.Run(context.Background(), 0); err != nil {
				return nil, nil, err
			}
			if i%2 == 1 {
				if err := c.Update(p.Output); err != nil {
					return nil, nil, err
				}
			}
			if _, err := opt.Step(.01); err != nil {
				return nil, nil, err
			}
		}
		state, err := c.State()
		if err != nil {
			return nil, nil, err
		}
		for i := range state { // without owners they are those of the preconditioner
			state[i].Values = slices.Clone(state[i].Values)
		}
		params := slices.Clone(p.Store().Params())
		bad := func(name string) []float32 {
			x := slices.Clone(p.Output(name))
			if strings.Contains(name, "wide") { // of rank 1
				x[0] = float32(math.Inf(1))
			}
			return x
		}
		if err := c.Update(bad); !errors.Is(err, kfac.ErrNotFinite) {
			return nil, nil, fmt.Errorf("an infinite factor: %w", err)
		}
		return params, state, nil
	}
	for _, kind := range []optim.Kind{optim.SGD, optim.LARS, optim.AdamW} {
		o := optim.Options{Kind: kind, Momentum: .9, Decay: .1, Clip: .01}
		want, state, err := steps(twoLayers(t), o, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got [2][]float32
		var parts []kfac.Tensor
		var failed [2]error
		var both sync.WaitGroup
		a, b := make(chan any, 1), make(chan any, 1)
		for rank, p := range []*engine.Plan{twoLayers(t), twoLayers(t)} {
			r := &twoRanks{rank: rank, plan: p, to: a, from: b}
			if rank == 1 {
				r.to, r.from = b, a
			}
			for _, x := range optim.Chunks(p.Store()) { // the scale is on the rank of the first layer
				owner := 0
				if strings.HasPrefix(x.Param, "wide") {
					owner = 1
				}
				r.owners = append(r.owners, owner)
			}
			both.Go(func() {
				var s []kfac.Tensor
				if got[rank], s, failed[rank] = steps(p, o, r); rank == 0 {
					parts = s
				}
			})
		}
		both.Wait()
		if err := errors.Join(failed[:]...); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got[0], want) || !slices.Equal(got[1], want) {
			t.Errorf("%s: two ranks take other steps than one process", kind)
		}
		if len(parts) != len(state) {
			t.Fatalf("rank 0 has %d tensors of the factors, want %d", len(parts), len(state))
		}
		for _, x := range state {
			i := slices.IndexFunc(parts, func(y kfac.Tensor) bool { return y.Name == x.Name })
			if i < 0 || !slices.Equal(parts[i].Values, x.Values) {
				t.Errorf("%s: rank 0 has other values of %s", kind, x.Name)
			}
		}
	}
	p := twoLayers(t)
	r := &twoRanks{plan: p}
	for i := range optim.Chunks(p.Store()) { // the filter of two chunks is on both
		r.owners = append(r.owners, i%2)
	}
	if _, err := optim.New(p.Store(), optim.Options{Kind: optim.SGD, Preconditioner: &kfac.Preconditioner{}, Ranks: r}); exit.CodeOf(err) != exit.Usage {
		t.Errorf("parts of a tensor on two ranks: %v", err)
	}
}
