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
	timed   [3]tune.Entry
	scratch int
}

// Prepare chooses and builds every pass that o asks for. oneDNN's forms take
// part if the library can be opened; our own kernel suffices.
//
// Errors: ErrShape; a form in Force that does not exist or does not serve the
// shape; nothing that serves the shape (a stride in height or width without oneDNN).
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

// PreparePass prepares one pass alone, whatever o.Backward and
// o.NoInputGradient say; the others must not be called.
func PreparePass(s Spec, pass Pass, o Options) (*Conv, error) {
	return prepare(s, o, []Pass{pass})
}

func prepare(s Spec, o Options, passes []Pass) (*Conv, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	force, err := parseChoice(o.Choice)
	if err != nil {
		return nil, err
	}
	c := &Conv{spec: s.normal()}
	// The timing must run on the thread whose OpenMP setting it made.
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

// candidate is a form that serves a pass.
type candidate struct {
	runner
	form string
}

// candidates builds the forms that serve a pass, or the forced one.
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
		return nil, fmt.Errorf("convolution %s: there is no form %q", pass, forced)
	case absent != nil: // with oneDNN there might be one: that is what can be mended
		return nil, fmt.Errorf("convolution %s: no form serves %+v: %w", pass, c.spec, absent)
	}
	return nil, fmt.Errorf("convolution %s: no form serves %+v: %s", pass, c.spec, strings.Join(refused, "; "))
}

// choose keeps the fastest form of a pass. Large convolutions race on a part
// of the batch and of the latitudes, and the winner is built for the whole.
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
		// The whole may lack what the part had: the next best then.
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

// excerpt is s, or a part of it that is large enough to tell the forms apart.
func excerpt(s Spec) Spec {
	for s.FLOPs() > excerptFLOPs {
		switch {
		case s.In[1] > 64 && s.In[1]/2 >= s.reach(1):
			s.In[1] /= 2
		case s.N > 1:
			s.N = (s.N + 1) / 2
		default: // smaller maps would hide what preparing the filter costs
			return s
		}
	}
	return s
}

// isReference tells an implementation of oneDNN that is meant as a judge only.
func isReference(r runner) bool {
	if l, ok := r.(*oneDNNConv); ok {
		r = l.inner
	}
	p, ok := r.(*dnnl.Pass)
	return ok && strings.HasPrefix(p.Implementation(), "ref")
}

// rank times the forms of a part of a convolution and sorts them, the fastest
// first.
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
	place := func(r *candidate) int { // in the entry, behind it if never run
		i := slices.IndexFunc(entry.Candidates, func(t tune.Timing) bool { return t.Name == r.form })
		return cmp.Or(i+1, len(all)+1)
	}
	slices.SortStableFunc(all, func(a, b *candidate) int { return cmp.Compare(place(a), place(b)) })
	c.timed[pass] = entry
	c.gflops[pass] = b.flops / float64(entry.Candidates[0].Wall)
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

// Spec is what was prepared, with strides and dilations filled in.
func (c *Conv) Spec() Spec { return c.spec }

// ScratchLen is the number of float32 that the largest pass wants as scratch.
// One scratch serves all convolutions that run one after the other.
func (c *Conv) ScratchLen() int { return c.scratch }

// Choice names the form of every prepared pass; Options.Choice takes it back.
func (c *Conv) Choice() string {
	var s []string
	for i, f := range c.form {
		if f != "" {
			s = append(s, Pass(i).String()+"="+f)
		}
	}
	return strings.Join(s, " ")
}

// GFLOPS is what the timing measured for a pass in GFLOP/s; 0 if nothing was timed.
func (c *Conv) GFLOPS(p Pass) float64 { return c.gflops[p] }

// Timings is what the timing of a pass measured; false if nothing was timed.
func (c *Conv) Timings(p Pass) (tune.Entry, bool) { return c.timed[p], len(c.timed[p].Candidates) > 0 }

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

// threads of a pool for a pass by oneDNN; nil is one. Filter gradients have one: oneDNN adds
// up partial sums of its threads, and bits must not depend on their number.
func threads(p *kern.Pool, pass Pass) int {
	if pass == BackwardWeights {
		return 1
	}
	return p.Threads()
}
