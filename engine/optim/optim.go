package optim

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Kind names an optimiser.
type Kind string

// The optimisers.
const (
	// SGD is gradient descent with momentum:
	//
	//	g′ = g + decay·w     v = momentum·v + g′     w = w − rate·v
	//
	// (with Nesterov: w − rate·(g′ + momentum·v)).
	// Source: Sutskever et al. 2013, ICML 28; the form of torch.optim.SGD.
	SGD Kind = "sgd"
	// Adam is
	//
	//	g′ = g + decay·w     m = β₁m + (1−β₁)g′     v = β₂v + (1−β₂)g′²
	//	w = w − rate·(m/(1−β₁ᵗ)) / (√(v/(1−β₂ᵗ)) + eps)
	//
	// Source: Kingma and Ba 2015, arXiv:1412.6980.
	Adam Kind = "adam"
	// AdamW is Adam with decoupled decay: w − rate·decay·w first, g′ = g.
	// Source: Loshchilov and Hutter 2019, arXiv:1711.05101.
	AdamW Kind = "adamw"
	// LARS is SGD with momentum whose rate is scaled for each tensor by
	//
	//	λ = trust·|w| / (|g| + decay·|w|)
	//	v = momentum·v + rate·λ·(g + decay·w)     w = w − v
	//
	// Vectors (biases, the scales and shifts of norms), parameters of NoDecay, and
	// tensors of which |w| or |g| is 0 have λ = 1 and no decay.
	// Source: You et al. 2017, arXiv:1708.03888.
	LARS Kind = "lars"
	// LAMB scales the step of Adam for each tensor: with m and v as AdamW's
	//
	//	u = (m/(1−β₁ᵗ)) / (√(v/(1−β₂ᵗ)) + eps) + decay·w     w = w − rate·(|w|/|u|)·u
	//
	// The ratio is 1 where either norm is 0, and, without decay, for vectors and
	// parameters of NoDecay. |w| is not clipped.
	// Source: You et al. 2020, arXiv:1904.00962.
	LAMB Kind = "lamb"
)

// Kinds lists the optimisers.
var Kinds = []Kind{SGD, Adam, AdamW, LARS, LAMB}

// Options of an optimiser. The zero value is Adam with its usual constants.
type Options struct {
	Kind  Kind    // empty: Adam
	Beta1 float64 // 0: 0.9
	Beta2 float64 // 0: 0.999
	Eps   float64 // 0: 1e-8, or 1e-6 for LAMB

	Momentum float64 // of SGD and LARS
	Nesterov bool    // of SGD
	Trust    float64 // of LARS; 0: 0.001

	Decay float64 // weight decay; coupled for SGD and Adam
	// NoDecay names parameters without decay; nil: none. See Biases.
	NoDecay func(name string) bool
	// Clip bounds the norm of all gradients together; 0: no bound.
	Clip float64
	// EMA is the decay of a running average of the parameters, which every step
	// leaves in the parameters of Average, a store of the same layout:
	//
	//	average = EMA·average + (1−EMA)·w     after the first step: average = w
	//
	// 0 keeps none. States of Average are left alone.
	// Source: the form of torch.optim.swa_utils.AveragedModel.
	EMA     float64
	Average *engine.Store
	Threads int // of the sweep; 0 means 1
	// Ranks, if not nil, share the work and the memory of gradients and moments. Each has
	// those of its own pieces (Ranks.Grads, not the store's), and all have all parameters
	// after a step, with the bits that an optimiser without ranks gives for the same
	// gradients.
	Ranks Ranks
}

// Biases is true for parameters called "….bias", which weight decay leaves out
// by custom.
func Biases(name string) bool { return strings.HasSuffix(name, ".bias") || name == "bias" }

