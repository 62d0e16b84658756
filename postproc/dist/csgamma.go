package dist

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// CSGammaCDF is the distribution function at x of max(G−shift, 0), G gamma distributed: the
// censored, shifted gamma distribution for precipitation.
func CSGammaCDF(shape, scale, shift, x float64) float64 {
	if x < 0 {
		return 0
	}
	return gammaCDF(shape, (x+shift)/scale)
}

// wideShape is the shape from which sums over the series of the gamma distribution, which has about √shape terms
// of weight, are replaced by the Wilson–Hilferty approximation; the relative error there is below 1e-5. From
// normalShape on the distribution is replaced by the normal one with its moments, whose
// relative difference is 1/√shape, where the terms of the CRPS would cancel.
const (
	wideShape   = 1e5
	normalShape = 1e6
)

// gammaCDF is the distribution function of the gamma distribution with shape k > 0 and scale 1. Missing: NaN in, and k ≤ 0
// or infinite, gives NaN.
func gammaCDF(k, x float64) float64 {
	switch {
	case !(k > 0) || math.IsInf(k, 1) || math.IsNaN(x):
		return math.NaN()
	case x <= 0:
		return 0
	case math.IsInf(x, 1):
		return 1
	case k >= 4*normalShape: // beyond all shapes in the formulas of one below normalShape
		return NormalCDF((x - k) / math.Sqrt(k))
	}
	return mathext.GammaIncReg(k, x)
}

// gammaTail is 1 − gammaCDF without cancellation. Missing: as gammaCDF.
func gammaTail(k, x float64) float64 {
	if k > 0 && k < 4*normalShape && x > 0 && !math.IsInf(x, 1) {
		return mathext.GammaIncRegComp(k, x)
	}
	return 1 - gammaCDF(k, x)
}

