package score

import "github.com/ensemble-weather/ensemble/postproc/dist"

// CRPSAlmostFair is 0.95 times the fair plus 0.05 times the plain CRPS of M members:
//
//	< (1/M) Σᵢ|xᵢ−y| − (1−ε)/(2M(M−1)) ΣᵢΣⱼ|xᵢ−xⱼ| >,  ε = 0.05/M
//
// It is the training loss of networks that generate members; the score allows the two
// to be compared.
//
// Unit: that of the variable. Better: lower.
// Source: Lang et al. 2024, arXiv:2412.15832.
var CRPSAlmostFair = &Score{
	ID: "crps_almost_fair", Name: "CRPS of the members, almost fair",
	Formula: "<mean_i|x_i-y| - (1-e)/(2 M (M-1)) sum_ij|x_i-x_j|>, e=0.05/M",
	Doc:     "The loss of networks that generate members, as a score.",
	Source:  "arXiv:2412.15832",
	Unit:    SameAsVariable, Better: Lower, Divisor: "M(M-1)/(1-e)", Needs: Members, MinMembers: 2, Parts: 1,
	Point: func(parts []float64, c *Case) { parts[0] = dist.KernelCRPS(c.Members, c.Obs, almostFair) },
	Value: firstMean,
}

// almostFair weighs the pair term as the training loss does.
var almostFair = dist.AlmostFair(0.95)
