package prune

import (
	"fmt"
	"math"
)

// softThresholds is the state of SoftThreshold from its first mask to To.
type softThresholds struct {
	layers  []layerThreshold // of the pruned layers; nil before the first mask
	means   []float32        // mean |w| of each weight's unit, by latent values after the last step
	updates int              // changes of the scales
	rates   float64          // sum of the learning rates since the last of them
}

// layerThreshold is the threshold τ = exp(scale)·θ of a layer, with θ common to all.
type layerThreshold struct {
	scale, tau    float32
	first, second float32 // moments of the gradient of scale
}

// Constants of Adam, by which scales are trained.
const (
	scaleBeta1 = 0.9
	scaleBeta2 = 0.999
	scaleEps   = 1e-8
)

// unitMeans writes the mean |w| of its unit to each weight of the pruned layers, the r of SoftThreshold.
//
// Shape: w, to [parameters].
func (p *Pruner) unitMeans(to, w []float32) {
	var e []int
	for _, l := range p.layers {
		to, w := to[l.Offset:l.Offset+l.Size()], w[l.Offset:l.Offset+l.Size()]
		for i, v := range w {
			to[i] = float32(math.Abs(float64(v)))
		}
		if p.o.Structure.Pattern == Element {
			continue
		}
		for u := range p.o.Structure.unitCount(l) {
			e = p.o.Structure.unitElements(e[:0], l, u, nil)
			r := mean(to, e)
			for _, i := range e {
				to[i] = r
			}
		}
	}
}

// isShrunk reports whether the threshold acts on a weight: it is not masked, and its unit is above the threshold. Units that
// a layer keeps at any threshold are not shrunk below it, as the network would be cut off.
func (p *Pruner) isShrunk(i int, tau float32) bool { return p.mask[i] && p.soft.means[i] > tau }

// shrink gives kept weights of the pruned layers their values in the network.
//
// Shape: w [parameters].
func (p *Pruner) shrink(w []float32) {
	if p.soft.means == nil {
		p.soft.means = make([]float32, p.n)
	}
	p.unitMeans(p.soft.means, p.latent)
	for at, l := range p.layers {
		var tau float32
		if p.soft.layers != nil {
			tau = p.soft.layers[at].tau
		}
		for i := l.Offset; i < l.Offset+l.Size(); i++ {
			switch {
			case p.isShrunk(i, tau):
				w[i] = p.latent[i] * (1 - tau/p.soft.means[i])
			case p.mask[i]:
				w[i] = p.latent[i]
			default:
				w[i] = 0
			}
		}
	}
}

// shrinkWeights is MaskWeights of SoftThreshold. The moving average starts at To, as it would mix values of different
// thresholds.
func (p *Pruner) shrinkWeights(w, average []float32) {
	if p.latent == nil {
		p.latent = make([]float32, p.n)
		copy(p.latent, w)
	}
	p.eachPruned(func(i int) {
		if p.mask[i] {
			p.latent[i] = w[i]
		}
	})
	p.shrink(w)
	if average != nil {
		p.eachPruned(func(i int) { average[i] = w[i] })
	}
}

// unshrinkWeights is UnmaskWeights of SoftThreshold.
func (p *Pruner) unshrinkWeights(w []float32) {
	p.eachPruned(func(i int) {
		if p.mask[i] {
			w[i] = p.latent[i]
		}
	})
}

// eachPruned calls do for each weight of the pruned layers.
func (p *Pruner) eachPruned(do func(i int)) {
	for _, l := range p.layers {
		for i := l.Offset; i < l.Offset+l.Size(); i++ {
			do(i)
		}
	}
}

