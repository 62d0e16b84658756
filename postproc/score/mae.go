package score

import "math"

// MAE is the mean distance of the median from y, < |q₀.₅−y| >: for members between
// the middle ones, for a normal distribution its mean.
//
// Unit: that of the variable. Better: lower.
// Source: Gneiting 2011, doi:10.1198/jasa.2011.r10138 (the median is what it asks for).
var MAE = &Score{
	ID: "mae", Name: "mean absolute error of the median", Formula: "<|median-y|>",
	Doc:    "Error of the median; large misses count less than in the RMSE.",
	Source: "doi:10.1198/jasa.2011.r10138",
	Unit:   SameAsVariable, Better: Lower, Needs: Distribution, MinMembers: 2, Parts: 1,
	Point: func(parts []float64, c *Case) { parts[0] = math.Abs(c.quantile(0.5) - c.Obs) },
	Value: firstMean,
}
