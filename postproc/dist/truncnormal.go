package dist

import "math"

// millsBelow and exponentialBelow are distances of the parent's mean below 0 in units of
// sigma. From millsBelow on, the truncated normal is computed by Mills ratios, since
// normal tail probabilities underflow near 38 and their squares near 26. From
// exponentialBelow on, it is replaced by its limit, the exponential distribution. The
// relative error there is about 1e-5, as is the cancellation error of the other form.
const (
	millsBelow       = 20
	exponentialBelow = 300
)

// TruncatedNormalCDF is the distribution function at x of N(mu, sigma²) truncated below at
// 0; mu and sigma are those of the parent.
func TruncatedNormalCDF(mu, sigma, x float64) float64 {
	if x < 0 {
		return 0
	}
	l, z := -mu/sigma, (x-mu)/sigma
	if l > millsBelow {
		return 1 - math.Exp(-0.5*(z-l)*(z+l))*mills(z)/mills(l)
	}
	return 1 - NormalCDF(-z)/NormalCDF(-l)
}

// TruncatedNormalQuantile is the p quantile of N(mu, sigma²) truncated below at 0; mu and
// sigma are those of the parent.
func TruncatedNormalQuantile(mu, sigma, p float64) float64 {
	l := -mu / sigma
	if l > millsBelow { // solve −(z²−l²)/2 + log(mills(z)/mills(l)) = log(1−p) by two Newton steps from the exponential limit
		u := -math.Log1p(-p) / l
		for range 2 {
			log := -0.5*u*(u+2*l) + math.Log(mills(l+u)/mills(l)) - math.Log1p(-p)
			u += log * mills(l+u)
		}
		return sigma * u
	}
	// By the upper tail, which is accurate for mu far below 0.
	return max(0, mu-sigma*NormalQuantile((1-p)*NormalCDF(-l)))
}

// TruncatedNormalCRPS is the CRPS of N(mu, sigma²) truncated below at 0 for y, with its
// derivatives; mu and sigma are those of the parent. With z = (max(y,0)−mu)/sigma,
// l = −mu/sigma, p = 1−Φ(l), A = (1−Φ(z))/p, B = φ(z)/p, h = φ(l)/p and
// D = (1−Φ(√2 l))/(√π p²):
//
//	crps   = sigma g + max(−y, 0),  g = z (1−2A) + 2B − D
//	dmu    = −(g_z + g_l),  dsigma = g − z g_z − l g_l
//	g_z    = 1 − 2A,  g_l = 2h (B − zA + h − D)
//
// Unit: that of y. Missing: NaN in gives NaN; sigma < 0 gives NaN; sigma = 0 is
// the point mass at max(mu, 0).
// Source: Thorarinsdottir and Gneiting 2010, doi:10.1111/j.1467-985X.2009.00616.x.
func TruncatedNormalCRPS(mu, sigma, y float64) (crps, dmu, dsigma float64) {
	return nonNegativeCRPS(mu, sigma, y, NormalCRPS, truncatedNormal)
}

// truncatedNormal is TruncatedNormalCRPS for sigma > 0 and y ≥ 0.
func truncatedNormal(mu, sigma, y float64) (crps, dmu, dsigma float64) {
	l, z := -mu/sigma, (y-mu)/sigma
	if l > exponentialBelow {
		return exponentialLimit(mu, sigma, y)
	}
	c := newTruncation(l, z)
	a, b, h, d := c.a, c.b, c.h, c.d
	gz := 1 - 2*a
	var gl, lgl float64 // 0 if no mass lies below 0, even with z = −Inf
	if h != 0 {
		gl = 2 * h * (b - z*a + h - d)
		if a == 0 {
			gl = 2 * h * (h - d)
		}
		lgl = l * gl
	}
	crps = (y-mu)*gz + sigma*(2*b-d)
	dmu = -(gz + gl)
	dsigma = 2*b - d - lgl // g − z g_z − l g_l, in which z cancels
	return crps, dmu, dsigma
}

// truncation holds the terms of the CRPS of a normal distribution truncated below at l, divided by
// the mass above l: the tail and the density at z, the density at l, and
// (1−Φ(√2 l))/√π divided by the mass squared.
type truncation struct{ a, b, h, d float64 }

// newTruncation computes the terms without underflow for l ≤ exponentialBelow.
func newTruncation(l, z float64) truncation {
	if l > millsBelow {
		e, r := math.Exp(-0.5*(z-l)*(z+l)), mills(l)
		return truncation{e * mills(z) / r, e / r, 1 / r, math.Sqrt2 * mills(math.Sqrt2*l) / (r * r)}
	}
	p := NormalCDF(-l)
	return truncation{NormalCDF(-z) / p, NormalPDF(z) / p, NormalPDF(l) / p, invSqrtPi * NormalCDF(-math.Sqrt2*l) / (p * p)}
}

// exponentialLimit is TruncatedNormalCRPS for a parent with its mean far below 0: the remaining
// distribution is exponential with mean τ = sigma²/(−mu).
//
//	crps = y − 2τ(1−exp(−y/τ)) + τ/2
func exponentialLimit(mu, sigma, y float64) (crps, dmu, dsigma float64) {
	tau := sigma / -mu * sigma
	q := y / tau
	e := math.Exp(-q)
	crps = y - 2*tau*(1-e) + tau/2
	qe := 0.0
	if e != 0 {
		qe = q * e
	}
	dtau := -1.5 + 2*e + 2*qe
	return crps, dtau * tau / -mu, dtau * 2 * (sigma / -mu)
}

// mills is the Mills ratio (1−Φ(x))/φ(x) for x ≥ 20, by ten terms of its continued fraction
//
//	1/(x+1/(x+2/(x+3/(x+…))))
//
// which give full precision there.
func mills(x float64) float64 {
	f := x
	for k := 10; k > 0; k-- {
		f = x + float64(k)/f
	}
	return 1 / f
}

// TruncatedNormal is the family of normal distributions truncated below at 0, for wind speed.
//
//	F(x) = (Φ((x−mu)/sigma) − Φ(−mu/sigma)) / (1 − Φ(−mu/sigma)),  x ≥ 0
//
// Parameters: mu, sigma of the parent. Source: Thorarinsdottir and Gneiting 2010,
// doi:10.1111/j.1467-985X.2009.00616.x.
var TruncatedNormal = guard(nonNegative(twoParameters("truncated_normal", "normal truncated below at 0",
	TruncatedNormalCDF, TruncatedNormalQuantile, TruncatedNormalCRPS), normalUnit, truncatedNormalMoments))
