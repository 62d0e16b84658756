package score

import "github.com/ensemble-weather/ensemble/postproc/dist"

// CRPSPlain is the CRPS of the empirical distribution of M members:
//
//	< (1/M) Σᵢ|xᵢ−y| − 1/(2M²) ΣᵢΣⱼ|xᵢ−xⱼ| >
//
// It depends on M: the expectation for a calibrated ensemble is 1+1/M times that of an
// infinite one. Ensembles of different size do not compare.
//
// Unit: that of the variable. Better: lower.
// Source: Gneiting and Raftery 2007, doi:10.1198/016214506000001437; Ferro et al. 2008,
// doi:10.1002/met.45 (dependence on M).
var CRPSPlain = &Score{
	ID: "crps_plain", Name: "CRPS of the members, plain",
	Formula: "<mean_i|x_i-y| - 1/(2 M^2) sum_ij|x_i-x_j|>",
	Doc:     "CRPS of the members as they are issued; depends on their number M.",
	Source:  "doi:10.1198/016214506000001437",
	Unit:    SameAsVariable, Better: Lower, Divisor: "M^2", Needs: Members, MinMembers: 1, Parts: 1,
	Point: func(parts []float64, c *Case) { parts[0] = dist.KernelCRPS(c.Members, c.Obs, dist.Plain) },
	Value: firstMean,
}
