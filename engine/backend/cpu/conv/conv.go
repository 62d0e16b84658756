//go:build cgo && linux

package conv

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/backend/cpu/dnnl"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/engine/tune"
)

// runner is one pass in one form. Its slices are those of dnnl.Pass.Run.
type runner interface {
	ScratchLen() int
	Run(src, filter, bias, dst, scratch []float32) error
	Close() error
}

// Conv is a prepared convolution. It must be used by one goroutine at a time, on one
// locked OS thread, because OpenMP keeps a team of threads for each.
type Conv struct {
	spec    Spec          // strides and dilations at least 1
	run     [3]runner     // by Pass; nil if not prepared
	form    [3]string     // names of the forms
	gflops  [3]float64    // rate in the benchmark, 0 if there was none
	timed   [3]tune.Entry // timings of the benchmark
	scratch int           // values, largest of all passes
}

// Prepare chooses and builds every pass that o requests. oneDNN's forms are considered
// if the library can be opened.
//
// Errors: ErrShape; a form in o.Choice that does not exist or does not support the
// shape; no form supports the shape (a stride in height or width without oneDNN).
// Cost: up to a second for a large convolution without Choice.
func Prepare(s Spec, o Options) (*Conv, error) {
	passes := []Pass{Forward}
	if o.Backward && !o.NoInputGradient {
		passes = append(passes, BackwardData)
	}
	if o.Backward {
		passes = append(passes, BackwardWeights)
	}
	return prepare(s, o, passes)
}

// PreparePass prepares one pass only, whatever o.Backward and o.NoInputGradient are.
// Other passes must not be called.
func PreparePass(s Spec, pass Pass, o Options) (*Conv, error) {
	return prepare(s, o, []Pass{pass})
}

// prepare prepares the given passes.
func prepare(s Spec, o Options, passes []Pass) (*Conv, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	force, err := parseChoice(o.Choice)
	if err != nil {
		return nil, err
	}
	c := &Conv{spec: s.normal()}
	// The number of OpenMP threads is a setting of the OS thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, pass := range passes {
		if err := c.choose(pass, o, force[pass.String()]); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.scratch = max(c.scratch, c.run[pass].ScratchLen())
	}
	return c, nil
}

// candidate is a form that supports a pass, prepared.
type candidate struct {
	runner
	form string
}

// candidates prepares all forms that support a pass, or the forced one. oneDNN's
// reference loops, a thousand times slower, are used only if there is nothing else.
func (c *Conv) candidates(pass Pass, o Options, forced string) (all []*candidate, err error) {
	var refused []string
	var absent error
	var last []*candidate // oneDNN's reference loops: a thousand times slower
	for _, f := range forms {
		if forced != "" && f.name != forced || forced == "" && f.wino && !o.Winograd {
			continue
		}
		r, err := f.build(c.spec, pass, o)
		if err != nil {
			refused = append(refused, fmt.Sprintf("%s: %v", f.name, err))
			if errors.Is(err, dnnl.ErrUnavailable) {
				absent = err
			}
			continue
		}
		if isReference(r) {
			last = append(last, &candidate{r, f.name})
		} else {
			all = append(all, &candidate{r, f.name})
		}
	}
	switch {
	case len(all) > 0:
		var errs []error
		for _, r := range last {
			errs = append(errs, r.Close())
		}
		return all, errors.Join(errs...)
	case len(last) > 0:
		return last, nil
	case len(refused) == 0:
		return nil, fmt.Errorf("convolution %s: unknown form %q", pass, forced)
	case absent != nil: // oneDNN might have one, and users can install it
		return nil, fmt.Errorf("convolution %s: no form supports %+v: %w", pass, c.spec, absent)
	}
	return nil, fmt.Errorf("convolution %s: no form supports %+v: %s", pass, c.spec, strings.Join(refused, "; "))
}

// choose prepares the fastest form of a pass. Large convolutions are benchmarked on a
// part of the batch and of the latitudes; then the fastest form is prepared for the
// whole. If that does not support the whole, the next one is.
func (c *Conv) choose(pass Pass, o Options, forced string) error {
	part := &Conv{spec: excerpt(c.spec)}
	all, err := part.candidates(pass, o, forced)
	if err != nil {
		return err
	}
	var errs []error
	if len(all) > 1 {
		errs = append(errs, c.rank(pass, part.spec, all))
	}
	if part.spec == c.spec {
		c.run[pass], c.form[pass] = all[0].runner, all[0].form
		all = all[1:]
	}
	for _, r := range all {
		errs = append(errs, r.Close())
	}
	for i := 0; i < len(all) && c.run[pass] == nil; i++ {
		whole, err := c.candidates(pass, o, all[i].form)
		// A form may support the part but not the whole: then try the next one.
		if err != nil || isReference(whole[0].runner) && i+1 < len(all) {
			if i+1 == len(all) {
				errs = append(errs, err)
			}
			for _, r := range whole {
				errs = append(errs, r.Close())
			}
			continue
		}
		c.run[pass], c.form[pass] = whole[0].runner, whole[0].form
	}
	return errors.Join(errs...)
}