// check completes the options.
func (o *Options) check() error {
	if o.Kind == "" {
		o.Kind = Adam
	}
	if o.Beta1 == 0 {
		o.Beta1 = 0.9
	}
	if o.Beta2 == 0 {
		o.Beta2 = 0.999
	}
	if o.Eps == 0 {
		o.Eps = 1e-8
		if o.Kind == LAMB {
			o.Eps = 1e-6
		}
	}
	if o.Trust == 0 {
		o.Trust = 1e-3
	}
	in := func(v float64) bool { return v >= 0 && v < 1 }
	if !slices.Contains(Kinds, o.Kind) || !in(o.Beta1) || !in(o.Beta2) || !in(o.Momentum) || !in(o.EMA) || !(o.Eps > 0) || !(o.Trust > 0) ||
		!(o.Decay >= 0) || !(o.Clip >= 0) || o.Threads < 0 || (o.EMA > 0) != (o.Average != nil) {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("optimiser options do not make sense: %s", o.Kind),
			Why: fmt.Sprintf("beta %g %g, eps %g, momentum %g, trust %g, decay %g, clip %g, ema %g, threads %d",
				o.Beta1, o.Beta2, o.Eps, o.Momentum, o.Trust, o.Decay, o.Clip, o.EMA, o.Threads),
			Fix: "kind is sgd, adam, adamw, lars or lamb; betas, momentum and ema lie in 0…1, ema comes with a store for the average, the rest is not negative"}
	}
	return nil
}

// ErrNotFinite marks a step refused because a gradient is NaN or infinite.
var ErrNotFinite = errors.New("the gradient is not finite")

// tensor is one parameter.
type tensor struct {
	decay    float64
	unscaled bool // without a ratio: LARS and LAMB move it like SGD and Adam
}

// Optimizer moves the parameters of one store. One goroutine at a time.
type Optimizer struct {
	o         Options
	store     *engine.Store
	tensors   []tensor
	arena     arena
	sweepStep step
	steps     uint64
	sweep     sweeper
	mask      []bool      // of Mask
	device    *deviceStep // where parameters lie on a device; nil elsewhere
	partition
	normSums
	gradients
}

// partition is how the parameters are cut into pieces.
type partition struct {
	chunks     []Chunk // of all ranks
	allChunks  []chunk // the same, by number of their tensors
	runs       []run   // of this rank
	ownIndices []int   // of its pieces in all
}

// normSums are sums of which norms are made.
type normSums struct {
	part  []float64 // two sums for each piece of this rank
	parts []float64 // and of all ranks; part itself without any
	norms []norms   // by tensor
}

// gradients are those that the next step moves along.
type gradients struct {
	lossScale float64   // of Scaled
	sum       []float32 // gathered, in the layout of moments, allocated by the first Add
	weight    float64   // of sum together
	pending   bool      // sum holds something
}

// New gives an optimiser at rest for the parameters of store, which a graph
// must have laid out.
//
// Errors: *exit.Error (exit.Usage) for options that make no sense, and for a store
// of the average with another layout.
func New(store *engine.Store, o Options) (*Optimizer, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	p := &Optimizer{o: o, store: store, gradients: gradients{lossScale: 1}}
	if o.Average != nil {
		same := func(a, b engine.Entry) bool {
			return a.Name == b.Name && a.Shape.Equal(b.Shape) && a.Offset == b.Offset && a.State == b.State
		}
		if !slices.EqualFunc(store.Entries(), o.Average.Entries(), same) {
			return nil, &exit.Error{Code: exit.Usage, What: "the average of the weights has another layout than the weights",
				Why: "the two stores were laid out by different networks", Fix: "lay both out by the same network"}
		}
	}
	p.refreshParams()
	number := map[string]int{}
	for _, e := range store.Entries() {
		if e.State {
			continue
		}
		t := tensor{decay: o.Decay}
		if o.NoDecay != nil && o.NoDecay(e.Name) {
			t.decay, t.unscaled = 0, true
		}
		if (o.Kind == LARS || o.Kind == LAMB) && e.Shape.NDim() <= 1 {
			t.decay, t.unscaled = 0, true
		}
		number[e.Name] = len(p.tensors)
		p.tensors = append(p.tensors, t)
	}
	p.chunks = Chunks(store)
	for _, x := range p.chunks {
		p.allChunks = append(p.allChunks, chunk{lo: x.Lo, hi: x.Hi, tensor: number[x.Param]})
	}
	var owners []int
	rank := 0
	if o.Ranks != nil {
		owners, rank = o.Ranks.Owners(), o.Ranks.Rank()
		if err := checkOwners(owners, len(p.allChunks)); err != nil {
			return nil, err
		}
	}
	own, numbers, moments := p.chunksOf(owners, rank)
	p.ownIndices, p.runs = numbers, mergeRuns(own)
	p.arena.m = make([]float32, moments)
	if o.Kind != SGD && o.Kind != LARS {
		p.arena.v = make([]float32, moments)
	}
	p.part = make([]float64, 2*len(own))
	if p.parts = p.part; o.Ranks != nil {
		p.parts = make([]float64, 2*len(p.allChunks))
	}
	p.norms = make([]norms, len(p.tensors))
	p.sweepStep = step{rule: o.Kind, nesterov: o.Nesterov, beta1: o.Beta1, beta2: o.Beta2, eps: o.Eps, momentum: o.Momentum,
		decay: make([]float32, len(p.tensors)), ratio: make([]float32, len(p.tensors))}
	for i, t := range p.tensors {
		p.sweepStep.decay[i], p.sweepStep.ratio[i] = float32(t.decay), 1
	}
	var err error
	if p.sweep, err = newSweeper(max(o.Threads, 1), own); err == nil {
		err = p.useDevice()
	}
	return p, err
}

