package optim

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Kind names an optimiser.
type Kind string

// The optimisers. In the formulas w is a parameter, g its gradient, t the number of the step from 1
// on.
const (
	// SGD is stochastic gradient descent with momentum:
	//
	//	g′ = g + decay·w     v = momentum·v + g′     w = w − rate·v
	//
	// With Options.Nesterov the last update is w − rate·(g′ + momentum·v).
	//
	// Source: Sutskever et al. 2013, ICML 28; in the form of torch.optim.SGD.
	SGD Kind = "sgd"
	// Adam scales the step by running estimates of the gradient's first and second moment:
	//
	//	g′ = g + decay·w     m = β₁m + (1−β₁)g′     v = β₂v + (1−β₂)g′²
	//	w = w − rate·(m/(1−β₁ᵗ)) / (√(v/(1−β₂ᵗ)) + eps)
	//
	// Source: Kingma and Ba 2015, arXiv:1412.6980.
	Adam Kind = "adam"
	// AdamW is Adam with decoupled weight decay: g′ = g, and w − rate·decay·w is computed before
	// the update.
	//
	// Source: Loshchilov and Hutter 2019, arXiv:1711.05101.
	AdamW Kind = "adamw"
	// LARS is SGD with momentum and a learning rate for each tensor:
	//
	//	λ = trust·|w| / (|g| + decay·|w|)
	//	v = momentum·v + rate·λ·(g + decay·w)     w = w − v
	//
	// λ is 1 for tensors with |w| = 0 or |g| = 0. It is 1, without decay, for parameters of roles that
	// do not decay (graph.Role.Decays).
	//
	// Source: You et al. 2017, arXiv:1708.03888.
	LARS Kind = "lars"
	// LAMB scales the step of Adam for each tensor. With m and v of AdamW:
	//
	//	u = (m/(1−β₁ᵗ)) / (√(v/(1−β₂ᵗ)) + eps) + decay·w     w = w − rate·(|w|/|u|)·u
	//
	// The ratio |w|/|u| is 1 if either norm is 0. It is 1, without decay, for parameters of roles that
	// do not decay. |w| is not clipped.
	//
	// Source: You et al. 2020, arXiv:1904.00962.
	LAMB Kind = "lamb"
)

// Kinds lists all optimisers.
var Kinds = []Kind{SGD, Adam, AdamW, LARS, LAMB}

// Options of an optimiser. The zero value is Adam with the constants of its paper.
type Options struct {
	Kind  Kind    // empty means Adam
	Beta1 float64 // decay of the first moment; 0 means 0.9
	Beta2 float64 // decay of the second moment; 0 means 0.999
	Eps   float64 // added to the denominator; 0 means 1e-8, or 1e-6 for LAMB

	Momentum float64 // SGD and LARS only
	Nesterov bool    // SGD only
	Trust    float64 // trust coefficient, LARS only; 0 means 0.001

	// Preconditioner changes the directions of steps; nil changes none. Each tensor keeps the length of
	// its gradient for SGD and LARS, and of its step for AdamW. The others cannot be combined with it. With Ranks each
	// tensor has one owner.
	Preconditioner Preconditioner

	// Decay is the weight decay, part of the gradient for SGD and Adam. It acts on parameters of roles
	// that decay (graph.Role.Decays). The trust ratios of LARS and LAMB act on the same ones.
	Decay float64
	// Updates names parameters whose gradients are updates of AdamW, which ranks computed from
	// their own gradients (RankUpdates). They are subtracted after the weight decay. They have no
	// moments here, and are no part of the norm of the gradient, nor clipped.
	Updates []string
	// Clip limits the global norm of the gradient; 0 means no limit.
	Clip float64
	// EMA is the decay of an exponential moving average of the parameters. Every step updates the
	// parameters of Average, a store with the same layout:
	//
	//	average = d·average + (1−d)·w,   d = min(EMA, (1+n)/(10+n)) in step n+1
	//
	// with d = 0 in the first step. The decay grows to EMA, so that a short training is not averaged
	// with its first steps. 0 disables it. States of Average (running statistics) are not changed.
	//
	// Source: the warm-up by num_updates of tf.train.ExponentialMovingAverage.
	EMA     float64
	Average *engine.Store
	Threads int // threads of a step; 0 means 1
	// Ranks divides the work and the memory of gradients and moments among several processes (ZeRO
	// stages 1 and 2); nil means one process. Each rank holds the gradients and moments of the
	// chunks that it owns, in Ranks.Grads instead of the store. After a step all ranks hold all
	// parameters that Ranks.AllGather gives them, bit for bit those of one process with the same
	// gradients.
	Ranks Ranks
}

