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

// Settle says when masks of epochs are the same for EarlyBird.
type Settle struct {
	Distance float64
	Epochs   int
}

// Options say what is pruned, how much and when. Steps count from 0.
type Options struct {
	Method    Method
	Structure Structure
	Scope     Scope
	Target    float64 // sparsity in the end, of the layers that are pruned
	Initial   float64 // at From, of the methods with a schedule
	From, To  int     // steps: of the first change and of the last
	Every     int     // steps between changes
	Exchange  float64 // share that SET and RigL exchange
	Settle    Settle
	Seed      uint64
	Spare     func(layer string) bool // layers that are not pruned; nil: none
}

// Gradient is the gradient of a step, of which this rank may have a part.
type Gradient interface {
	// Present adds factor times this rank's part to x, which lies as the parameters do.
	Present(x []float32, factor float32)
	// Gather gives all ranks all of x, of which each has the part that Present writes.
	Gather(x []float32) error
}

// Weights gives the present parameters, or their average, in memory that may be changed; nil
// if there are none. It is called when they are needed only, as they may lie on a device.
type Weights func() []float32

// Pruner keeps the mask of one network in training.
type Pruner struct {
	o       Options
	layers  []Layer // that are pruned
	n       int     // of the parameters with the gaps between them
	keep    []bool
	scores  []float32 // of movement, since From
	hidden  []float32 // masked weights that go on to learn, with movement until To
	fresh   []int     // elements that returned to the network, until the next Cover
	room    []float32 // for scores and gradients of one change
	last    []bool    // mask of the last epoch, with EarlyBird
	settled int       // masks in a row that were the same
	final   bool
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
		if o.Structure.prunes(l) && (o.Spare == nil || !o.Spare(l.Name)) {
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
	p.keep = slices.Repeat([]bool{true}, n)
	if o.regrows() {
		if err := p.choose(p.random(), o.Target, p.keep); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// regrows says whether the method exchanges weights at a sparsity that it has from the start.
func (o Options) regrows() bool { return o.Method == SET || o.Method == RigL }

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
	if o.Target > o.Structure.Limit() {
		return refuse(fmt.Sprintf("sparsity %g is more than structure %s allows", o.Target, o.Structure), fmt.Sprintf("it allows %g", o.Structure.Limit()))
	}
	if o.Structure.Pattern == TwoFour {
		switch {
		case o.regrows():
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
			least += o.Structure.least(l)
		}
		if left := all - removed(o.Target, all); left < least {
			return refuse(fmt.Sprintf("sparsity %g would remove layers entirely", o.Target),
				fmt.Sprintf("%d of %d weights would be left to %d layers, which keep at least %d", left, all, len(p.layers), least))
		}
		return nil
	}
	densities, err := o.Scope.densities(p.layers, 1-o.Target)
	if err != nil {
		return err
	}
	for i, l := range p.layers {
		left := l.Size() - removed(1-densities[i], l.Size())
		if least := o.Structure.least(l); left < least {
			return refuse(fmt.Sprintf("sparsity %g would remove layer %s entirely", o.Target, l.Name),
				fmt.Sprintf("scope %s leaves %d of its %d weights (%d outputs, %d inputs, %d taps), and %s keep at least %d", o.Scope, left, l.Size(), l.Out, l.In, l.Taps(), o.Structure, least))
		}
	}
	return nil
}

// Layers are those that are pruned.
func (p *Pruner) Layers() []Layer { return p.layers }

// Final says whether the mask stays as it is from now on.
func (p *Pruner) Final() bool { return p.final }

// Nested says whether what is masked now stays so.
func (p *Pruner) Nested() bool {
	return p.final || p.o.Method == Magnitude || p.o.Method == Random
}

// Keep is the mask: false where a parameter is 0. It lies as the parameters of the store and
// belongs to the pruner.
func (p *Pruner) Keep() []bool { return p.keep }

// Fixed is the mask that an optimiser holds parameters at 0 by; nil while masked ones go on
// to learn.
func (p *Pruner) Fixed() []bool {
	if p.o.Method == Movement && !p.final {
		return nil
	}
	return p.keep
}

// Sparsity is the share of the weights of the pruned layers that are masked.
func (p *Pruner) Sparsity() float64 {
	masked, all := 0, 0
	for _, l := range p.layers {
		all += l.Size()
		for _, k := range p.keep[l.Offset : l.Offset+l.Size()] {
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
		bits = packed(bits[:0], p.keep[l.Offset:l.Offset+l.Size()])
		h.Write(bits)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// packed appends eight elements of a mask to a byte.
func packed(to []byte, keep []bool) []byte {
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

// choose makes the mask of a sparsity by scores, which lie as the parameters.
func (p *Pruner) choose(scores []float32, sparsity float64, keep []bool) error {
	for i := range keep {
		keep[i] = true
	}
	if p.o.Scope == Global {
		n := 0
		for _, l := range p.layers {
			n += l.Size()
		}
		newContest(p.o.Structure, p.layers, scores).weakest(removed(sparsity, n), keep)
		return nil
	}
	densities, err := p.o.Scope.densities(p.layers, 1-sparsity)
	if err != nil {
		return err
	}
	for i, l := range p.layers {
		newContest(p.o.Structure, p.layers[i:i+1], scores).weakest(removed(1-densities[i], l.Size()), keep)
	}
	return nil
}

// blank is room for as many scores as there are parameters, all 0.
func (p *Pruner) blank() []float32 {
	if p.room == nil {
		p.room = make([]float32, p.n)
	}
	clear(p.room)
	return p.room
}

// magnitudes are |w|. Weights that are masked stay behind all others, so that a mask of more
// sparsity holds one of less.
func (p *Pruner) magnitudes(w []float32) []float32 {
	s := p.blank()
	for _, l := range p.layers {
		for i := l.Offset; i < l.Offset+l.Size(); i++ {
			s[i] = float32(math.Abs(float64(w[i])))
			if !p.keep[i] {
				s[i] = -1
			}
		}
	}
	return s
}

// Purposes keep random numbers apart.
const (
	purposeScores = 0x7072756e65 // of masks
	purposeGrowth = 0x67726f77   // of weights that are put back
)

// draws are random scores, of which those of one layer do not depend on the others.
func (p *Pruner) draws(parts ...uint64) []float32 {
	s := p.blank()
	for _, l := range p.layers {
		k := rng.Key(append([]uint64{p.o.Seed, rng.Hash(l.Param)}, parts...)...)
		for i := range l.Size() {
			s[l.Offset+i] = float32(rng.Uniform(k, uint64(i)))
		}
	}
	return s
}

// random are the scores of a random mask, always the same.
func (p *Pruner) random() []float32 { return p.draws(purposeScores) }

// due says whether step t changes the mask.
func (p *Pruner) due(t int) bool {
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
	before := p.keep
	switch p.o.Method {
	case Movement:
		if t >= p.o.From {
			p.move(rate, w(), g)
		}
		if p.due(t) {
			scores := p.blank()
			copy(scores, p.scores)
			if err := g.Gather(scores); err != nil {
				return false, fmt.Errorf("scores of pruning: %w", err)
			}
			p.keep = make([]bool, p.n)
			err = p.choose(scores, p.sparsity(t), p.keep)
			p.fresh = nil
			for i, k := range p.keep {
				if k && !before[i] {
					p.fresh = append(p.fresh, i)
				}
			}
		}
	case Magnitude, Random:
		if p.due(t) {
			var scores []float32
			if p.o.Method == Random {
				scores = p.random()
			} else {
				scores = p.magnitudes(w())
			}
			p.keep = make([]bool, p.n)
			err = p.choose(scores, p.sparsity(t), p.keep)
		}
	case SET:
		if p.due(t) && t < p.o.To {
			p.exchange(p.o.Exchange, w(), p.draws(purposeGrowth, uint64(t)))
		}
	case RigL:
		if p.due(t) && t < p.o.To {
			grow := p.blank()
			g.Present(grow, 1)
			if err := g.Gather(grow); err != nil {
				return false, fmt.Errorf("gradients of pruning: %w", err)
			}
			for i, v := range grow {
				grow[i] = float32(math.Abs(float64(v)))
			}
			p.exchange(Falling(t, p.o.To, p.o.Exchange), w(), grow)
		}
	case Lottery, EarlyBird:
		if t >= p.o.To {
			p.keep = make([]bool, p.n)
			err = p.choose(p.magnitudes(w()), p.o.Target, p.keep)
		}
	}
	if t >= p.o.To {
		p.final = true
	}
	return p.final || !slices.Equal(before, p.keep), err
}

// sparsity is that of the schedule.
func (p *Pruner) sparsity(t int) float64 {
	return Cubic(t, p.o.From, p.o.To, p.o.Initial, p.o.Target)
}

// move adds a step to the scores of movement.
func (p *Pruner) move(rate float64, w []float32, g Gradient) {
	if p.scores == nil {
		p.scores = make([]float32, p.n)
	}
	step := p.blank()
	g.Present(step, float32(-rate))
	for i, v := range step {
		p.scores[i] += v * w[i]
	}
}

// Uncover puts masked weights that go on to learn back, before the optimiser's step.
func (p *Pruner) Uncover(weights Weights) {
	if p.hidden == nil {
		return
	}
	w := weights()
	for i, k := range p.keep {
		if !k {
			w[i] = p.hidden[i]
		}
	}
}

// Cover takes them out of the network again, after the step, and out of the average of the
// weights if there is one, which begins anew for weights that return.
func (p *Pruner) Cover(weights, averages Weights) {
	if p.o.Method != Movement || p.final {
		p.hidden = nil
		return
	}
	w, average := weights(), averages()
	if p.hidden == nil {
		p.hidden = make([]float32, p.n)
	}
	for i, k := range p.keep {
		if k {
			continue
		}
		p.hidden[i], w[i] = w[i], 0
		if average != nil {
			average[i] = 0
		}
	}
	if average != nil {
		for _, i := range p.fresh {
			average[i] = w[i]
		}
	}
	p.fresh = nil
}

// Epoch is told of the end of an epoch, after step t − 1. It tells as Step whether the mask is
// another one now.
func (p *Pruner) Epoch(t int, w Weights) (changed bool, err error) {
	if p.o.Method != EarlyBird || p.final || t < p.o.From {
		return false, nil
	}
	mask := make([]bool, p.n)
	if err := p.choose(p.magnitudes(w()), p.o.Target, mask); err != nil {
		return false, err
	}
	if p.last != nil && p.distance(p.last, mask) < p.o.Settle.Distance {
		p.settled++
	} else {
		p.settled = 0
	}
	p.last = mask
	if p.settled < p.o.Settle.Epochs {
		return false, nil
	}
	p.keep, p.final = mask, true
	return true, nil
}

// distance is the share of the weights in which two masks differ (Hamming).
func (p *Pruner) distance(a, b []bool) float64 {
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