// addThresholdGradient adds what each weight of this rank contributes to the gradient of its layer's threshold,
//
//	∂L/∂τ = −Σ ∂L/∂w̃·w/r     over the weights that the threshold shrinks
//
// to the scores.
func (p *Pruner) addThresholdGradient(rate float64, g Gradient) {
	if p.scores == nil {
		p.scores = make([]float32, p.n)
	}
	if p.soft.means == nil { // after Restore
		p.soft.means = make([]float32, p.n)
		p.unitMeans(p.soft.means, p.latent)
	}
	step := p.zeroScratch()
	g.AddScaledGradient(step, 1)
	for at, l := range p.layers {
		tau := p.soft.layers[at].tau
		for i := l.Offset; i < l.Offset+l.Size(); i++ {
			if p.isShrunk(i, tau) {
				p.scores[i] -= step[i] * p.latent[i] / p.soft.means[i]
			}
		}
	}
	p.soft.rates += rate
}

// trainScales changes the scales of the thresholds by the gradients since the last change, all at once.
//
// Errors: communication errors of g.
func (p *Pruner) trainScales(g Gradient) error {
	if err := g.AllGather(p.scores); err != nil {
		return fmt.Errorf("gradients of pruning thresholds: %w", err)
	}
	s := &p.soft
	s.updates++
	correct1, correct2 := 1-math.Pow(scaleBeta1, float64(s.updates)), 1-math.Pow(scaleBeta2, float64(s.updates))
	for at, l := range p.layers {
		var sum float64
		for _, v := range p.scores[l.Offset : l.Offset+l.Size()] {
			sum += float64(v)
		}
		t := &s.layers[at]
		d := sum * float64(t.tau) // ∂L/∂scale, as ∂τ/∂scale = τ
		t.first = float32(scaleBeta1*float64(t.first) + (1-scaleBeta1)*d)
		t.second = float32(scaleBeta2*float64(t.second) + (1-scaleBeta2)*d*d)
		t.scale -= float32(s.rates * float64(t.first) / correct1 / (math.Sqrt(float64(t.second)/correct2) + scaleEps))
	}
	clear(p.scores)
	s.rates = 0
	return nil
}

// chooseThresholds gives SoftThreshold a new mask of a sparsity, and the thresholds that belong to it: θ is the largest
// r·exp(−scale) of a unit that the mask removes.
func (p *Pruner) chooseThresholds(sparsity float64) error {
	scores := p.zeroScratch()
	for at, l := range p.layers {
		by := float32(math.Exp(-float64(p.soft.layers[at].scale)))
		for i := l.Offset; i < l.Offset+l.Size(); i++ {
			scores[i] = float32(math.Abs(float64(p.latent[i]))) * by
		}
	}
	p.mask = make([]bool, p.n)
	if err := p.selectMask(scores, sparsity, p.mask); err != nil {
		return err
	}
	units := newRanking(p.o.Structure, p.layers, scores)
	theta, unit := float32(0), 0
	for _, l := range p.layers {
		for range p.o.Structure.unitCount(l) {
			if e := units.unitElements(unit); !p.mask[e[0]] {
				theta = max(theta, mean(scores, e))
			}
			unit++
		}
	}
	for at := range p.soft.layers {
		t := &p.soft.layers[at]
		t.tau = float32(math.Exp(float64(t.scale))) * theta
	}
	return nil
}

// stepThresholds is Step of SoftThreshold. At To the weights get their values in the network for good.
//
// Shape: w [parameters], with latent values.
// Errors: communication errors of g.
func (p *Pruner) stepThresholds(t int, rate float64, w Weights, g Gradient) error {
	if p.soft.layers != nil {
		p.addThresholdGradient(rate, g)
	}
	if !p.isDue(t) {
		return nil
	}
	if p.soft.layers == nil {
		p.soft.layers = make([]layerThreshold, len(p.layers))
	} else if err := p.trainScales(g); err != nil {
		return err
	}
	if err := p.chooseThresholds(p.scheduledSparsity(t)); err != nil {
		return err
	}
	if t >= p.o.To {
		p.shrink(w())
		return nil
	}
	p.unshrinkWeights(w())
	return nil
}