// The constants of Adam's paper.
const (
	defaultBeta1 = 0.9
	defaultBeta2 = 0.999
	defaultEps   = 1e-8
)

// check sets defaults and validates the options.
func (o *Options) check() error {
	if o.Kind == "" {
		o.Kind = Adam
	}
	if o.Beta1 == 0 {
		o.Beta1 = defaultBeta1
	}
	if o.Beta2 == 0 {
		o.Beta2 = defaultBeta2
	}
	if o.Eps == 0 {
		o.Eps = defaultEps
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
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("invalid optimiser options: %s", o.Kind),
			Why: fmt.Sprintf("beta %g %g, eps %g, momentum %g, trust %g, decay %g, clip %g, ema %g, threads %d",
				o.Beta1, o.Beta2, o.Eps, o.Momentum, o.Trust, o.Decay, o.Clip, o.EMA, o.Threads),
			Fix: "set kind to sgd, adam, adamw, lars or lamb; betas, momentum and ema to at least 0 and less than 1; give a store for the average with ema only; the other values must not be negative"}
	}
	if len(o.Updates) > 0 && (o.Kind != AdamW || o.Ranks != nil || o.Preconditioner != nil) {
		return &exit.Error{Code: exit.Usage, What: "updates of ranks in place of gradients with this optimiser", Why: "they are those of AdamW, and each rank has all of them",
			Fix: "use adamw, without a sharded optimiser"}
	}
	return o.checkPreconditioner()
}

// ErrNotFinite marks a step that was refused because the gradient is NaN or infinite.
var ErrNotFinite = errors.New("the gradient is not finite")

// tensor holds the settings of one parameter tensor.
type tensor struct {
	decay    float64
	unscaled bool // no trust ratio: LARS and LAMB update it like SGD and Adam
}

// Optimizer updates the parameters of one store. It is not safe for concurrent use.
type Optimizer struct {
	o         Options
	store     *engine.Store
	tensors   []tensor
	arena     arena
	sweepStep step
	steps     uint64 // steps taken
	sweep     sweeper
	applied   applied
	mask      []bool      // mask set by SetMask, in the layout of the parameters; nil means dense
	device    *deviceStep // steps on the device that holds the parameters; nil means on the host
	partition
	normSums
	gradients
	preconditioning preconditioning
}

// partition is the partition of the parameters into chunks, and which of them this rank owns.
type partition struct {
	chunks     []Chunk // chunks of all ranks
	allChunks  []chunk // the same, with the index of their tensor
	runs       []run   // contiguous ranges of this rank's chunks
	own        []chunk // this rank's chunks
	ownIndices []int   // their indices in allChunks
}

// normSums holds sums of squares, from which norms are computed. They are kept per chunk and added
// in the order of the chunks, so that the norm does not depend on threads or ranks.
type normSums struct {
	part  []float64 // two sums for each chunk of this rank
	parts []float64 // two sums for each chunk of all ranks; part itself without ranks
	norms []norms   // by tensor
}

// gradients describes the gradient of the next step.
type gradients struct {
	lossScale float64   // loss scale, by which the gradient is divided
	sum       []float32 // accumulated gradient, in the layout of the moments; allocated by the first Accumulate
	weight    float64   // sum of the weights of sum
	pending   bool      // sum holds gradients that no step has used
}

// New returns an optimiser without state for the parameters of store. A graph must have laid out
// the store before.
//
// Memory: one array of the size of the parameters for SGD and LARS, two for the others, divided by
// the number of ranks.
// Errors: *exit.Error with exit.Usage for invalid options, and for an average whose store has
// another layout.
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
			return nil, &exit.Error{Code: exit.Usage, What: "the weights and their moving average have different layouts",
				Why: "different networks laid out the two stores", Fix: "use the same network for both stores"}
		}
	}
	p.refreshParams()
	number := map[string]int{}
	for _, e := range store.Entries() {
		if e.State {
			continue
		}
		t := tensor{decay: o.Decay}
		if !e.Role.Decays() {
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
		if err := checkOwners(owners, p.chunks, o.Preconditioner != nil); err != nil {
			return nil, err
		}
	}
	own, numbers, moments := p.chunksOf(owners, rank)
	p.own, p.ownIndices, p.runs = own, numbers, mergeRuns(own)
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
		p.applied = newApplied(store, o, p.tensors, p.sweep, own)
		err = p.useDevice()
	}
	return p, err
}

// Accumulate accumulates the current gradient with a weight that is not negative. The next Step
// uses the weighted mean of all accumulated gradients.
//
// If batches are weighted with their share of a larger batch, the mean is the gradient of that
// batch up to rounding. This requires that no value of one sample depends on another one; batch
// statistics do.
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

