package prune

// decayMasked shrinks the weights that the network of this step does not have by the factor 1 − rate·MaskedDecay, before the
// optimiser adds its step. For SGD without momentum this is the update of the source; for optimisers that scale gradients
// the decay is decoupled from the scale, as that of AdamW.
//
// A masked weight near the threshold would otherwise return at each change of the gradient's sign: the decay widens the gap
// between kept and masked weights.
//
// Shape: w [parameters], with the latent values of masked weights.
func (p *Pruner) decayMasked(rate float64, w []float32) {
	keep := float32(1 - rate*p.o.MaskedDecay)
	for _, l := range p.layers {
		for i := l.Offset; i < l.Offset+l.Size(); i++ {
			if !p.mask[i] {
				w[i] *= keep
			}
		}
	}
}
