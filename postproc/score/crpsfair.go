package score

import "github.com/ensemble-weather/ensemble/postproc/dist"

// CRPSFair is the fair CRPS of M members:
//
//	< (1/M) Σᵢ|xᵢ−y| − 1/(2M(M−1)) ΣᵢΣⱼ|xᵢ−xⱼ| >
//
// Its expectation does not depend on M, so ensembles of different size compare. This
// holds for members that are independent draws. Dependent members, such as jointly
// post-processed ones, can improve the score by too much spread: use CRPSPlain.
//
// Unit: that of the variable. Better: lower; single values may be negative.
// Source: Ferro 2014, doi:10.1002/qj.2270.
var CRPSFair = &Score{
	ID: "crps_fair", Name: "CRPS of the members, fair",
	Formula: "<mean_i|x_i-y| - 1/(2 M (M-1)) sum_ij|x_i-x_j|>",
	Doc:     "CRPS of an infinite ensemble of such members; needs independent members.",
	Source:  "doi:10.1002/qj.2270",
	Unit:    SameAsVariable, Better: Lower, Divisor: "M(M-1)", Needs: Members, MinMembers: 2, Parts: 1,
	Point: func(parts []float64, c *Case) { parts[0] = dist.KernelCRPS(c.Members, c.Obs, dist.Fair) },
	Value: firstMean,
}