// accumulator returns the accumulator and allocates it on first use.
func (p *Optimizer) accumulator() []float32 {
	if p.sum == nil {
		p.sum = make([]float32, len(p.arena.m))
	}
	return p.sum
}

// ownGradient returns the current gradient of this rank's chunks, in the layout of the moments.
// Without ranks this is the layout of the store.
func (p *Optimizer) ownGradient() []float32 {
	if p.o.Ranks != nil {
		return p.o.Ranks.Grads()
	}
	return p.store.Grads()
}

// SetLossScale sets the loss scale: gradients are those of the loss times by, and steps divide by it.
func (p *Optimizer) SetLossScale(by float64) { p.lossScale = by }

// factor is the number that the gradient of the next step is multiplied by: the inverse of the loss
// scale and of the accumulated weight.
func (p *Optimizer) factor() float64 {
	switch {
	case !p.pending:
		return 1 / p.lossScale
	case p.weight == 0: // the mean of gradients with weight 0 is defined as 0
		return 0
	}
	return 1 / (p.weight * p.lossScale)
}

// gradient returns the gradient of the next step, before multiplication with factor.
func (p *Optimizer) gradient() []float32 {
	if p.pending {
		return p.sum
	}
	return p.ownGradient()
}

// IsFinite reports whether all values of the gradient of the next step are finite, masked ones
// included. All ranks must call it.
//
// Errors: communication errors, and errors of other ranks.
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

// norm is the global norm √Σg² over all tensors, from the sums of squares in norms.
func (p *Optimizer) norm() (norm float64) {
	for _, n := range p.norms {
		norm += n.b
	}
	return math.Sqrt(norm)
}

// onDevice reports whether the next step runs on the device that holds the parameters.
func (p *Optimizer) onDevice() bool {
	return p.device != nil && (!p.pending || p.device.sumOnDevice)
}

// reduceNorms computes the sums of squares of tensors from those of chunks. It adds them in the
// order of the chunks, so that the result does not depend on ranks.
//
// Errors: communication errors, and errors of other ranks.
func (p *Optimizer) reduceNorms() error {
	if p.o.Ranks != nil { // one rank owns each chunk, the others add zeros
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
		if p.applied.isGiven(x.tensor) {
			continue
		}
		p.norms[x.tensor].a += p.parts[2*i]
		p.norms[x.tensor].b += p.parts[2*i+1]
	}
	return nil
}

// refreshParams gets the parameters from the stores, which thereby record that the host changes them.
func (p *Optimizer) refreshParams() {
	p.arena.w = p.store.Params()
	if p.o.Average != nil {
		p.arena.e = p.o.Average.Params()
	}
}

// Step updates the parameters once. It uses the current gradient or, after Accumulate, the mean of
// the accumulated ones. It returns the global norm of the gradient before clipping.
//
// Errors: ErrNotFinite; then no parameter and no moment has changed, and the accumulated gradients
// are discarded. Communication errors, and errors of other ranks.
func (p *Optimizer) Step(rate float64) (norm float64, err error) {
	if p.onDevice() {
		return p.device.step(rate)
	}
	p.download()
	p.refreshParams()
	g, factor := p.gradient(), p.factor()
	if err := p.store.Err(); err != nil {
		return 0, err
	}
	p.pending = false
	p.applyMask(g)
	p.arena.g = g
	var w []float32 // LARS needs the norms of the parameters too
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
	if p.o.Clip > 0 { // with the 1e-6 of torch.nn.utils.clip_grad_norm_
		factor *= math.Min(1, p.o.Clip/(norm+1e-6))
	}
	p.steps++
	s := &p.sweepStep
	s.factor = factor
	p.setConstants(s, rate, p.steps)
	if err := p.update(s); err != nil {
		return norm, err
	}
	if p.o.Ranks != nil {
		return norm, p.o.Ranks.AllGather(p.arena.w)
	}
	return norm, nil
}

// update applies the rule to the parameters that this rank owns.
func (p *Optimizer) update(s *step) error {
	if p.o.Preconditioner != nil {
		if p.o.Kind == AdamW {
			return p.stepGrafted(s)
		}
		before := slices.Clone(p.norms)
		if err := p.precondition(); err != nil {
			return err
		}
		copy(p.norms, before) // lengths are kept
	}
	switch p.o.Kind {
	case LARS:
		p.setLARSRatios()
	case LAMB:
		p.sweep.moments(p.part, &p.arena, s)
		if err := p.reduceNorms(); err != nil {
			return err
		}
		p.setLAMBRatios()
	}
	p.applied.apply(&p.arena, s)
	return nil
}

