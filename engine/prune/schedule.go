package prune

import "math"

// Cubic is the sparsity at step t of the gradual schedule
//
//	p = clamp((t − t0)/(t1 − t0), 0, 1)     s = sf + (si − sf)(1 − p)³
//
// which removes most while there is most to remove.
//
// Source: Zhu and Gupta 2017, arXiv:1710.01878.
func Cubic(t, t0, t1 int, si, sf float64) float64 {
	p := math.Min(math.Max(float64(t-t0)/float64(t1-t0), 0), 1)
	return sf + (si-sf)*(1-p)*(1-p)*(1-p)
}

// CosineDecay is the share of the weights that RigL exchanges at step t,
//
//	alpha/2 · (1 + cos(π·t/end))
//
// Source: Evci et al. 2020, arXiv:1911.11134, equation 1.
func CosineDecay(t, end int, alpha float64) float64 {
	return alpha / 2 * (1 + math.Cos(math.Pi*float64(t)/float64(end)))
}
