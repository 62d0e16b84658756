package dist

import "math"

// The functions of this file compute mean and standard deviation from the parameters.
//
// Source: Johnson, Kotz and Balakrishnan 1994, Continuous univariate distributions, ch. 10,
// 13, 14, 17 and 23; for distributions truncated or censored at 0 by integration of the tails.

// LogisticStd is the standard deviation of the standard logistic distribution, π/√3.
const LogisticStd = math.Pi / 1.7320508075688772935274463415058723669428052538103806

// logNormalMoments: mean exp(mu + sigma²/2), standard deviation mean·√(exp(sigma²)−1).
func logNormalMoments(par []float64) (mean, std float64) {
	v := par[1] * par[1]
	mean = math.Exp(par[0] + v/2)
	return mean, mean * math.Sqrt(math.Expm1(v))
}

// truncatedNormalMoments: with l = −mu/sigma and λ = φ(l)/(1−Φ(l)), the mean is mu + sigma λ
// and the variance sigma²(1 + lλ − λ²). Far below 0 the distribution is exponential with
// mean sigma/l.
func truncatedNormalMoments(par []float64) (mean, std float64) {
	mu, sigma := par[0], par[1]
	l := -mu / sigma
	switch {
	case l > exponentialBelow:
		return sigma / l, sigma / l
	case l > millsBelow:
		h := 1 / mills(l)
		return sigma * (h - l), sigma * math.Sqrt(max(0, 1-h*(h-l)))
	}
	h := NormalPDF(l) / NormalCDF(-l)
	return mu + sigma*h, sigma * math.Sqrt(max(0, 1-h*(h-l)))
}

// censoredNormalMoments: with u = mu/sigma, E = muΦ(u) + sigmaφ(u) and
// E² = (mu²+sigma²)Φ(u) + mu sigma φ(u), the first and second raw moments.
func censoredNormalMoments(par []float64) (mean, std float64) {
	mu, sigma := par[0], par[1]
	p, d := NormalCDF(mu/sigma), NormalPDF(mu/sigma)
	return fromRawMoments(mu*p+sigma*d, (mu*mu+sigma*sigma)*p+mu*sigma*d)
}

// zeroNormalMoments: the raw moments of the truncated normal distribution times its probability 1−p.
func zeroNormalMoments(par []float64) (mean, std float64) {
	m, s := truncatedNormalMoments(par[1:])
	return fromRawMoments((1-par[0])*m, (1-par[0])*(m*m+s*s))
}

// censoredLogisticMoments: with u = mu/s, E = s log(1+exp(u)) and E² = −2s² Li₂(−exp(u)).
func censoredLogisticMoments(par []float64) (mean, std float64) {
	mu, s := par[0], par[1]
	_, k := logisticTail(-mu / s)
	return fromRawMoments(s*k, 2*s*s*negativeDilogarithm(mu/s))
}

// truncatedLogisticMoments: the raw moments of the censored distribution divided by the
// probability above 0. Far below 0 the distribution is exponential with mean s.
func truncatedLogisticMoments(par []float64) (mean, std float64) {
	mu, s := par[0], par[1]
	if mu/s < -logisticFar {
		return s, s
	}
	p, k := logisticTail(-mu / s)
	return fromRawMoments(s*k/p, 2*s*s*negativeDilogarithm(mu/s)/p)
}

// csGammaMoments: with c = shift/scale, k the shape and S_k the gamma tail beyond c, the raw
// moments are
//
//	E  = θkS_{k+1} − shift S_k
//	E² = θ²k(k+1)S_{k+2} − 2 shift θkS_{k+1} + shift²S_k
func csGammaMoments(par []float64) (mean, std float64) {
	k, theta, shift := par[0], par[1], par[2]
	if k >= normalShape {
		return censoredNormalMoments([]float64{k*theta - shift, math.Sqrt(k) * theta})
	}
	c := shift / theta
	s0, s1, s2 := gammaTail(k, c), gammaTail(k+1, c), gammaTail(k+2, c)
	return fromRawMoments(theta*k*s1-shift*s0, theta*theta*k*(k+1)*s2-2*shift*theta*k*s1+shift*shift*s0)
}

// fromRawMoments returns mean and standard deviation from the raw moments E and E².
func fromRawMoments(e, e2 float64) (mean, std float64) {
	v := e2 - e*e
	if v < 0 { // rounding; NaN passes
		v = 0
	}
	return e, math.Sqrt(v)
}

// negativeDilogarithm is −Li₂(−eᵘ) = ∫₀^∞ w/(1+exp(w−u)) dw. For u > 0 it uses the inversion
// formula, then Landen's identity
//
//	−Li₂(−x) = Li₂(x/(1+x)) + ½ log²(1+x)
//
// whose series converges fast for x/(1+x) ≤ ½.
//
// Source: NIST DLMF 25.12.
func negativeDilogarithm(u float64) float64 {
	if u > 0 {
		return math.Pi*math.Pi/6 + u*u/2 - negativeDilogarithm(-u)
	}
	x := math.Exp(u)
	z := x / (1 + x)
	sum, term := 0.0, 1.0
	for n := 1.0; n < 60; n++ { // z ≤ ½
		term *= z
		sum += term / (n * n)
	}
	log := math.Log1p(x)
	return sum + log*log/2
}
