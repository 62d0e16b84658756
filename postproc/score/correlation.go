package score

import "math"

// Correlation is the linear correlation of the forecast mean m with y over points and
// dates:
//
//	( <my> − <m><y> ) / √( (<m²>−<m>²)(<y²>−<y>²) )
//
// The sums are those of m−y and y, which avoids cancellation for fields far from 0.
// Differences between locations are included: this is not an anomaly correlation.
//
// Unit: none. Better: near 1. Source: Wilks 2019, ch. 3.
var Correlation = &Score{
	ID: "correlation", Name: "correlation of the mean", Formula: "(<my>-<m><y>)/sqrt((<m^2>-<m>^2)(<y^2>-<y>^2))",
	Doc:    "Linear correlation over points and dates; high on large areas for any forecast, since locations differ.",
	Source: "doi:10.1016/C2017-0-03921-6, ch. 3",
	Unit:   Dimensionless, Better: One, Needs: Mean, Parts: 5,
	Point: func(parts []float64, c *Case) {
		d, y := c.Mean-c.Obs, c.Obs
		parts[0], parts[1], parts[2], parts[3], parts[4] = d, y, d*d, y*y, d*y
	},
	Value: func(mean []float64, _ int) float64 {
		d, y := mean[0], mean[1]
		dd, yy, dy := mean[2]-d*d, mean[3]-y*y, mean[4]-d*y // variances and covariance of m−y and y
		return (yy + dy) / math.Sqrt((dd+yy+2*dy)*yy)
	},
}
