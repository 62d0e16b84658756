package score

// CRPSFamily is the CRPS of the system's own distribution, of any family of dist.Table,
// in closed form:
//
//	< ∫ ( F(x) − 1[x ≥ y] )² dx >
//
// Unit: that of the variable. Better: lower.
// Source: Gneiting and Raftery 2007, doi:10.1198/016214506000001437; package dist names
// the source of each closed form.
var CRPSFamily = &Score{
	ID: "crps_family", Name: "CRPS of the system's family",
	Formula: "<integral of (F(x)-1[x>=y])^2 dx>, F of the system's family",
	Doc:     "CRPS of a distribution that need not be normal: truncated, censored, log-normal, logistic, gamma.",
	Source:  "doi:10.1198/016214506000001437",
	Unit:    SameAsVariable, Better: Lower, Needs: Parameters, Parts: 1,
	Point: func(parts []float64, c *Case) { parts[0] = c.Family.CRPS(nil, c.Parameters, c.Obs) },
	Value: firstMean,
}
