package prune

import (
	"math"
	"slices"
)

// selectTrained selects the weights that are trained. TopKAST: those of the mask, and as many others with the largest
// scores; all weights below a sparsity of one half. SRSTE: all.
//
// Shape: scores [parameters].
func (p *Pruner) selectTrained(scores []float32) error {
	p.trained = slices.Repeat([]bool{true}, p.n)
	if p.o.Method == SRSTE {
		return nil
	}
	if err := p.selectMask(scores, max(1-2*(1-p.o.Target), 0), p.trained); err != nil {
		return err
	}
	for i, k := range p.mask {
		p.trained[i] = p.trained[i] || k
	}
	return nil
}

// chooseLargest gives TopKAST and SRSTE new masks by the size of the latent values: that of the network, and, if training goes on,
// that of the trained weights. Weights that are trained from now on get their latent value, the others of w are as
// UnmaskWeights left them. Without training the mask becomes final.
//
// Shape: w [parameters].
func (p *Pruner) chooseLargest(w []float32, training bool) error {
	if p.latent == nil {
		p.latent = slices.Clone(w)
	}
	for i, k := range p.mask {
		if k || p.trained[i] {
			p.latent[i] = w[i]
		}
	}
	scores := p.zeroScratch()
	for _, l := range p.layers {
		for i := l.Offset; i < l.Offset+l.Size(); i++ {
			scores[i] = float32(math.Abs(float64(p.latent[i])))
		}
	}
	p.mask, p.trained = make([]bool, p.n), nil
	if err := p.selectMask(scores, p.o.Target, p.mask); err != nil {
		return err
	}
	if training {
		if err := p.selectTrained(scores); err != nil {
			return err
		}
	}
	for i, k := range p.GradientMask() {
		if k {
			w[i] = p.latent[i]
		}
	}
	return nil
}
