package dist

import (
	"math"
	"sync/atomic"

	"gonum.org/v1/gonum/mathext"
)

// normalDegrees is the number of degrees of freedom from which Student's t distribution is
// replaced by the normal one; the difference is less than 1e-7.
const normalDegrees = 1e7

// leastDegrees is the number of degrees of freedom below which there is no distribution left: all mass lies at infinity.
const leastDegrees = 1e-300

// StudentCDF is the distribution function at z of Student's t distribution with nu > 0
// degrees of freedom; nu = ∞ is the standard normal distribution. The tail beyond |z| is
// ½ I_x(nu/2, ½) at x = nu/(nu+z²), with the regularised incomplete beta function I.
//
// Missing: NaN in gives NaN. Source: Abramowitz and Stegun 1964, 26.7.1.
func StudentCDF(nu, z float64) float64 {
	switch {
	case nu >= normalDegrees:
		return NormalCDF(z)
	case math.IsNaN(z) || !(nu >= leastDegrees):
		return math.NaN()
	case math.IsInf(z, 0):
		return NormalCDF(z)
	}
	var tail float64
	if z2 := z * z; z2 < nu { // by 1 − x, without cancellation
		tail = 0.5 - 0.5*mathext.RegIncBeta(0.5, nu/2, z2/(nu+z2))
	} else {
		tail = 0.5 * mathext.RegIncBeta(nu/2, 0.5, nu/(nu+z2))
	}
	if z > 0 {
		return 1 - tail
	}
	return tail
}

// StudentQuantile is the inverse of StudentCDF; NaN outside [0, 1].
func StudentQuantile(nu, p float64) float64 {
	switch {
	case nu >= normalDegrees:
		return NormalQuantile(p)
	case !(nu >= leastDegrees) || !(p >= 0 && p <= 1):
		return math.NaN()
	case p > 0.5:
		return -StudentQuantile(nu, 1-p)
	case p == 0:
		return math.Inf(-1)
	case p > 0.25: // x below is near 1: use 1 − x
		y := mathext.InvRegIncBeta(0.5, nu/2, 1-2*p)
		return -math.Sqrt(nu * y / (1 - y))
	}
	x := mathext.InvRegIncBeta(nu/2, 0.5, 2*p)
	return -math.Sqrt(nu * (1 - x) / x)
}

// studentDensity is the density of Student's t distribution at z.
func studentDensity(nu, z float64) float64 {
	return math.Exp(-mathext.Lbeta(0.5, nu/2)-(nu+1)/2*math.Log1p(z*z/nu)) / math.Sqrt(nu)
}

// studentHalfMeanDifference is ½E|X−X'| of Student's t distribution,
//
//	2√nu/(nu−1) · B(½, nu−½)/B(½, nu/2)²
func studentHalfMeanDifference(nu float64) float64 {
	if nu >= normalDegrees {
		return 1 / math.Sqrt(math.Pi)
	}
	return 2 * math.Sqrt(nu) / (nu - 1) * math.Exp(mathext.Lbeta(0.5, nu-0.5)-2*mathext.Lbeta(0.5, nu/2))
}

// StudentCRPS is the CRPS of mu + sigma·T for y, where T has Student's t distribution with
// nu > 1 degrees of freedom, with its derivatives. With z = (y−mu)/sigma, F and f of T, and
// h = studentHalfMeanDifference(nu):
//
//	crps = sigma [ z(2F(z)−1) + 2f(z)(nu+z²)/(nu−1) − h ]
//	dmu  = 1 − 2F(z),  dsigma = crps/sigma − z(2F(z)−1)
//
// Unit: that of y. Missing: NaN in gives NaN, as do sigma ≤ 0 and nu ≤ 1, whose CRPS is infinite.
// Source: Jordan, Krüger and Lerch 2019, doi:10.18637/jss.v090.i12, appendix A.
func StudentCRPS(mu, sigma, nu, y float64) (crps, dmu, dsigma float64) {
	switch {
	case !(sigma > 0) || !(nu > 1) || math.IsNaN(y-mu):
		return math.NaN(), math.NaN(), math.NaN()
	case nu >= normalDegrees:
		return NormalCRPS(mu, sigma, y)
	}
	z := (y - mu) / sigma
	dy := 2*StudentCDF(nu, z) - 1
	dsigma = 2*studentDensity(nu, z)*(nu+z*z)/(nu-1) - studentHalfMeanDifference(nu)
	return sigma * (z*dy + dsigma), -dy, dsigma
}

// studentByNu is the derivative of StudentCRPS with respect to nu, by a central difference with an error near 1e-9.
func studentByNu(mu, sigma, nu, y float64) float64 {
	step := 1e-4 * (nu - 1)
	up, _, _ := StudentCRPS(mu, sigma, nu+step, y)
	down, _, _ := StudentCRPS(mu, sigma, nu-step, y)
	return (up - down) / (2 * step)
}

// studentMoments returns mu and the standard deviation sigma √(nu/(nu−2)), infinite for nu ≤ 2.
func studentMoments(par []float64) (mean, std float64) {
	return par[0], par[1] * StudentStd(par[2])
}

// StudentStd is the standard deviation √(nu/(nu−2)) of Student's t distribution; infinite for nu ≤ 2.
func StudentStd(nu float64) float64 {
	switch {
	case math.IsInf(nu, 1):
		return 1
	case nu <= 2:
		return math.Inf(1)
	}
	return math.Sqrt(nu / (nu - 2))
}

// Student is the family of Student's t distributions with a location and a scale: mu + sigma·T.
//
// Parameters: mu, sigma, nu (degrees of freedom). Source: Jordan, Krüger and Lerch 2019, doi:10.18637/jss.v090.i12 (CRPS).
var Student = guard(&Family{ID: "student", Name: "Student's t", Parameters: []string{"mu", "sigma", "nu"}, Roles: []Role{Location, Scale, Invariant},
	CDF:      func(par []float64, x float64) float64 { return StudentCDF(par[2], (x-par[0])/par[1]) },
	Quantile: func(par []float64, p float64) float64 { return par[0] + par[1]*StudentQuantile(par[2], p) },
	CRPS: func(grad, par []float64, y float64) float64 {
		crps, dmu, dsigma := StudentCRPS(par[0], par[1], par[2], y)
		if grad == nil {
			return crps
		}
		return fillGradient(grad, crps, dmu, dsigma, studentByNu(par[0], par[1], par[2], y))
	},
	Moments:            studentMoments,
	HalfMeanDifference: func(par []float64) float64 { return par[1] * studentHalfMeanDifference(par[2]) },
	shortcuts: shortcuts{
		setMoments: func(par []float64, mean, std float64) { par[0], par[1] = mean, std/StudentStd(par[2]) },
		quantileFunc: func(p float64) func(par []float64) float64 { // caches the last nu, since all points of a field share it
			type known struct{ nu, z float64 }
			var last atomic.Pointer[known]
			return func(par []float64) float64 {
				k := last.Load()
				if k == nil || k.nu != par[2] {
					k = &known{par[2], StudentQuantile(par[2], p)}
					last.Store(k)
				}
				return par[0] + par[1]*k.z
			}
		},
	}})
