package prune

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/rng"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Method is how the weights that become 0 are chosen.
type Method string

// The methods.
const (
	// Magnitude removes the smallest |w|, along the schedule Cubic.
	Magnitude Method = "magnitude"
	// Random removes any weights along the same schedule: what a choice is worth shows beside it.
	Random Method = "random"
	// Movement removes weights of the lowest score
	//
	//	S = −Σ rate · ∂L/∂w · w     over the steps since From, with w before the step
	//
	// along the same schedule. All weights go on to learn until To, masked ones too, by the
	// gradient of their place in the masked network, and may return.
	//
	// Source: Sanh et al. 2020, arXiv:2005.07683.
	Movement Method = "movement"
	// SET is sparse from the start, with random masks. At each change it removes the share
	// Exchange of the remaining weights, the smallest, and puts back as many at random places,
	// as 0.
	//
	// Source: Mocanu et al. 2018, doi:10.1038/s41467-018-04316-3.
	SET Method = "set"
	// RigL is SET with a share that falls (Falling), and weights put back where the gradient is
	// largest, which is needed of all places then.
	//
	// Source: Evci et al. 2020, arXiv:1911.11134.
	RigL Method = "rigl"
	// Lottery removes the smallest |w| at To. Who trains goes back to the weights of From then.
	//
	// Source: Frankle and Carbin 2019, arXiv:1803.03635; Frankle et al. 2020, arXiv:1912.05671.
	Lottery Method = "lottery"
	// EarlyBird draws the mask of the smallest |w| after every epoch from From on, and takes it as
	// soon as Settle.Epochs of them in a row differ in less than the share Settle.Distance, or
	// at To.
	//
	// Source: You et al. 2020, arXiv:1909.11957.
	EarlyBird Method = "early_bird"
)

// MaskStability says when masks of epochs are the same for EarlyBird.
type MaskStability struct {
	Distance float64
	Epochs   int
}

// Options say what is pruned, how much and when. Steps count from 0.
type Options struct {
	Method       Method
	Structure    Structure
	Scope        Scope
	Target       float64 // sparsity in the end, of the layers that are pruned
	Initial      float64 // at From, of the methods with a schedule
	From, To     int     // steps: of the first change and of the last
	Every        int     // steps between changes
	DropFraction float64 // share that SET and RigL exchange
	Stability    MaskStability
	Seed         uint64
	Exclude      func(layer string) bool // layers that are not pruned; nil: none
}

// Gradient is the gradient of a step, of which this rank may have a part.
type Gradient interface {
	// AddScaledGradient adds factor times this rank's part to x, which lies as the parameters do.
	AddScaledGradient(x []float32, factor float32)
	// AllGather gives all ranks all of x, of which each has the part that Present writes.
	AllGather(x []float32) error
}

// Weights gives the present parameters, or their average, in memory that may be changed; nil
// if there are none. It is called when they are needed only, as they may lie on a device.
type Weights func() []float32

// Pruner keeps the mask of one network in training.
type Pruner struct {
	o            Options
	layers       []Layer // that are pruned
	n            int     // of the parameters with the gaps between them
	mask         []bool
	scores       []float32 // of movement, since From
	latent       []float32 // masked weights that go on to learn, with movement until To
	regrown      []int     // elements that returned to the network, until the next Cover
	scratch      []float32 // for scores and gradients of one change
	lastMask     []bool    // mask of the last epoch, with EarlyBird
	stableEpochs int       // masks in a row that were the same
	final        bool
}

