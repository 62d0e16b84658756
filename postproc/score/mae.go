package score

import "math"

// MAE is the mean absolute error of the median:
//
//	< |q₀.₅ − y| >
//
// The median of members is interpolated between the middle ones; that of a normal
// distribution is its mean.
//
// Unit: that of the variable. Better: lower.
// Source: Gneiting 2011, doi:10.1198/jasa.2011.r10138 (the median minimises this error).
var MAE = &Score{
	ID: "mae", Name: "mean absolute error of the median", Formula: "<|median-y|>",
	Doc:    "Error of the median; large misses count less than in the RMSE.",
	Source: "doi:10.1198/jasa.2011.r10138",
	Unit:   SameAsVariable, Better: Lower, Needs: Distribution, MinMembers: 2, Parts: 1,
	Point: func(parts []float64, c *Case) { parts[0] = math.Abs(c.quantile(0.5) - c.Obs) },
	Value: firstMean,
}
