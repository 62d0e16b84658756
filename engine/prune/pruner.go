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

// Method is the rule that chooses the weights to remove.
type Method string

// The methods.
const (
	// Magnitude removes the weights with the smallest |w|. The sparsity follows the schedule Cubic.
	Magnitude Method = "magnitude"
	// Random removes random weights with the schedule of Magnitude. It is the baseline that shows
	// the benefit of choosing by score.
	Random Method = "random"
	// Movement removes the weights with the lowest score
	//
	//	S = −Σ rate · ∂L/∂w · w     over the steps since From, with w before the step
	//
	// with the schedule of Magnitude. Until To all weights are trained, masked ones too: their
	// gradient is that of their position in the masked network. Masked weights may therefore
	// return.
	//
	// Source: Sanh et al. 2020, arXiv:2005.07683.
	Movement Method = "movement"
	// SET (sparse evolutionary training) begins with random masks of the target sparsity. At each
	// change it removes the fraction DropFraction of the remaining weights, those with the smallest
	// |w|, and adds as many with the value 0 at random positions.
	//
	// Source: Mocanu et al. 2018, doi:10.1038/s41467-018-04316-3.
	SET Method = "set"
	// RigL is SET with a fraction that decays (CosineDecay). It adds weights where |∂L/∂w| is
	// largest, and needs the dense gradient in these steps.
	//
	// Source: Evci et al. 2020, arXiv:1911.11134.
	RigL Method = "rigl"
	// TopKAST (top-K always sparse training) keeps the latent values of all weights. The network has
	// those of the largest |w|, at the target sparsity from the first step; twice as many are
	// trained, with their gradient in the masked network (GradientMask). Both sets are chosen
	// anew at each change, random at first. It never needs a dense gradient.
	//
	// Source: Jayakumar et al. 2020, arXiv:2106.03517, without its penalty.
	TopKAST Method = "topkast"
	// SRSTE (sparse-refined straight-through estimator) is TopKAST that trains all weights. A weight that
	// is masked also decays, so that masks settle:
	//
	//	w = w − rate·(∂L/∂w̃ + MaskedDecay·w)     w̃: weights of the network, 0 where masked
	//
	// It needs the dense gradient in every step. With the structure 2:4 it is the method of the source.
	//
	// Source: Zhou et al. 2021, arXiv:2102.04010, equations 7 and 8.
	SRSTE Method = "sr_ste"
	// SoftThreshold (soft thresholds of weights) has weights w̃ in the network,
	//
	//	w̃ = w · max(0, 1 − τ/r)     r: mean |w| of the unit     τ = exp(s)·θ
	//
	// which are sign(w)·max(0, |w| − τ) for units of one weight. A unit that is removed or returns thus changes the
	// network continuously. Each layer has a scale s, which is trained with its gradient by Adam. θ is common: the
	// threshold at which all layers together have the sparsity of Cubic, so that training distributes it over layers.
	// In the source nothing fixes the sparsity: each layer has τ = sigmoid(s), and the decay of s raises it.
	// The weights are trained with the gradient of w̃, which is that of w for units of one weight.
	// For larger ones it differs by the factor r/(r − τ) of what is normal to w in its unit, and descends as well.
	// Masked weights have no gradient; their values wait.
	//
	// Source: Kusupati et al. 2020, arXiv:2002.03231, equations 2 to 7.
	SoftThreshold Method = "soft_threshold"
	// Lottery removes the weights with the smallest |w| at To. The caller then resets the remaining
	// weights to their values at From (lottery ticket with rewinding).
	//
	// Source: Frankle and Carbin 2019, arXiv:1803.03635; Frankle et al. 2020, arXiv:1912.05671.
	Lottery Method = "lottery"
	// EarlyBird draws the mask of the smallest |w| after every epoch from From on. It keeps that
	// mask once Stability.Epochs successive masks differ in less than the fraction
	// Stability.Distance, at the latest at To.
	//
	// Source: You et al. 2020, arXiv:1909.11957.
	EarlyBird Method = "early_bird"
)

// MaskStability is the criterion by which the masks of EarlyBird have converged.
type MaskStability struct {
	Distance float64 // fraction of weights in which two masks differ (normalised Hamming distance)
	Epochs   int     // number of successive epochs below Distance
}

