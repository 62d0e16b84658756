package score

import "math"

// LogGauss is the logarithmic score (negative log-likelihood) of the normal distribution
// with the system's mean m and spread s, in nats:
//
//	< z²/2 + log(s √(2π)) >,  z = (y−m)/s
//
// Its value depends on the unit of the variable. It is infinite where the spread is 0.
//
// Unit: nats. Better: lower.
// Source: Good 1952; Gneiting and Raftery 2007, doi:10.1198/016214506000001437.
var LogGauss = &Score{
	ID: "log_gauss", Name: "Gaussian logarithmic score", Formula: "<z^2/2 + log(s sqrt(2 pi))>, z=(y-m)/s",
	Doc:    "Negative log density at the reference; penalises overconfident misses without bound.",
	Source: "doi:10.1198/016214506000001437",
	Unit:   Dimensionless, Better: Lower, NoSkillScore: true, NormalOnly: true, Divisor: "M-1", Needs: Mean | Spread, MinMembers: 2, Parts: 1,
	Point: func(parts []float64, c *Case) {
		z := (c.Obs - c.Mean) / c.Spread
		if c.Spread == 0 {
			z = math.Inf(1)
		}
		parts[0] = z*z/2 + math.Log(math.Max(c.Spread, math.SmallestNonzeroFloat64)) + 0.5*math.Log(2*math.Pi)
	},
	Value: firstMean,
}
