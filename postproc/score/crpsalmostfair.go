package score

import "github.com/ensemble-weather/ensemble/postproc/dist"

// CRPSAlmostFair is 0.95 of the fair and 0.05 of the plain CRPS of M members:
//
//	< (1/M) Σᵢ|xᵢ−y| − (1−ε)/(2M(M−1)) ΣᵢΣⱼ|xᵢ−xⱼ| >,  ε = 0.05/M
//
// It is the loss with which members are trained; as a score it stands beside the fair
// one.
//
// Unit: that of the variable. Better: lower.
// Source: Lang et al. 2024, arXiv:2412.15832.
var CRPSAlmostFair = &Score{
	ID: "crps_almost_fair", Name: "CRPS of the members, almost fair",
	Formula: "<mean_i|x_i-y| - (1-e)/(2 M (M-1)) sum_ij|x_i-x_j|>, e=0.05/M",
	Doc:     "The loss of networks that make members, as a score.",
	Source:  "arXiv:2412.15832",
	Unit:    SameAsVariable, Better: Lower, Divisor: "M(M-1)/(1-e)", Needs: Members, MinMembers: 2, Parts: 1,
	Point: func(parts []float64, c *Case) { parts[0] = dist.KernelCRPS(c.Members, c.Obs, almostFair) },
	Value: firstMean,
}

var almostFair = dist.AlmostFair(0.95)