// Options select what is pruned, how much and when. Steps count from 0.
type Options struct {
	Method       Method
	Structure    Structure
	Scope        Scope
	Target       float64                 // final sparsity of the pruned layers, 0 to 1
	Initial      float64                 // sparsity at From, for methods with a schedule
	From, To     int                     // steps of the first and of the last change
	Every        int                     // steps between changes
	DropFraction float64                 // fraction of weights that SET and RigL replace at a change
	MaskedDecay  float64                 // decay of masked weights in steps of SRSTE, relative to the rate
	Stability    MaskStability           // EarlyBird only
	Seed         uint64                  // of random masks and random growth
	Exclude      func(layer string) bool // selects layers that are not pruned; nil means none
}

// Gradient is the gradient of a step. Each rank may hold a part of it. *optim.Optimizer implements
// it.
type Gradient interface {
	// AddScaledGradient adds factor times this rank's part of the gradient to x, in the layout of the
	// parameters.
	AddScaledGradient(x []float32, factor float32)
	// AllGather completes x on all ranks. Each rank contributes the elements that AddScaledGradient
	// writes.
	AllGather(x []float32) error
}

// Weights returns the current parameters or their moving average, in memory that may be changed;
// nil if there is no average. It is called only if the values are needed, as a call may copy them
// from a device.
type Weights func() []float32

// Pruner holds the mask of one network in training.
type Pruner struct {
	o            Options
	layers       []Layer   // pruned layers
	n            int       // length of the flat parameters
	mask         []bool    // mask; false where a parameter is 0
	trained      []bool    // of TopKAST and SRSTE until To: false where a parameter is constant; contains mask
	scores       []float32 // accumulated: of Movement since From, of SoftThreshold since the last change
	soft         softThresholds
	latent       []float32 // latent values of masked weights, until To; nil without isLatent
	regrown      []int     // weights that returned to the network, until the next MaskWeights
	scratch      []float32 // scratch memory for scores and gradients
	lastMask     []bool    // mask of the previous epoch, for EarlyBird
	stableEpochs int       // successive epochs with similar masks, for EarlyBird
	final        bool      // the mask does not change any more
}

// New returns the pruner of a network. It prunes the layers to which the structure applies and that
// are not excluded. n is the length of the flat parameters of the store.
//
// Errors: exit 64 if no layer remains, or if the target would remove a whole layer.
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
		return nil, &exit.Error{Code: exit.Usage, What: "no layer can be pruned", At: "prune.structure",
			Why: fmt.Sprintf("of %d layers none fits the structure %s, or prune.keep excludes all", len(layers), o.Structure), Fix: "choose smaller blocks or another prune.structure, or name fewer layers in prune.keep"}
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	if o.Method == SoftThreshold && (o.Scope != Global || o.Structure.Pattern == TwoFour) {
		return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("method %s with structure %s and scope %s", o.Method, o.Structure, o.Scope), At: "prune.method",
			Why: "its thresholds distribute the sparsity over layers", Fix: "set prune.scope: global and another prune.structure, or another prune.method"}
	}
	p.mask = slices.Repeat([]bool{true}, n)
	if o.isRegrowing() {
		if err := p.selectMask(p.initialScores(), o.Target, p.mask); err != nil {
			return nil, err
		}
	}
	if o.keepsAll() {
		return p, p.selectTrained(p.initialScores())
	}
	return p, nil
}

// isRegrowing reports whether the method has the target sparsity from the start, and replaces
// weights.
func (o Options) isRegrowing() bool {
	return o.Method == SET || o.Method == RigL || o.keepsAll()
}

// keepsAll reports whether the method keeps the values of all weights, and chooses masks by them.
func (o Options) keepsAll() bool { return o.Method == TopKAST || o.Method == SRSTE }

// isLatent reports whether masked weights have latent values.
func (p *Pruner) isLatent() bool {
	return (p.o.Method == Movement || p.o.Method == SoftThreshold || p.o.keepsAll()) && !p.final
}

// String is the pattern, with the shape of the blocks.
func (s Structure) String() string {
	if s.Pattern == Blocks {
		return "blocks of " + s.Block.String()
	}
	return string(s.Pattern)
}

