package optim

import "math"

// GradientNoise collects squared norms of gradients of small and of large batches, such as those of single batches and
// of the mean that Accumulate makes of them.
type GradientNoise struct {
	Small float64 `json:"small"` // sum of the mean squared norms of the small batches
	Large float64 `json:"large"` // sum of the squared norms of the large batches
	Steps int     `json:"steps"` // number of large batches
}

// Add adds a large batch and the mean squared norm of its small batches.
func (n *GradientNoise) Add(small, large float64) {
	n.Small, n.Large, n.Steps = n.Small+small, n.Large+large, n.Steps+1
}

// Scale returns the gradient noise scale of batches of b and of B > b samples:
//
//	|G|² = (B q_B − b q_b)/(B − b),   tr Σ = (q_b − q_B)/(1/b − 1/B),   B_noise = tr Σ/|G|²
//
// with the mean squared norms q. G is the expected gradient, Σ the covariance of the gradient of one sample. Up to a batch
// of about B_noise samples a larger batch saves steps in proportion. ok is false if the norms do not determine it, as when
// the estimate of |G|² is not positive.
//
// Unit: samples.
// Source: McCandlish et al. 2018, arXiv:1812.06162, appendix A.1.
func (n GradientNoise) Scale(b, large int) (scale float64, ok bool) {
	if n.Steps == 0 || b < 1 || large <= b {
		return 0, false
	}
	small, big, qb, qB := float64(b), float64(large), n.Small/float64(n.Steps), n.Large/float64(n.Steps)
	gradient := (big*qB - small*qb) / (big - small)
	trace := (qb - qB) / (1/small - 1/big)
	scale = trace / gradient
	return scale, gradient > 0 && trace >= 0 && !math.IsInf(scale, 0) && !math.IsNaN(scale)
}

// BatchNorm returns the norm of the present gradient of the store, that of one batch, before accumulation, masking and
// clipping. All ranks must call it. It needs gradients in the memory of the host.
//
// Errors: communication errors, and errors of other ranks.
func (p *Optimizer) BatchNorm() (float64, error) {
	p.sweep.squares(p.part, nil, p.ownGradient())
	err := p.reduceNorms()
	return p.norm() / p.lossScale, err
}
