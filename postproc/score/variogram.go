package score

import "math"

// VariogramScore is the variogram score of order ½ of M vectors against one:
//
//	Σ_{i,j} w_ij ( |y_i−y_j|^½ − (1/M) Σ_m |x_mi−x_mj|^½ )²
//
// Shape: x [member][dimension], y [dimension], w [dimension][dimension] or nil for 1.
// Unit: that of y. Better: lower. Missing: NaN in gives NaN.
// Cost: O(M dimensions²).
// Source: Scheuerer and Hamill 2015, doi:10.1175/MWR-D-14-00269.1.
func VariogramScore(x [][]float64, y []float64, w [][]float64) float64 {
	var sum float64
	for i := range y {
		for j := range y {
			weight := 1.0
			if w != nil {
				weight = w[i][j]
			}
			var f float64
			for m := range x {
				f += rootDifference(x[m][i], x[m][j])
			}
			d := rootDifference(y[i], y[j]) - f/float64(len(x))
			sum += weight * d * d
		}
	}
	return sum
}

// rootDifference is |a−b|^½. The order ½ limits the influence of single large differences.
func rootDifference(a, b float64) float64 { return math.Sqrt(math.Abs(a - b)) }

// Variogram is the variogram score of order ½ over pairs of neighbouring grid points, east
// and south of each point, as a mean over pairs:
//
//	< ( |y_p−y_q|^½ − (1/M) Σ_m |x_mp−x_mq|^½ )² >
//
// It verifies whether members are as smooth or rough as the observed field. The energy
// score is insensitive to that.
//
// Unit: that of the variable. Better: lower.
// Source: Scheuerer and Hamill 2015, doi:10.1175/MWR-D-14-00269.1.
var Variogram = &Score{
	ID: "variogram", Name: "variogram score of neighbours", Formula: "<(|y_p-y_q|^0.5 - mean_m|x_mp-x_mq|^0.5)^2>, q next to p",
	Doc:    "Whether members are as rough as the reference between neighbouring points.",
	Source: "doi:10.1175/MWR-D-14-00269.1",
	Unit:   SameAsVariable, Better: Lower, Divisor: "M", Needs: Members | Neighbours, MinMembers: 1, Parts: 2,
	Point: func(parts []float64, c *Case) {
		parts[0], parts[1] = 0, 0
		for _, q := range c.location.neighbours {
			if q < 0 {
				continue
			}
			var f float64
			for _, x := range c.location.members {
				f += rootDifference(float64(x[c.location.p]), float64(x[q]))
			}
			d := rootDifference(float64(c.location.obs[c.location.p]), float64(c.location.obs[q])) - f/float64(len(c.location.members))
			if !math.IsNaN(d) {
				parts[0], parts[1] = parts[0]+d*d, parts[1]+1
			}
		}
	},
	Value: func(mean []float64, _ int) float64 { return mean[0] / mean[1] },
}
