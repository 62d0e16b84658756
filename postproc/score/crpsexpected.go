package score

import (
	"math"

	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// CRPSExpected is the expected CRPS of a forecast if the observation were a draw from
// it: half the mean difference ½E|X−X'| of its distribution.
//
//	s/√π for a normal distribution, Σᵢⱼ|xᵢ−xⱼ| / (2M(M−1)) for members;
//	for other families where dist.Family has HalfMeanDifference
//
// For a calibrated forecast it is the CRPS to expect. It does not depend on the
// observation and measures sharpness.
//
// Unit: that of the variable. Better: neither.
// Source: Gneiting and Raftery 2007, doi:10.1198/016214506000001437, section 4.2.
var CRPSExpected = &Score{
	ID: "crps_expected", Name: "expected CRPS of the forecast", Formula: "<E|X-X'|/2>: of a normal distribution s/sqrt(pi), of members sum_ij|x_i-x_j|/(2 M(M-1))",
	Doc:    "CRPS to expect if the reference were a draw from the forecast; a measure of sharpness.",
	Source: "doi:10.1198/016214506000001437",
	Unit:   SameAsVariable, Better: Neither, Divisor: "M(M-1)", Needs: Spread | Distribution, MinMembers: 2, NeedsExpectedCRPS: true, Parts: 1,
	Point: func(parts []float64, c *Case) { parts[0] = c.expectedCRPS() },
	Value: firstMean,
}

// CRPSOverExpected is the CRPS (of members the fair CRPS) divided by CRPSExpected. It
// is 1 on average for calibrated forecasts. Values above 1 mean that errors are larger
// than forecast: the forecast is underdispersive or biased.
//
// Unit: none. Better: near 1. Source: as CRPSExpected.
var CRPSOverExpected = &Score{
	ID: "crps_over_expected", Name: "CRPS over its expectation", Formula: "crps_gauss or crps_family/crps_expected; of members crps_fair/crps_expected",
	Doc:    "1 if calibrated; above 1 underdispersive or biased.",
	Source: "doi:10.1198/016214506000001437",
	Unit:   Dimensionless, Better: One, Divisor: "M(M-1)", Needs: Mean | Spread | Distribution, MinMembers: 2, NeedsExpectedCRPS: true, Parts: 2,
	Point: func(parts []float64, c *Case) {
		if len(c.Members) > 0 {
			parts[0] = dist.KernelCRPS(c.Members, c.Obs, dist.Fair)
		} else if c.Family != nil {
			parts[0] = c.Family.CRPS(nil, c.Parameters, c.Obs)
		} else {
			parts[0], _, _ = dist.NormalCRPS(c.Mean, c.Spread, c.Obs)
		}
		parts[1] = c.expectedCRPS()
	},
	Value: func(mean []float64, _ int) float64 { return mean[0] / mean[1] },
}

// expectedCRPS is ½E|X−X'| of the members, of the family, or of a normal distribution.
func (c *Case) expectedCRPS() float64 {
	if len(c.Members) > 0 {
		return dist.HalfMeanDifference(c.Members)
	}
	if c.Family != nil {
		return c.Family.HalfMeanDifference(c.Parameters)
	}
	return c.Spread / math.Sqrt(math.Pi)
}