// check refuses targets that the layers do not allow.
//
// Errors: exit 64 with the layer and its numbers of weights.
func (p *Pruner) check() error {
	o := p.o
	refuse := func(what, why string) error {
		return &exit.Error{Code: exit.Usage, What: what, At: "prune.target", Why: why, Fix: "lower prune.target, name the layer in prune.keep, or choose smaller blocks or another prune.scope"}
	}
	if o.Target > o.Structure.MaxSparsity() {
		return refuse(fmt.Sprintf("sparsity %g is too high for structure %s", o.Target, o.Structure), fmt.Sprintf("the maximum is %g", o.Structure.MaxSparsity()))
	}
	if o.Structure.Pattern == TwoFour {
		switch {
		case o.isRegrowing() && o.Method != SRSTE:
			return refuse("structure 2:4 does not allow method "+string(o.Method), "the method adds weights anywhere in a layer")
		case o.Scope == ERK:
			return refuse("structure 2:4 does not allow scope erk", "the scope needs more than half of the weights of some layers removed")
		}
		return nil // half of each row remains, so no layer can become empty
	}
	if o.Scope == Global {
		all, minimum := 0, 0
		for _, l := range p.layers {
			all += l.Size()
			minimum += o.Structure.minKept(l)
		}
		if left := all - removedCount(o.Target, all); left < minimum {
			return refuse(fmt.Sprintf("sparsity %g would remove layers entirely", o.Target),
				fmt.Sprintf("%d of %d weights would remain in %d layers, which need at least %d", left, all, len(p.layers), minimum))
		}
		return nil
	}
	densities, err := o.Scope.layerDensities(p.layers, 1-o.Target)
	if err != nil {
		return err
	}
	for i, l := range p.layers {
		left := l.Size() - removedCount(1-densities[i], l.Size())
		if minimum := o.Structure.minKept(l); left < minimum {
			return refuse(fmt.Sprintf("sparsity %g would remove layer %s entirely", o.Target, l.Name),
				fmt.Sprintf("scope %s leaves %d of its %d weights (%d outputs, %d inputs, %d taps), structure %s needs at least %d", o.Scope, left, l.Size(), l.Out, l.In, l.Taps(), o.Structure, minimum))
		}
	}
	return nil
}

// Layers lists the pruned layers.
func (p *Pruner) Layers() []Layer { return p.layers }

// IsFinal reports whether the mask does not change any more.
func (p *Pruner) IsFinal() bool { return p.final }

// IgnoresMaskedGradient reports whether the gradient of masked weights matters in no step, of this mask or a later one.
func (p *Pruner) IgnoresMaskedGradient() bool {
	return p.final || p.o.Method == Magnitude || p.o.Method == Random || p.o.Method == SoftThreshold
}

// IsRegrowing reports whether masked weights may return while the sparsity of each layer stays the same.
func (p *Pruner) IsRegrowing() bool { return p.o.isRegrowing() && !p.final }

// NeedsMaskedGradient reports whether the gradient of masked weights matters at step t although they are fixed at 0: Step
// compares it, or weights that return are updated with it in the same step.
func (p *Pruner) NeedsMaskedGradient(t int) bool {
	return p.IsRegrowing() && !p.o.keepsAll() && p.isDue(t) && t < p.o.To
}

// GradientMask returns the mask of the weights whose gradient is needed in steps without NeedsMaskedGradient. It
// belongs to the pruner.
//
// Shape: [parameters], in the layout of the store.
func (p *Pruner) GradientMask() []bool {
	if p.trained != nil {
		return p.trained
	}
	return p.mask
}

// Mask returns the mask, false where a parameter is 0. It belongs to the pruner.
//
// Shape: [parameters], in the layout of the store.
func (p *Pruner) Mask() []bool { return p.mask }

// FixedMask returns the mask for the optimiser, which holds masked parameters at 0. It is nil while
// masked weights are trained.
func (p *Pruner) FixedMask() []bool {
	if p.o.Method == Movement && !p.final {
		return nil
	}
	return p.GradientMask()
}

// Sparsity is the fraction of masked weights in the pruned layers.
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

