package dist

import "math"

// ZeroNormalCDF is the distribution function at x of the zero-inflated truncated normal
// distribution: 0 with probability p, otherwise N(mu, sigma²) truncated below at 0.
func ZeroNormalCDF(p, mu, sigma, x float64) float64 {
	if x < 0 {
		return 0
	}
	return p + (1-p)*TruncatedNormalCDF(mu, sigma, x)
}

// ZeroNormalQuantile is the q quantile of the zero-inflated truncated normal distribution.
func ZeroNormalQuantile(p, mu, sigma, q float64) float64 {
	if q <= p {
		return 0
	}
	return TruncatedNormalQuantile(mu, sigma, (q-p)/(1-p))
}

// ZeroNormalCRPS is the CRPS of the zero-inflated truncated normal distribution for y, with
// its derivatives with respect to p, mu and sigma; mu and sigma are those of the parent.
// With r = 1−p and z, l, A, B, h, D as in TruncatedNormalCRPS:
//
//	crps   = sigma g + max(−y, 0)
//	g      = z(1−2rA) − lp² + 2r(B−h) + r²(2h−D)
//	g_z    = 1 − 2rA,  g_p = 2u − 2rv,  g_l = −p² − h(2ru − 2r²v)
//	u      = h − l − B + zA,  v = 2h − l − D
//	dp     = sigma g_p,  dmu = −(g_z+g_l),  dsigma = g − z g_z − l g_l
//
// p = 0 is the truncated normal distribution, p = Φ(l) the censored one.
//
// Unit: that of y. Missing: NaN in gives NaN, as do sigma ≤ 0 and p outside [0, 1].
// Source: Pic et al. 2024, arXiv:2407.02125.
func ZeroNormalCRPS(p, mu, sigma, y float64) (crps, dp, dmu, dsigma float64) {
	if !(sigma > 0 && p >= 0 && p <= 1) || math.IsNaN(mu) || math.IsNaN(y) {
		nan := math.NaN()
		return nan, nan, nan, nan
	}
	below, r := max(-y, 0), 1-p
	y = max(y, 0)
	l, z := -mu/sigma, (y-mu)/sigma
	if l > exponentialBelow { // the part above 0 is exponential with mean tau
		tau := sigma / -mu * sigma
		q := y / tau
		e := math.Exp(-q)
		qe := 0.0
		if e != 0 {
			qe = q * e
		}
		dtau := -2*r*(1-e-qe) + r*r/2
		return y - 2*r*tau*(1-e) + r*r*tau/2 + below, 2*tau*(1-e) - r*tau, dtau * tau / -mu, dtau * 2 * (sigma / -mu)
	}
	c := newTruncation(l, z)
	u, v := c.h-l-c.b, 2*c.h-l-c.d
	if c.a != 0 {
		u += z * c.a
	}
	gz := 1 - 2*r*c.a
	gl := -p*p - c.h*(2*r*u-2*r*r*v)
	if c.h == 0 { // no mass below 0
		gl = -p * p
	}
	g := z*gz - l*p*p + 2*r*(c.b-c.h) + r*r*(2*c.h-c.d)
	return sigma*g + below, sigma * (2*u - 2*r*v), -(gz + gl), g - z*gz - l*gl
}

// ZeroNormal is the family of zero-inflated truncated normal distributions:
//
//	F(x) = p + (1−p) F_T(x),  x ≥ 0,  F_T of TruncatedNormal
//
// Parameters: p, and mu, sigma of the parent. Source: Pic et al. 2024, arXiv:2407.02125.
var ZeroNormal = guard(&Family{ID: "zero_normal", Name: "truncated normal with a probability of 0", Parameters: []string{"p", "mu", "sigma"},
	Roles: []Role{Invariant, Location, Scale}, Positive: true,
	CDF:      func(par []float64, x float64) float64 { return ZeroNormalCDF(par[0], par[1], par[2], x) },
	Quantile: func(par []float64, p float64) float64 { return ZeroNormalQuantile(par[0], par[1], par[2], p) },
	CRPS: func(grad, par []float64, y float64) float64 {
		crps, dp, dmu, dsigma := ZeroNormalCRPS(par[0], par[1], par[2], y)
		return fillGradient(grad, crps, dp, dmu, dsigma)
	},
	Moments: zeroNormalMoments,
	shortcuts: shortcuts{setMoments: func(par []float64, mean, std float64) {
		CensoredNormal.SetMoments(par[1:], mean, std)
		par[0] = NormalCDF(-par[1] / par[2])
	}}})
