package prune

import "math"

// Cubic is the sparsity at step t of gradual pruning, from si at step t0 to sf at step t1:
//
//	p = clamp((t − t0)/(t1 − t0), 0, 1)     s = sf + (si − sf)(1 − p)³
//
// It removes most weights at the start, while many are redundant.
//
// Source: Zhu and Gupta 2017, arXiv:1710.01878.
func Cubic(t, t0, t1 int, si, sf float64) float64 {
	p := math.Min(math.Max(float64(t-t0)/float64(t1-t0), 0), 1)
	return sf + (si-sf)*(1-p)*(1-p)*(1-p)
}

// CosineDecay is the fraction of weights that RigL replaces at step t. It decays from alpha to 0
// along half a cosine:
//
//	alpha/2 · (1 + cos(π·t/end))
//
// Source: Evci et al. 2020, arXiv:1911.11134, equation 1.
func CosineDecay(t, end int, alpha float64) float64 {
	return alpha / 2 * (1 + math.Cos(math.Pi*float64(t)/float64(end)))
}