// Hash is the SHA-256 of the mask. Equal masks have equal hashes, on all ranks and after a restart.
func (p *Pruner) Hash() string {
	h := sha256.New()
	var bits []byte
	for _, l := range p.layers {
		for _, mask := range [][]bool{p.mask, p.trained} {
			if mask != nil {
				bits = packBits(bits[:0], mask[l.Offset:l.Offset+l.Size()])
				h.Write(bits)
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// packBits appends the mask to to, eight elements in a byte, the lowest bit first.
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

// selectMask writes the mask of a sparsity by scores. With Global all layers share one budget; else
// each layer has a budget by its density.
//
// Shape: scores, keep [parameters].
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

// zeroScratch returns scratch memory for one score per parameter, set to 0.
func (p *Pruner) zeroScratch() []float32 {
	if p.scratch == nil {
		p.scratch = make([]float32, p.n)
	}
	clear(p.scratch)
	return p.scratch
}

// magnitudes returns |w|. Masked weights get −1, less than all others, so that a mask of higher
// sparsity contains one of lower sparsity.
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

// Random streams: the purpose is part of the key, so that streams are independent.
const (
	scoreStream  = 0x7072756e65 // scores of random masks
	growthStream = 0x67726f77   // scores for growth in SET
)

// randomScores returns uniform random scores. Those of one layer do not depend on the other layers.
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

// initialScores returns the scores of random masks, the same at each call.
func (p *Pruner) initialScores() []float32 { return p.randomScores(scoreStream) }

// isDue reports whether step t changes the mask.
func (p *Pruner) isDue(t int) bool {
	return t >= p.o.To || t >= p.o.From && (t-p.o.From)%p.o.Every == 0
}

// Step updates the mask before the optimiser's step t with the given learning rate. w are the
// current weights, g their gradient. It reports whether the mask, or the result of FixedMask, has
// changed.
//
// Errors: communication errors of g.
func (p *Pruner) Step(t int, rate float64, w Weights, g Gradient) (changed bool, err error) {
	if p.final {
		return false, nil
	}
	before, trained := p.mask, p.trained
	switch p.o.Method {
	case Movement:
		if t >= p.o.From {
			p.addMovement(rate, w(), g)
		}
		if p.isDue(t) {
			scores := p.zeroScratch()
			copy(scores, p.scores)
			if err := g.AllGather(scores); err != nil {
				return false, fmt.Errorf("pruning scores: %w", err)
			}
			p.mask = make([]bool, p.n)
			err = p.selectMask(scores, p.scheduledSparsity(t), p.mask)
			p.noteRegrown(before)
		}
	case TopKAST, SRSTE:
		if p.o.Method == SRSTE {
			p.decayMasked(rate, w())
		}
		if p.isDue(t) {
			err = p.chooseLargest(w(), t < p.o.To)
			p.noteRegrown(before)
		}
	case SoftThreshold:
		err = p.stepThresholds(t, rate, w, g)
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
				return false, fmt.Errorf("pruning gradients: %w", err)
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
	return p.final || !slices.Equal(before, p.mask) || !slices.Equal(trained, p.trained), err
}

// noteRegrown notes the weights that were masked before and are not now.
func (p *Pruner) noteRegrown(before []bool) {
	p.regrown = nil
	for i, k := range p.mask {
		if k && !before[i] {
			p.regrown = append(p.regrown, i)
		}
	}
}

// scheduledSparsity is that of the schedule at step t.
func (p *Pruner) scheduledSparsity(t int) float64 {
	return Cubic(t, p.o.From, p.o.To, p.o.Initial, p.o.Target)
}

// addMovement adds −rate·∂L/∂w·w of a step to the scores of Movement.
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

// UnmaskWeights restores the latent values of weights before the optimiser's step, which
// trains them.
func (p *Pruner) UnmaskWeights(weights Weights) {
	if p.latent == nil {
		return
	}
	w := weights()
	if p.o.Method == SoftThreshold {
		p.unshrinkWeights(w)
		return
	}
	for i, k := range p.mask {
		if !k && (p.trained == nil || p.trained[i]) {
			w[i] = p.latent[i]
		}
	}
}

// MaskWeights gives weights their values in the network after the optimiser's step, 0 where masked, and stores their latent
// values. It
// does the same to the moving average if there is one. Weights that return start a new average.
func (p *Pruner) MaskWeights(weights, averages Weights) {
	if !p.isLatent() {
		p.latent, p.soft = nil, softThresholds{}
		return
	}
	w, average := weights(), averages()
	if p.o.Method == SoftThreshold {
		p.shrinkWeights(w, average)
		return
	}
	first := p.latent == nil
	if first {
		p.latent = make([]float32, p.n)
	}
	for i, k := range p.mask {
		if k {
			continue
		}
		if first || p.trained == nil || p.trained[i] {
			p.latent[i] = w[i]
		}
		w[i] = 0
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

// EndEpoch must be called at the end of an epoch, after step t−1. EarlyBird compares the masks of
// successive epochs there. It reports whether the mask has changed.
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

// maskDistance is the fraction of weights in which two masks differ (normalised Hamming distance).
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
