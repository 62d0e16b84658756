//go:build cgo && linux

package conv

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
)

// runner is one pass in one form. Slices are as in dnnl.Pass.Run.
type runner interface {
	ScratchLen() int
	Run(src, filter, bias, dst, scratch []float32) error
	Close() error
}

// Conv is a prepared convolution. One goroutine uses it at a time, on one
// locked OS thread, since OpenMP keeps a team of threads for each.
type Conv struct {
	spec    Spec
	run     [3]runner
	form    [3]string
	gflops  [3]float64
	scratch int
}

// Prepare chooses and builds every pass that o asks for. oneDNN's forms take
// part if the library can be opened; our own kernel suffices.
//
// Errors: ErrShape; a form in Force that does not exist or does not serve the
// shape; nothing that serves the shape (a stride in height or width without oneDNN).
func Prepare(s Spec, o Options) (*Conv, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	force, err := parseForce(o.Force)
	if err != nil {
		return nil, err
	}
	c := &Conv{spec: s.normal()}
	// The timing must run on the thread whose OpenMP setting it made.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, pass := range []Pass{Forward, BackwardData, BackwardWeights} {
		if pass != Forward && !o.Backward || pass == BackwardData && o.NoInputGradient {
			continue
		}
		if err := c.choose(pass, o, force[pass.String()]); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.scratch = max(c.scratch, c.run[pass].ScratchLen())
	}
	return c, nil
}

// choose builds the forms of a pass and keeps the fastest.
func (c *Conv) choose(pass Pass, o Options, forced string) error {
	var tried []string
	var trial *bench
	for _, f := range forms {
		if forced != "" && f.name != forced || forced == "" && f.wino && !o.Winograd {
			continue
		}
		r, err := f.build(c.spec, pass, o)
		if err != nil {
			tried = append(tried, fmt.Sprintf("%s: %v", f.name, err))
			continue
		}
		if forced != "" {
			c.run[pass], c.form[pass] = r, f.name
			return nil
		}
		if trial == nil {
			trial = newBench(c.spec)
		}
		rate, err := trial.rate(r)
		if err != nil {
			return errors.Join(fmt.Errorf("convolution %s, form %s: %w", pass, f.name, err), r.Close())
		}
		if rate <= c.gflops[pass] {
			if err := r.Close(); err != nil {
				return err
			}
			continue
		}
		if c.run[pass] != nil {
			if err := c.run[pass].Close(); err != nil {
				return err
			}
		}
		c.run[pass], c.form[pass], c.gflops[pass] = r, f.name, rate
	}
	if c.run[pass] == nil {
		if len(tried) == 0 {
			return fmt.Errorf("convolution %s: there is no form %q", pass, forced)
		}
		return fmt.Errorf("convolution %s: no form serves %+v: %s", pass, c.spec, strings.Join(tried, "; "))
	}
	return nil
}

// bench holds tensors of the right size for timing.
type bench struct {
	src, filter, bias, dst []float32
	flops                  float64
}

func newBench(s Spec) *bench {
	rng := rand.New(rand.NewPCG(1, 2))
	fill := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = rng.Float32() - 0.5
		}
		return x
	}
	return &bench{fill(s.SrcLen()), fill(s.FilterLen()), fill(s.Cout), fill(s.DstLen()), s.FLOPs()}
}

// rate is the best rate in GFLOP/s of a few runs; a slow pass runs twice only.
func (b *bench) rate(r runner) (float64, error) {
	scratch := make([]float32, r.ScratchLen())
	best := time.Duration(1<<63 - 1)
	var spent time.Duration
	for i := 0; i < 2 || i < 9 && spent < 15*time.Millisecond; i++ {
		t := time.Now()
		if err := r.Run(b.src, b.filter, b.bias, b.dst, scratch); err != nil {
			return 0, err
		}
		d := time.Since(t)
		spent += d
		best = min(best, max(d, 1))
	}
	return b.flops / float64(best), nil
}

// Spec is what was prepared, with strides and dilations filled in.
func (c *Conv) Spec() Spec { return c.spec }

// ScratchLen is the number of float32 that the largest pass wants as scratch.
// One scratch serves all convolutions that run one after the other.
func (c *Conv) ScratchLen() int { return c.scratch }

// Choice names the form of every prepared pass; Options.Force takes it back.
func (c *Conv) Choice() string {
	var s []string
	for i, f := range c.form {
		if f != "" {
			s = append(s, Pass(i).String()+"="+f)
		}
	}
	return strings.Join(s, " ")
}

// Rate is what the timing measured for a pass in GFLOP/s; 0 if it was forced.
func (c *Conv) Rate(p Pass) float64 { return c.gflops[p] }

// Forward computes dst = src ∗ filter (+ bias) (ReLU). bias is ignored unless
// asked for in Options. scratch keeps nothing between calls.
//
// Shape: src [N Cin D H W], filter [Cout Cin kD kH kW], bias [Cout] → dst [N Cout D′ H′ W′].
func (c *Conv) Forward(dst, src, filter, bias, scratch []float32) error {
	return c.run[Forward].Run(src, filter, bias, dst, scratch)
}

// BackwardData computes the gradient dsrc from the gradient ddst.
func (c *Conv) BackwardData(dsrc, ddst, filter, scratch []float32) error {
	return c.run[BackwardData].Run(dsrc, filter, nil, ddst, scratch)
}

// BackwardWeights computes the gradients dfilter and, with Options.Bias, dbias.
func (c *Conv) BackwardWeights(dfilter, dbias, src, ddst, scratch []float32) error {
	return c.run[BackwardWeights].Run(src, dfilter, dbias, ddst, scratch)
}

// Close releases what was prepared; more than once does no harm.
func (c *Conv) Close() error {
	var errs []error
	for i, r := range c.run {
		if r != nil {
			errs = append(errs, r.Close())
			c.run[i] = nil
		}
	}
	return errors.Join(errs...)
}

// threads of a pool; nil is one.
func threads(p *kern.Pool) int { return p.Threads() }