// excerptFLOPs is work that takes about 10 to 30 ms on two cores.
const excerptFLOPs = 3e9

// excerpt returns s, or a smaller convolution that is large enough to rank the forms:
// fewer latitudes, then fewer samples. Channels and filter stay, because the ranking
// depends on them.
func excerpt(s Spec) Spec {
	for s.FLOPs() > excerptFLOPs {
		switch {
		case s.In[1] > 64 && s.In[1]/2 >= s.reach(1):
			s.In[1] /= 2
		case s.N > 1:
			s.N = (s.N + 1) / 2
		default: // on smaller fields the transform of the filter would dominate
			return s
		}
	}
	return s
}

// isReference reports whether a runner is one of oneDNN's reference implementations.
func isReference(r runner) bool {
	if l, ok := r.(*oneDNNConv); ok {
		r = l.inner
	}
	p, ok := r.(*dnnl.Pass)
	return ok && strings.HasPrefix(p.Implementation(), "ref")
}

// rank times the forms on a part of the convolution and sorts them, the fastest first.
func (c *Conv) rank(pass Pass, part Spec, all []*candidate) error {
	b := newBench(part)
	need := 0
	for _, r := range all {
		need = max(need, r.ScratchLen())
	}
	scratch := make([]float32, need)
	var runners []tune.Candidate
	for _, r := range all {
		runners = append(runners, tune.Candidate{Name: r.form, Bytes: 4 * int64(r.ScratchLen()),
			Run: func() error { return r.Run(b.src, b.filter, b.bias, b.dst, scratch) }})
	}
	entry, err := tune.Benchmark(runners, tune.BenchmarkOptions{})
	if err != nil {
		return fmt.Errorf("convolution %s: %w", pass, err)
	}
	place := func(r *candidate) int { // rank in the entry; after all others if never run
		i := slices.IndexFunc(entry.Candidates, func(t tune.Timing) bool { return t.Name == r.form })
		return cmp.Or(i+1, len(all)+1)
	}
	slices.SortStableFunc(all, func(a, b *candidate) int { return cmp.Compare(place(a), place(b)) })
	c.timed[pass] = entry
	c.gflops[pass] = b.flops / float64(entry.Candidates[0].Wall)
	return nil
}

// bench holds random tensors for the benchmark.
type bench struct {
	src, filter, bias, dst []float32
	flops                  float64
}

// newBench draws values of the size of s, uniform in −0.5 to 0.5. Zeros would be too
// fast on processors that skip them.
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

// Spec returns the convolution that was prepared, with strides and dilations of at
// least 1.
func (c *Conv) Spec() Spec { return c.spec }

// ScratchLen returns the number of float32 values of scratch that the largest pass
// needs. Convolutions that run one after the other can share one buffer.
func (c *Conv) ScratchLen() int { return c.scratch }

// Choice returns the form of every prepared pass, for Options.Choice.
func (c *Conv) Choice() string {
	var s []string
	for i, f := range c.form {
		if f != "" {
			s = append(s, Pass(i).String()+"="+f)
		}
	}
	return strings.Join(s, " ")
}

// GFLOPS returns the rate of a pass in the benchmark, in 1e9 FLOP/s; 0 if there was
// none.
func (c *Conv) GFLOPS(p Pass) float64 { return c.gflops[p] }

// Timings returns the timings of the benchmark of a pass; false if there was none.
func (c *Conv) Timings(p Pass) (tune.Entry, bool) { return c.timed[p], len(c.timed[p].Candidates) > 0 }

// Forward computes dst = ReLU(src ∗ filter + bias). Bias and ReLU are as in Options;
// bias is ignored without Options.Bias.
//
// Shape: src [N Cin D H W], filter [Cout Cin kD kH kW], bias [Cout] → dst [N Cout D′ H′
// W′].
// Memory: scratch holds no values between calls.
func (c *Conv) Forward(dst, src, filter, bias, scratch []float32) error {
	return c.run[Forward].Run(src, filter, bias, dst, scratch)
}

// BackwardData computes the gradient dsrc from ddst.
func (c *Conv) BackwardData(dsrc, ddst, filter, scratch []float32) error {
	return c.run[BackwardData].Run(dsrc, filter, nil, ddst, scratch)
}

// BackwardWeights computes the gradient dfilter and, with Options.Bias, dbias.
func (c *Conv) BackwardWeights(dfilter, dbias, src, ddst, scratch []float32) error {
	return c.run[BackwardWeights].Run(src, dfilter, dbias, ddst, scratch)
}

// Close frees what was prepared. It may be called more than once.
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

// threads returns the number of threads of a pass by oneDNN; a nil pool has one.
// Gradients of filters run on one thread: oneDNN sums the partial sums of its threads,
// and results must not depend on the number of threads.
func threads(p *kern.Pool, pass Pass) int {
	if pass == BackwardWeights {
		return 1
	}
	return p.Threads()
}