// gammaQuantile is the p quantile of the gamma distribution with shape k > 0 and scale 1. For small shapes the quantile
// may underflow to 0. Missing: as gammaCDF; NaN for p outside [0, 1].
//
// Near 0 the distribution function is x^k/Γ(k+1).
func gammaQuantile(k, p float64) float64 {
	switch {
	case !(k > 0) || math.IsInf(k, 1) || !(p >= 0 && p <= 1):
		return math.NaN()
	case p == 0:
		return 0
	case p == 1:
		return math.Inf(1)
	case k >= 4*normalShape:
		return math.Max(0, k+math.Sqrt(k)*NormalQuantile(p))
	}
	log, _ := math.Lgamma(k + 1)
	if x := math.Exp((math.Log(p) + log) / k); x < 1e-12 {
		return x
	}
	lo, hi := 0.0, k+1
	for range 64 { // to above the quantile; a tail beyond 700 is 0 in float64
		if gammaCDF(k, hi) >= p || hi > k*4+2000 {
			break
		}
		lo, hi = hi, hi*2
	}
	for range 200 { // bisection, until the ends are neighbours
		mid := lo + (hi-lo)/2
		if mid <= lo || mid >= hi {
			break
		}
		if gammaBelow(k, mid, p) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// gammaBelow reports whether x lies below the p quantile, by the smaller of both tails.
func gammaBelow(k, x, p float64) bool {
	if p > 0.5 {
		return gammaTail(k, x) > 1-p
	}
	return gammaCDF(k, x) < p
}

// CSGammaQuantile is the p quantile of max(G−shift, 0), G gamma distributed.
func CSGammaQuantile(shape, scale, shift, p float64) float64 {
	switch {
	case math.IsNaN(p) || p < 0 || p > 1:
		return math.NaN()
	case p == 1 && shape > 0 && scale > 0 && !math.IsNaN(shift):
		return math.Inf(1)
	}
	return max(0, scale*gammaQuantile(shape, p)-shift)
}

// CSGammaCRPS is the CRPS of max(G−shift, 0) for y, G gamma distributed, with its
// derivatives with respect to shape k, scale θ and shift. With t = (max(y,0)+shift)/θ,
// c = shift/θ, F_k the gamma distribution function and b = Γ(k+½)/(√π Γ(k)):
//
//	crps   = θ g + max(−y, 0)
//	g      = t(2F_k(t)−1) − k(2F_{k+1}(t)−1) − cF_k(c)² + kF_{k+1}(c)² − b(1−F_{2k+1}(2c))
//	dshift = g_t + g_c,  dscale = g − t g_t − c g_c,  g_t = 2F_k(t)−1,  g_c = −F_k(c)²
//	dshape = θ ∂g/∂k, with ∂F_k/∂k from its series
//
// Unit: that of y for scale, shift and score. Missing: NaN in gives NaN, as do shape
// or scale ≤ 0, shift < 0 and infinite parameters.
// Source: Scheuerer and Hamill 2015, doi:10.1175/MWR-D-15-0061.1, eq. 10.
func CSGammaCRPS(shape, scale, shift, y float64) (crps, dshape, dscale, dshift float64) {
	if !(shape > 0 && scale > 0 && shift >= 0) || math.IsInf(shape+scale+shift, 1) || math.IsNaN(y) {
		nan := math.NaN()
		return nan, nan, nan, nan
	}
	k, below := shape, max(-y, 0)
	if k >= normalShape {
		root := math.Sqrt(k)
		crps, dmu, dsigma := CensoredNormalCRPS(k*scale-shift, root*scale, y)
		return crps, scale * (dmu + dsigma/(2*root)), k*dmu + root*dsigma, -dmu
	}
	y = max(y, 0)
	t, c := (y+shift)/scale, shift/scale
	ft, ft1 := gammaCDF(k, t), gammaCDF(k+1, t)
	fc, fc1, fc2 := gammaCDF(k, c), gammaCDF(k+1, c), gammaCDF(2*k+1, 2*c)
	up, _ := math.Lgamma(k + 0.5)
	low, _ := math.Lgamma(k)
	b := math.Exp(up-low) * invSqrtPi
	gt, gc := 2*ft-1, -fc*fc
	g := t*gt - k*(2*ft1-1) + c*gc + k*fc1*fc1 - b*(1-fc2)
	db := b * (mathext.Digamma(k+0.5) - mathext.Digamma(k))
	dk := 2*t*gammaCDFShape(k, t) - (2*ft1 - 1) - 2*k*gammaCDFShape(k+1, t) -
		2*c*fc*gammaCDFShape(k, c) + fc1*fc1 + 2*k*fc1*gammaCDFShape(k+1, c) -
		db*(1-fc2) + 2*b*gammaCDFShape(2*k+1, 2*c)
	return scale*g + below, scale * dk, g - t*gt - c*gc, gt + gc
}

// gammaCDFShape is the derivative of F_k(x) with respect to k, from the series of F_k:
//
//	Σ_n x^{k+n} exp(−x) / Γ(k+n+1) · (log x − ψ(k+n+1))
//
// From wideShape on it is that of the approximation Φ(w), w = 3√k ((x/k)^⅓ − 1 + 1/(9k)).
//
// Cost: at most 1e5 terms. Source: NIST DLMF 8.7.1; Wilson and Hilferty 1931, doi:10.1073/pnas.17.12.684.
func gammaCDFShape(k, x float64) float64 {
	switch {
	case math.IsNaN(k) || math.IsNaN(x):
		return math.NaN()
	case x <= 0 || x > 2*k+80: // where the tail is below 1e-30
		return 0
	case k >= wideShape:
		r, root := math.Cbrt(x/k), math.Sqrt(k)
		w := 3 * root * (r - 1 + 1/(9*k))
		return NormalPDF(w) * (w/(2*k) - (r+1/(3*k))/root)
	}
	log := math.Log(x)
	// Terms of weight lie within about √x of n = x − k.
	n := math.Floor(math.Max(0, x-k-40*math.Sqrt(x)-40))
	first, _ := math.Lgamma(k + n + 1)
	term := (k+n)*log - x - first // logarithm of the weight of n
	var sum float64
	psi := mathext.Digamma(k + n + 1)
	for range 100_000 {
		w := math.Exp(term)
		sum += w * (log - psi)
		n++
		if k+n > x && w*math.Abs(log-psi) < 1e-18 { // beyond the largest weight
			break
		}
		term += log - math.Log(k+n)
		psi += 1 / (k + n)
	}
	return sum
}

// AverageCSGamma averages n distributions: the gamma distribution before the shift has the
// mean of their means and of their standard deviations, and the shift is the mean of the
// shifts. Averaging shapes and scales directly gives a wrong distribution, since a large
// shape with a small scale compensates a small shape with a large scale.
//
// Shape: par [n][shape, scale, shift].
func AverageCSGamma(par [][]float64) []float64 {
	var mean, std, shift float64
	for _, p := range par {
		mean += p[0] * p[1] / float64(len(par))
		std += math.Sqrt(p[0]) * p[1] / float64(len(par))
		shift += p[2] / float64(len(par))
	}
	ratio := mean / std
	return []float64{ratio * ratio, std / ratio, shift}
}

// CSGamma is the family of censored, shifted gamma distributions: max(G−shift, 0), for
// precipitation.
//
//	F(x) = F_k((x+shift)/scale),  x ≥ 0,  F_k the gamma distribution function of shape k
//
// Parameters: shape, scale, shift. Source: Scheuerer and Hamill 2015,
// doi:10.1175/MWR-D-15-0061.1.
var CSGamma = guard(withExcess(&Family{ID: "censored_shifted_gamma", Name: "gamma shifted left and censored at 0", Parameters: []string{"shape", "scale", "shift"},
	Roles: []Role{Invariant, Scale, Scale}, Positive: true,
	CDF:      func(par []float64, x float64) float64 { return CSGammaCDF(par[0], par[1], par[2], x) },
	Quantile: func(par []float64, p float64) float64 { return CSGammaQuantile(par[0], par[1], par[2], p) },
	CRPS: func(grad, par []float64, y float64) float64 {
		crps, dshape, dscale, dshift := CSGammaCRPS(par[0], par[1], par[2], y)
		return fillGradient(grad, crps, dshape, dscale, dshift)
	},
	Moments:   csGammaMoments,
	Average:   func(_ []float64, given [][]float64) []float64 { return AverageCSGamma(given) },
	FLOPs:     2000,
	shortcuts: shortcuts{setStandard: func(par []float64, u float64) { par[0], par[1], par[2] = math.Exp(u/4), 1, par[2]/par[1] }}}, nil, 0, 0, 1))