// Accumulate gathers the present gradient with a weight that is not negative; the
// next Step moves along the weighted mean of what was gathered. Batches that are
// weighted by their share of a larger batch give its gradient up to rounding, as
// long as no value of one sample depends on another (batch statistics do).
func (p *Optimizer) Accumulate(weight float64) {
	first := !p.pending
	if first {
		p.pending, p.weight = true, 0
	}
	p.weight += weight
	if p.device != nil && (first || p.device.sumOnDevice) {
		p.device.accumulate(float32(weight), first)
		return
	}
	p.download()
	p.accumulator()
	if first {
		clear(p.sum)
	}
	p.sweep.accumulate(p.sum, p.ownGradient(), float32(weight))
}

// accumulator makes room for gathered gradients.
func (p *Optimizer) accumulator() []float32 {
	if p.sum == nil {
		p.sum = make([]float32, len(p.arena.m))
	}
	return p.sum
}

// ownGradient is the gradient of this rank's pieces in the layout of moments, which is that of
// the store where there are no ranks.
func (p *Optimizer) ownGradient() []float32 {
	if p.o.Ranks != nil {
		return p.o.Ranks.Grads()
	}
	return p.store.Grads()
}

// SetLossScale says that gradients from now on are those of the loss times a number, by which steps
// divide them.
func (p *Optimizer) SetLossScale(by float64) { p.lossScale = by }

// factor is what the gradient that the next step moves along is multiplied by.
func (p *Optimizer) factor() float64 {
	switch {
	case !p.pending:
		return 1 / p.lossScale
	case p.weight == 0: // as the mean over no weight is 0
		return 0
	}
	return 1 / (p.weight * p.lossScale)
}

// gradient is what the next step moves along, times factor.
func (p *Optimizer) gradient() []float32 {
	if p.pending {
		return p.sum
	}
	return p.ownGradient()
}

// IsFinite tells whether the gradient is that the next step moves along, before any mask. All
// ranks ask.
//
// Errors: those of other ranks.
func (p *Optimizer) IsFinite() (bool, error) {
	if p.onDevice() {
		return p.device.finite()
	}
	p.download()
	p.sweep.squares(p.part, nil, p.gradient())
	if err := p.reduceNorms(); err != nil {
		return false, err
	}
	return p.norm() < math.Inf(1), nil
}

// norm is that of all tensors, from their sums.
func (p *Optimizer) norm() (norm float64) {
	for _, n := range p.norms {
		norm += n.b
	}
	return math.Sqrt(norm)
}

// onDevice tells whether the next step is taken where the parameters lie.
func (p *Optimizer) onDevice() bool {
	return p.device != nil && (!p.pending || p.device.sumOnDevice)
}

