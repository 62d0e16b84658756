package score

import "github.com/ensemble-weather/ensemble/postproc/dist"

// CRPSGauss is the continuous ranked probability score of the normal distribution
// with the system's mean m and spread s:
//
//	< s [ z (2Φ(z)−1) + 2φ(z) − 1/√π ] >,  z = (y−m)/s
//
// For an ensemble m and s are the mean and standard deviation of its members (divisor
// M−1). With spread 0 it is the absolute error |m−y|.
//
// Unit: that of the variable. Better: lower.
// Source: Gneiting et al. 2005, doi:10.1175/MWR2904.1, eq. 5.
var CRPSGauss = &Score{
	ID: "crps_gauss", Name: "Gaussian CRPS",
	Formula: "<s(z(2Phi(z)-1)+2phi(z)-1/sqrt(pi))>, z=(y-m)/s",
	Doc:     "CRPS of a normal distribution with the system's mean and spread; comparable between members and distributions.",
	Source:  "doi:10.1175/MWR2904.1",
	Unit:    SameAsVariable, Better: Lower, Divisor: "M-1", NormalOnly: true, Needs: Mean | Spread, MinMembers: 2, Parts: 1,
	Point: func(parts []float64, c *Case) { parts[0] = c.crpsGauss() },
	Value: firstMean,
}

// crpsGauss is the CRPS of N(m, s²) at the case.
func (c *Case) crpsGauss() float64 {
	crps, _, _ := dist.NormalCRPS(c.Mean, c.Spread, c.Obs)
	return crps
}
