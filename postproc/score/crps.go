package score

import "github.com/ensemble-weather/ensemble/postproc/dist"

// CRPSGauss is the continuous ranked probability score of the normal
// distribution with the system's mean m and spread s:
//
//	< s [ z (2Φ(z)−1) + 2φ(z) − 1/√π ] >,  z = (y−m)/s
//
// For raw members m and s are their mean and standard deviation (divisor M−1).
// Zero spread scores the distance |m−y|.
//
// Unit: that of the variable. Better: lower.
// Source: Gneiting et al. 2005, doi:10.1175/MWR2904.1.
var CRPSGauss = &Score{
	ID: "crps_gauss", Name: "Gaussian CRPS",
	Formula: "<s(z(2Phi(z)-1)+2phi(z)-1/sqrt(pi))>, z=(y-m)/s",
	Doc:     "CRPS of a normal distribution with the system's mean and spread; comparable between members and distributions.",
	Source:  "doi:10.1175/MWR2904.1",
	Unit:    SameAsVariable, Better: Lower, Needs: Mean | Spread, MinMembers: 2, Parts: 1,
	Point: func(parts []float64, c *Case) { parts[0], _, _ = dist.NormalCRPS(c.Mean, c.Spread, c.Obs) },
	Value: single,
}

// CRPSPlain is the CRPS of the empirical distribution of M members:
//
//	< (1/M) Σᵢ|xᵢ−y| − 1/(2M²) ΣᵢΣⱼ|xᵢ−xⱼ| >
//
// It falls as members are added, by the factor (1+1/M) of a calibrated ensemble;
// so ensembles of different size do not compare.
//
// Unit: that of the variable. Better: lower.
// Source: Gneiting and Raftery 2007, doi:10.1198/016214506000001437.
var CRPSPlain = &Score{
	ID: "crps_plain", Name: "CRPS of the members, plain",
	Formula: "<mean_i|x_i-y| - 1/(2 M^2) sum_ij|x_i-x_j|>",
	Doc:     "CRPS of the members as they are issued; depends on their number M.",
	Source:  "doi:10.1198/016214506000001437",
	Unit:    SameAsVariable, Better: Lower, Needs: Members, MinMembers: 1, Parts: 1,
	Point: func(parts []float64, c *Case) { parts[0] = dist.KernelCRPS(c.Members, c.Obs, dist.Plain) },
	Value: single,
}

// CRPSFair is the fair CRPS of M members:
//
//	< (1/M) Σᵢ|xᵢ−y| − 1/(2M(M−1)) ΣᵢΣⱼ|xᵢ−xⱼ| >
//
// Its expectation does not depend on M, if the members are independent draws:
// members that were made to know each other are rewarded for too much spread.
//
// Unit: that of the variable. Better: lower; single values may be negative.
// Source: Ferro 2014, doi:10.1002/qj.2270.
var CRPSFair = &Score{
	ID: "crps_fair", Name: "CRPS of the members, fair",
	Formula: "<mean_i|x_i-y| - 1/(2 M (M-1)) sum_ij|x_i-x_j|>",
	Doc:     "CRPS that an ensemble of infinitely many such members would have; needs members that are independent draws.",
	Source:  "doi:10.1002/qj.2270",
	Unit:    SameAsVariable, Better: Lower, Needs: Members, MinMembers: 2, Parts: 1,
	Point: func(parts []float64, c *Case) { parts[0] = dist.KernelCRPS(c.Members, c.Obs, dist.Fair) },
	Value: single,
}
