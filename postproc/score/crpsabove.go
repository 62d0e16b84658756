package score

import "github.com/ensemble-weather/ensemble/postproc/dist"

// CRPSAbove is the threshold-weighted CRPS with weight 1 above a threshold t and 0
// below. It equals the CRPS of max(X, t) against max(y, t):
//
//	< ∫_t^∞ ( F(x) − 1[x ≥ y] )² dx >
//
// Members are scored by the CRPS of their empirical distribution, other systems as
// normal distributions N(m, s²).
//
// Unit: that of the variable. Better: lower. It is proper, unlike the verification of
// cases that were selected by their outcome.
// Source: Gneiting and Ranjan 2011, doi:10.1198/jbes.2010.08110; Allen et al. 2023,
// arXiv:2202.12732 (chaining function max(x, t)).
var CRPSAbove = &Score{
	ID: "crps_above", Name: "CRPS above a threshold",
	Formula: "<integral from t of (F(x)-1[x>=y])^2 dx>, members: 1/(2 M^2)",
	Doc:     "Threshold-weighted CRPS: only values above the threshold count. Proper, unlike verification of extreme outcomes alone.",
	Source:  "doi:10.1198/jbes.2010.08110",
	Unit:    SameAsVariable, Better: Lower, Divisor: "M^2", NormalOnly: true, Needs: Mean | Spread | Events, MinMembers: 2, Parts: 1,
	Point: func(parts []float64, c *Case) {
		t := c.Thresholds[c.ThresholdIndex]
		if len(c.Members) == 0 {
			parts[0], _, _ = dist.CensoredNormalCRPS(c.Mean-t, c.Spread, max(c.Obs-t, 0))
			return
		}
		parts[0] = withCopy(c.Members, func(x []float64) float64 {
			for i, v := range x {
				x[i] = max(v, t)
			}
			return dist.KernelCRPS(x, max(c.Obs, t), dist.Plain)
		})
	},
	Value: firstMean,
}

// withCopy applies f to a copy of the members, which f may change. Ensembles of up to 64
// members are copied to the stack.
func withCopy(members []float64, f func(x []float64) float64) float64 {
	var small [64]float64
	x := append(small[:0], members...)
	return f(x)
}
