package skill

import (
	"math"

	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// Theory is the expected decomposition in a Gaussian model: the observation is N(0, sigma²) about
// an unbounded signal, the M members are draws of N(bias, spread²), slope 1, and the model
// explains a share of the error variance that the signal leaves. Dispersed is not given.
//
// With A(d,v) = E|X|, X ~ N(d, v²):
//
//	F  = A(bias, √(sigma²+spread²)) − spread/√π,   S₀ = F + spread/(M√π)
//	S₁ = E[ A(bias, √(sigma²+spread²/M+t²)) − t/√π ],  t² = s²(1+1/M),  S₂ with bias 0
//	S₃ = S₄ = √((sigma²+spread²/M)/π),  S₅ = √((1−explained) sigma²/π)
//
// The expectation is over s², χ² with M−1 degrees of freedom, by Simpson's rule to 1e-9.
// If members have the distribution of the observation (perfect), the spread has no information
// and S₃ is the same formula. Without a season, and fitted to many dates, S₄ is S₃.
func Theory(bias, spread, sigma float64, m int, explained float64) Scores {
	n := float64(m)
	var s Scores
	s.Fair = meanDistance(bias, math.Hypot(sigma, spread)) - spread/math.Sqrt(math.Pi)
	s.Reference = s.Fair + spread/(n*math.Sqrt(math.Pi))
	over := func(bias float64) float64 {
		return overSpread(m, func(q float64) float64 { // s = spread·q
			t := spread * q * math.Sqrt(1+1/n)
			return meanDistance(bias, math.Sqrt(sigma*sigma+spread*spread/n+t*t)) - t/math.Sqrt(math.Pi)
		})
	}
	s.FiniteSize, s.Unbiased = over(bias), over(0)
	s.Calibrated = math.Sqrt((sigma*sigma + spread*spread/n) / math.Pi)
	s.Seasonal = s.Calibrated
	s.Model = sigma * math.Sqrt((1-explained)/math.Pi)
	s.Expected = s.Model
	// The right spread τ of members has τ²(1+1/M) = sigma² + spread²/M; then members and truth
	// are draws of one distribution around the mean, and fair and expected CRPS agree.
	s.PerfectModel = spread / math.Sqrt(math.Pi)
	s.FairUnbiased = meanDistance(0, math.Hypot(sigma, spread)) - s.PerfectModel
	s.FairCalibrated = math.Sqrt((sigma*sigma + spread*spread/n) / (1 + 1/n) / math.Pi)
	s.PerfectModelCalibrated = s.FairCalibrated
	return s
}

// meanDistance is E|X| of X ~ N(d, v²): v√(2/π) exp(−d²/2v²) + d erf(d/(v√2)).
func meanDistance(d, v float64) float64 {
	return 2*v*dist.NormalPDF(d/v) + d*math.Erf(d/(v*math.Sqrt2))
}

// overSpread is the expectation of f(s/σ) for the standard deviation s, divisor M−1, of M
// normal values: (M−1)s²/σ² is χ² with M−1 degrees of freedom.
func overSpread(m int, f func(q float64) float64) float64 {
	k := float64(m - 1)
	log, _ := math.Lgamma(k / 2)
	density := func(q float64) float64 { // of q
		if q == 0 {
			return 0
		}
		return math.Exp(math.Ln2 + k/2*math.Log(k/2) - log + (k-1)*math.Log(q) - k*q*q/2)
	}
	if k == 1 { // the density does not vanish at 0
		first := density
		density = func(q float64) float64 { return first(math.Max(q, 1e-300)) }
	}
	const steps = 4000
	end := 1 + 9/math.Sqrt(k)
	h := end / steps
	var sum float64
	for i := range steps + 1 {
		w := 2 + 2*float64(i%2)
		if i == 0 || i == steps {
			w = 1
		}
		q := float64(i) * h
		sum += w * density(q) * f(q)
	}
	return sum * h / 3
}