// New gives the pruner of a network. Of its layers those are pruned that the structure suits
// and that are not spared; n is the length of the parameters of the store.
//
// Errors: exit 64 if nothing is left to prune, and if the target would remove a layer entirely.
func New(layers []Layer, n int, o Options) (*Pruner, error) {
	if o.Scope == "" {
		o.Scope = Global
	}
	p := &Pruner{o: o, n: n}
	for _, l := range layers {
		if o.Structure.applies(l) && (o.Exclude == nil || !o.Exclude(l.Name)) {
			p.layers = append(p.layers, l)
		}
	}
	if len(p.layers) == 0 {
		return nil, &exit.Error{Code: exit.Usage, What: "there is nothing to prune", At: "prune.structure",
			Why: fmt.Sprintf("none of the %d layers suits %s, or all are kept", len(layers), o.Structure), Fix: "choose smaller blocks, another structure, or keep fewer layers"}
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	p.mask = slices.Repeat([]bool{true}, n)
	if o.isRegrowing() {
		if err := p.selectMask(p.initialScores(), o.Target, p.mask); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// isRegrowing says whether the method exchanges weights at a sparsity that it has from the start.
func (o Options) isRegrowing() bool { return o.Method == SET || o.Method == RigL }

// String is the pattern, with the shape of its blocks.
func (s Structure) String() string {
	if s.Pattern == Blocks {
		return "blocks of " + s.Block.String()
	}
	return string(s.Pattern)
}

// check refuses targets that the layers do not allow.
func (p *Pruner) check() error {
	o := p.o
	refuse := func(what, why string) error {
		return &exit.Error{Code: exit.Usage, What: what, At: "prune.target", Why: why, Fix: "lower prune.target, name the layer in prune.keep, or choose smaller blocks or another prune.scope"}
	}
	if o.Target > o.Structure.MaxSparsity() {
		return refuse(fmt.Sprintf("sparsity %g is more than structure %s allows", o.Target, o.Structure), fmt.Sprintf("it allows %g", o.Structure.MaxSparsity()))
	}
	if o.Structure.Pattern == TwoFour {
		switch {
		case o.isRegrowing():
			return refuse("weights of structure 2:4 cannot be exchanged", string(o.Method)+" puts weights back in other places of a layer")
		case o.Scope == ERK:
			return refuse("scope erk asks for more of some layers than structure 2:4 allows", "every layer has at most half of its weights removed")
		}
		return nil // half of each row is left
	}
	if o.Scope == Global {
		all, least := 0, 0
		for _, l := range p.layers {
			all += l.Size()
			least += o.Structure.minKept(l)
		}
		if left := all - removedCount(o.Target, all); left < least {
			return refuse(fmt.Sprintf("sparsity %g would remove layers entirely", o.Target),
				fmt.Sprintf("%d of %d weights would be left to %d layers, which keep at least %d", left, all, len(p.layers), least))
		}
		return nil
	}
	densities, err := o.Scope.layerDensities(p.layers, 1-o.Target)
	if err != nil {
		return err
	}
	for i, l := range p.layers {
		left := l.Size() - removedCount(1-densities[i], l.Size())
		if least := o.Structure.minKept(l); left < least {
			return refuse(fmt.Sprintf("sparsity %g would remove layer %s entirely", o.Target, l.Name),
				fmt.Sprintf("scope %s leaves %d of its %d weights (%d outputs, %d inputs, %d taps), and %s keep at least %d", o.Scope, left, l.Size(), l.Out, l.In, l.Taps(), o.Structure, least))
		}
	}
	return nil
}

// Layers are those that are pruned.
func (p *Pruner) Layers() []Layer { return p.layers }

// IsFinal says whether the mask stays as it is from now on.
func (p *Pruner) IsFinal() bool { return p.final }

// IsNested says whether what is masked now stays so.
func (p *Pruner) IsNested() bool {
	return p.final || p.o.Method == Magnitude || p.o.Method == Random
}

// Mask is the mask: false where a parameter is 0. It lies as the parameters of the store and
// belongs to the pruner.
func (p *Pruner) Mask() []bool { return p.mask }

// FixedMask is the mask that an optimiser holds parameters at 0 by; nil while masked ones go on
// to learn.
func (p *Pruner) FixedMask() []bool {
	if p.o.Method == Movement && !p.final {
		return nil
	}
	return p.mask
}

// Sparsity is the share of the weights of the pruned layers that are masked.
func (p *Pruner) Sparsity() float64 {
	masked, all := 0, 0
	for _, l := range p.layers {
		all += l.Size()
		for _, k := range p.mask[l.Offset : l.Offset+l.Size()] {
			if !k {
				masked++
			}
		}
	}
	return float64(masked) / float64(all)
}

// Hash names the mask: two are the same if it is.
func (p *Pruner) Hash() string {
	h := sha256.New()
	var bits []byte
	for _, l := range p.layers {
		bits = packBits(bits[:0], p.mask[l.Offset:l.Offset+l.Size()])
		h.Write(bits)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// packBits appends eight elements of a mask to a byte.
func packBits(to []byte, keep []bool) []byte {
	for i, k := range keep {
		if i%8 == 0 {
			to = append(to, 0)
		}
		if k {
			to[len(to)-1] |= 1 << (i % 8)
		}
	}
	return to
}

// selectMask makes the mask of a sparsity by scores, which lie as the parameters.
func (p *Pruner) selectMask(scores []float32, sparsity float64, keep []bool) error {
	for i := range keep {
		keep[i] = true
	}
	if p.o.Scope == Global {
		n := 0
		for _, l := range p.layers {
			n += l.Size()
		}
		newRanking(p.o.Structure, p.layers, scores).dropWeakest(removedCount(sparsity, n), keep)
		return nil
	}
	densities, err := p.o.Scope.layerDensities(p.layers, 1-sparsity)
	if err != nil {
		return err
	}
	for i, l := range p.layers {
		newRanking(p.o.Structure, p.layers[i:i+1], scores).dropWeakest(removedCount(1-densities[i], l.Size()), keep)
	}
	return nil
}

// zeroScratch is room for as many scores as there are parameters, all 0.
func (p *Pruner) zeroScratch() []float32 {
	if p.scratch == nil {
		p.scratch = make([]float32, p.n)
	}
	clear(p.scratch)
	return p.scratch
}

// magnitudes are |w|. Weights that are masked stay behind all others, so that a mask of more
// sparsity holds one of less.
func (p *Pruner) magnitudes(w []float32) []float32 {
	s := p.zeroScratch()
	for _, l := range p.layers {
		for i := l.Offset; i < l.Offset+l.Size(); i++ {
			s[i] = float32(math.Abs(float64(w[i])))
			if !p.mask[i] {
				s[i] = -1
			}
		}
	}
	return s
}

// Purposes keep random numbers apart.
const (
	scoreStream  = 0x7072756e65 // of masks
	growthStream = 0x67726f77   // of weights that are put back
)

// randomScores are random scores, of which those of one layer do not depend on the others.
func (p *Pruner) randomScores(parts ...uint64) []float32 {
	s := p.zeroScratch()
	for _, l := range p.layers {
		k := rng.Key(append([]uint64{p.o.Seed, rng.Hash(l.Param)}, parts...)...)
		for i := range l.Size() {
			s[l.Offset+i] = float32(rng.Uniform(k, uint64(i)))
		}
	}
	return s
}

// initialScores are the scores of a random mask, always the same.
func (p *Pruner) initialScores() []float32 { return p.randomScores(scoreStream) }

// isDue says whether step t changes the mask.
func (p *Pruner) isDue(t int) bool {
	return t >= p.o.To || t >= p.o.From && (t-p.o.From)%p.o.Every == 0
}

// Step makes the mask of step t, the present weights and their gradient, with which the
// optimiser is about to move them at a rate. It tells whether the mask, or what Fixed gives, is
// another one now.
//
// Errors: those of gathering from other ranks.
func (p *Pruner) Step(t int, rate float64, w Weights, g Gradient) (changed bool, err error) {
	if p.final {
		return false, nil
	}
	before := p.mask
	switch p.o.Method {
	case Movement:
		if t >= p.o.From {
			p.addMovement(rate, w(), g)
		}
		if p.isDue(t) {
			scores := p.zeroScratch()
			copy(scores, p.scores)
			if err := g.AllGather(scores); err != nil {
				return false, fmt.Errorf("scores of pruning: %w", err)
			}
			p.mask = make([]bool, p.n)
			err = p.selectMask(scores, p.scheduledSparsity(t), p.mask)
			p.regrown = nil
			for i, k := range p.mask {
				if k && !before[i] {
					p.regrown = append(p.regrown, i)
				}
			}
		}
	case Magnitude, Random:
		if p.isDue(t) {
			var scores []float32
			if p.o.Method == Random {
				scores = p.initialScores()
			} else {
				scores = p.magnitudes(w())
			}
			p.mask = make([]bool, p.n)
			err = p.selectMask(scores, p.scheduledSparsity(t), p.mask)
		}
	case SET:
		if p.isDue(t) && t < p.o.To {
			p.dropAndGrow(p.o.DropFraction, w(), p.randomScores(growthStream, uint64(t)))
		}
	case RigL:
		if p.isDue(t) && t < p.o.To {
			grow := p.zeroScratch()
			g.AddScaledGradient(grow, 1)
			if err := g.AllGather(grow); err != nil {
				return false, fmt.Errorf("gradients of pruning: %w", err)
			}
			for i, v := range grow {
				grow[i] = float32(math.Abs(float64(v)))
			}
			p.dropAndGrow(CosineDecay(t, p.o.To, p.o.DropFraction), w(), grow)
		}
	case Lottery, EarlyBird:
		if t >= p.o.To {
			p.mask = make([]bool, p.n)
			err = p.selectMask(p.magnitudes(w()), p.o.Target, p.mask)
		}
	}
	if t >= p.o.To {
		p.final = true
	}
	return p.final || !slices.Equal(before, p.mask), err
}

// scheduledSparsity is that of the schedule.
func (p *Pruner) scheduledSparsity(t int) float64 {
	return Cubic(t, p.o.From, p.o.To, p.o.Initial, p.o.Target)
}

// addMovement adds a step to the scores of movement.
func (p *Pruner) addMovement(rate float64, w []float32, g Gradient) {
	if p.scores == nil {
		p.scores = make([]float32, p.n)
	}
	step := p.zeroScratch()
	g.AddScaledGradient(step, float32(-rate))
	for i, v := range step {
		p.scores[i] += v * w[i]
	}
}

// UnmaskWeights puts masked weights that go on to learn back, before the optimiser's step.
func (p *Pruner) UnmaskWeights(weights Weights) {
	if p.latent == nil {
		return
	}
	w := weights()
	for i, k := range p.mask {
		if !k {
			w[i] = p.latent[i]
		}
	}
}

// MaskWeights takes them out of the network again, after the step, and out of the average of the
// weights if there is one, which begins anew for weights that return.
func (p *Pruner) MaskWeights(weights, averages Weights) {
	if p.o.Method != Movement || p.final {
		p.latent = nil
		return
	}
	w, average := weights(), averages()
	if p.latent == nil {
		p.latent = make([]float32, p.n)
	}
	for i, k := range p.mask {
		if k {
			continue
		}
		p.latent[i], w[i] = w[i], 0
		if average != nil {
			average[i] = 0
		}
	}
	if average != nil {
		for _, i := range p.regrown {
			average[i] = w[i]
		}
	}
	p.regrown = nil
}

// EndEpoch is told of the end of an epoch, after step t − 1. It tells as Step whether the mask is
// another one now.
func (p *Pruner) EndEpoch(t int, w Weights) (changed bool, err error) {
	if p.o.Method != EarlyBird || p.final || t < p.o.From {
		return false, nil
	}
	mask := make([]bool, p.n)
	if err := p.selectMask(p.magnitudes(w()), p.o.Target, mask); err != nil {
		return false, err
	}
	if p.lastMask != nil && p.maskDistance(p.lastMask, mask) < p.o.Stability.Distance {
		p.stableEpochs++
	} else {
		p.stableEpochs = 0
	}
	p.lastMask = mask
	if p.stableEpochs < p.o.Stability.Epochs {
		return false, nil
	}
	p.mask, p.final = mask, true
	return true, nil
}

// maskDistance is the share of the weights in which two masks differ (Hamming).
func (p *Pruner) maskDistance(a, b []bool) float64 {
	differ, all := 0, 0
	for _, l := range p.layers {
		all += l.Size()
		for i := l.Offset; i < l.Offset+l.Size(); i++ {
			if a[i] != b[i] {
				differ++
			}
		}
	}
	return float64(differ) / float64(all)
}