// setConstants sets what depends on the number of the step: the rate, the weight 1−d of the parameters in
// the average, and the bias corrections 1−βᵗ of Adam.
func (p *Optimizer) setConstants(s *step, rate float64, number uint64) {
	s.rate, s.blend = rate, 1
	if n := float64(number) - 1; n > 0 {
		s.blend = 1 - math.Min(p.o.EMA, AverageWarmUp(n))
	}
	s.correct1, s.correct2 = biasCorrection(p.o.Beta1, number), biasCorrection(p.o.Beta2, number)
}

// AllGatherAverage completes the moving average on all ranks (all-gather). Each rank updates only the
// chunks that it owns. Without ranks the average is complete already.
//
// Errors: communication errors, and errors of other ranks.
func (p *Optimizer) AllGatherAverage() error {
	if p.o.Ranks == nil || p.arena.e == nil {
		return nil
	}
	return p.o.Ranks.AllGather(p.arena.e)
}

// setLARSRatios sets the decay and the ratio λ of each tensor from the sums of w² and g².
func (p *Optimizer) setLARSRatios() {
	for i, t := range p.tensors {
		w, g := math.Sqrt(p.norms[i].a), p.sweepStep.factor*math.Sqrt(p.norms[i].b)
		p.sweepStep.decay[i], p.sweepStep.ratio[i] = 0, 1
		if !t.unscaled && w > 0 && g > 0 {
			p.sweepStep.decay[i], p.sweepStep.ratio[i] = float32(t.decay), float32(p.o.Trust*w/(g+t.decay*w))
		}
	}
}

// setLAMBRatios sets the ratio |w|/|u| of each tensor from the sums of w² and u².
func (p *Optimizer) setLAMBRatios() {
	for i, t := range p.tensors {
		p.sweepStep.ratio[i] = 1
		if n := p.norms[i]; !t.unscaled && n.a > 0 && n.b > 0 {
			p.sweepStep.ratio[i] = float32(math.Sqrt(n.a / n.b))
		}
	}
}

// Tensor is the moment of one parameter, a part of the optimiser's state.
type Tensor struct {
	Name   string // moment and parameter, as in "m.enc_conv0.weight"
	Shape  graph.Shape
	Values []float32 // nil on ranks other than 0
}

// moments lists the moments with their name prefixes in a State: "m." and "v.".
func (p *Optimizer) moments() []Tensor {
	p.download()
	out := []Tensor{{Name: "m.", Values: p.arena.m}}
	if p.arena.v != nil {
		out = append(out, Tensor{Name: "v.", Values: p.arena.v})
	}
	return out
}

// State copies the moments of all parameters: m (the velocity of SGD and LARS), and v for the
// others. The result does not depend on the number of ranks. All ranks must call State; rank 0 gets
// the values, the others get tensors without values. The moving average is not included, as it has
// a store of its own.
//
// Errors: communication errors, errors of other ranks, and those of a device that has the moments.
func (p *Optimizer) State() ([]Tensor, error) {
	var out []Tensor
	moments := p.moments()
	if p.device != nil && p.device.deferred != nil {
		return nil, p.device.deferred
	}
	for _, moment := range moments {
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

// gatherMoments gathers moments of all ranks on rank 0, in the layout of the parameters. It returns
// nil on the other ranks.
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
	var runs [][]run
	for r := range p.o.Ranks.Size() {
		chunks, _, n := p.chunksOf(owners, r)
		sizes, runs = append(sizes, n), append(runs, mergeRuns(chunks))
	}
	if p.o.Ranks.Rank() == 0 {
		out = make([]float32, len(p.arena.w))
	}
	err := p.o.Ranks.GatherToRoot(own, sizes, func(rank int, x []float32) { put(out, x, runs[rank]) })
	return out, err
}

// Restore sets moments and number of steps to those of a State. value returns the n values of a
// tensor by name.
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

// Steps is the number of steps taken since New, Reset or the restored State.
func (p *Optimizer) Steps() uint64 { return p.steps }

// Bytes is the host memory of moments and accumulated gradients in bytes.
func (p *Optimizer) Bytes() int64 { return 4 * int64(len(p.arena.m)+len(p.arena.v)+len(p.sum)) }

// download copies moments and accumulated gradients to the host if they are newer on a device.
func (p *Optimizer) download() {
	if p.device != nil {
		p.device.download()
	}
}

// Close ends the threads of the optimiser. Further calls do nothing.
func (p *Optimizer) Close() error { return p.sweep.close() }

// AverageWarmUp is the largest decay of Options.EMA after n steps.
func AverageWarmUp(n float64) float64 { return (1 + n) / (10 + n) }