// reduceNorms makes the sums over tensors of those over pieces, which it adds up in their order.
//
// Errors: those of other ranks.
func (p *Optimizer) reduceNorms() error {
	if p.o.Ranks != nil { // each piece has one owner: all others add zeros
		clear(p.parts)
		for i, k := range p.ownIndices {
			p.parts[2*k], p.parts[2*k+1] = p.part[2*i], p.part[2*i+1]
		}
		if err := p.o.Ranks.AllReduce(p.parts); err != nil {
			return fmt.Errorf("optimiser step %d: %w", p.steps, err)
		}
	}
	clear(p.norms)
	for i, x := range p.allChunks {
		p.norms[x.tensor].a += p.parts[2*i]
		p.norms[x.tensor].b += p.parts[2*i+1]
	}
	return nil
}

// refreshParams brings the parameters up to date, and tells their stores that they change.
func (p *Optimizer) refreshParams() {
	p.arena.w = p.store.Params()
	if p.o.Average != nil {
		p.arena.e = p.o.Average.Params()
	}
}

// Step moves the parameters once, along the present gradient or, after Add, along
// the mean of those gathered, and returns its norm before clipping.
//
// Errors: ErrNotFinite; then nothing has been changed, and what was gathered is
// gone. Those of other ranks.
func (p *Optimizer) Step(rate float64) (norm float64, err error) {
	if p.onDevice() {
		return p.device.step(rate)
	}
	p.download()
	p.refreshParams()
	g, factor := p.gradient(), p.factor()
	p.pending = false
	p.applyMask(g)
	p.arena.g = g
	var w []float32 // if its norms are wanted too
	if p.o.Kind == LARS {
		w = p.arena.w
	}
	p.sweep.squares(p.part, w, g)
	if err := p.reduceNorms(); err != nil {
		return 0, err
	}
	if norm = p.norm() * factor; math.IsNaN(norm) || math.IsInf(norm, 0) {
		return norm, fmt.Errorf("optimiser step %d: %w", p.steps, ErrNotFinite)
	}
	if p.o.Clip > 0 { // as torch.nn.utils.clip_grad_norm_
		factor *= math.Min(1, p.o.Clip/(norm+1e-6))
	}
	p.steps++
	s := &p.sweepStep
	s.factor = factor
	p.setConstants(s, rate, p.steps)
	switch p.o.Kind {
	case LARS:
		p.setLARSRatios()
	case LAMB:
		p.sweep.moments(p.part, &p.arena, s)
		if err := p.reduceNorms(); err != nil {
			return norm, err
		}
		p.setLAMBRatios()
	}
	p.sweep.apply(&p.arena, s)
	if p.o.Ranks != nil {
		return norm, p.o.Ranks.AllGather(p.arena.w)
	}
	return norm, nil
}

// setConstants are those of the step of this number.
func (p *Optimizer) setConstants(s *step, rate float64, number uint64) {
	s.rate, s.blend = rate, 1-p.o.EMA
	if number == 1 {
		s.blend = 1
	}
	s.correct1, s.correct2 = 1-math.Pow(p.o.Beta1, float64(number)), 1-math.Pow(p.o.Beta2, float64(number))
}

// AllGatherAverage completes the average, of which each rank moves its own pieces. Without
// ranks it always is.
//
// Errors: those of other ranks.
func (p *Optimizer) AllGatherAverage() error {
	if p.o.Ranks == nil || p.arena.e == nil {
		return nil
	}
	return p.o.Ranks.AllGather(p.arena.e)
}

// setLARSRatios sets decay and ratio of each tensor from the sums of w² and g².
func (p *Optimizer) setLARSRatios() {
	for i, t := range p.tensors {
		w, g := math.Sqrt(p.norms[i].a), p.sweepStep.factor*math.Sqrt(p.norms[i].b)
		p.sweepStep.decay[i], p.sweepStep.ratio[i] = 0, 1
		if !t.unscaled && w > 0 && g > 0 {
			p.sweepStep.decay[i], p.sweepStep.ratio[i] = float32(t.decay), float32(p.o.Trust*w/(g+t.decay*w))
		}
	}
}

// setLAMBRatios sets the ratio of each tensor from the sums of w² and u².
func (p *Optimizer) setLAMBRatios() {
	for i, t := range p.tensors {
		p.sweepStep.ratio[i] = 1
		if n := p.norms[i]; !t.unscaled && n.a > 0 && n.b > 0 {
			p.sweepStep.ratio[i] = float32(math.Sqrt(n.a / n.b))
		}
	}
}

// Tensor is one part of the state of an optimiser.
type Tensor struct {
	Name   string // moment and parameter: "m.enc_conv0.weight"
	Shape  graph.Shape
	Values []float32
}

// moments lists the arrays of moments by the names that they have in a State.
func (p *Optimizer) moments() []Tensor {
	p.download()
	out := []Tensor{{Name: "m.", Values: p.arena.m}}
	if p.arena.v != nil {
		out = append(out, Tensor{Name: "v.", Values: p.arena.v})
	}
	return out
}

// State copies the moments by parameter: m (the velocity of SGD and LARS), and v
// for the others. It does not depend on ranks; all of them ask for it, and rank 0 gets
// it, the others tensors without values. See Restore. An average is in its own store.
//
// Errors: those of other ranks.
func (p *Optimizer) State() ([]Tensor, error) {
	var out []Tensor
	for _, moment := range p.moments() {
		whole, err := p.gatherMoments(moment.Values)
		if err != nil {
			return nil, err
		}
		for _, e := range p.store.Entries() {
			if e.State {
				continue
			}
			t := Tensor{Name: moment.Name + e.Name, Shape: e.Shape}
			if whole != nil {
				t.Values = whole[e.Offset : e.Offset+e.Size()]
			}
			out = append(out, t)
		}
	}
	return out, nil
}

// gatherMoments copies moments of all ranks into the layout of the parameters, on rank 0; others
// get nil.
func (p *Optimizer) gatherMoments(own []float32) ([]float32, error) {
	put := func(to, from []float32, runs []run) {
		for _, r := range runs {
			copy(to[r.lo:r.lo+r.n], from[r.at:])
		}
	}
	var out []float32
	if p.o.Ranks == nil {
		out = make([]float32, len(p.arena.w))
		put(out, own, p.runs)
		return out, nil
	}
	owners := p.o.Ranks.Owners()
	var sizes []int
	var shares [][]run
	for r := range p.o.Ranks.Size() {
		pieces, _, n := p.chunksOf(owners, r)
		sizes, shares = append(sizes, n), append(shares, mergeRuns(pieces))
	}
	if p.o.Ranks.Rank() == 0 {
		out = make([]float32, len(p.arena.w))
	}
	err := p.o.Ranks.GatherToRoot(own, sizes, func(rank int, x []float32) { put(out, x, shares[rank]) })
	return out, err
}

// Restore goes back to where a State was taken, after so many steps; value gives its
// tensors by name.
//
// Errors: those of value.
func (p *Optimizer) Restore(steps uint64, value func(name string, n int) ([]float32, error)) error {
	for _, moment := range p.moments() {
		for _, e := range p.store.Entries() {
			if e.State {
				continue
			}
			x, err := value(moment.Name+e.Name, e.Size())
			if err != nil {
				return err
			}
			for _, r := range p.runs {
				if lo, hi := max(r.lo, e.Offset), min(r.lo+r.n, e.Offset+e.Size()); lo < hi {
					copy(moment.Values[r.at+lo-r.lo:], x[lo-e.Offset:hi-e.Offset])
				}
			}
		}
	}
	p.steps = steps
	return nil
}

// Steps is the number of steps taken.
func (p *Optimizer) Steps() uint64 { return p.steps }

// Bytes is the size of the memory of moments, and of gathered gradients if there are any.
func (p *Optimizer) Bytes() int64 { return 4 * int64(len(p.arena.m)+len(p.arena.v)+len(p.sum)) }

// download brings moments to the program's memory if they are newer on a device.
func (p *Optimizer) download() {
	if p.device != nil {
		p.device.download()
	}
}

// Close ends the threads of the sweep; more than once does no harm.
func (p *Optimizer) Close() error { return p.sweep.close() }
