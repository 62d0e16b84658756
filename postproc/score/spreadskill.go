package score

import "math"

// SpreadSkill is the spread-skill ratio with the correction for a finite number of
// members:
//
//	√((M+1)/M) · √< s² > / √< (m−y)² >
//
// The factor accounts for the sampling error of the mean of M members; for a
// distribution it is 1. 1 is calibrated, below 1 the forecast is underdispersive.
//
// Unit: none. Better: near 1. Source: Fortin et al. 2014, doi:10.1175/JHM-D-14-0008.1.
var SpreadSkill = &Score{
	ID: "spread_skill", Name: "spread-skill ratio", Formula: "sqrt((M+1)/M) sqrt(<s^2>)/sqrt(<(m-y)^2>); factor 1 for distributions",
	Doc:    "Whether the spread matches the error of the mean; below 1 underdispersive.",
	Source: "doi:10.1175/JHM-D-14-0008.1",
	Unit:   Dimensionless, Better: One, Divisor: "M-1", Needs: Mean | Spread, MinMembers: 2, Parts: 2,
	Point: func(parts []float64, c *Case) {
		parts[0] = c.Spread * c.Spread
		parts[1] = (c.Mean - c.Obs) * (c.Mean - c.Obs)
	},
	Value: func(mean []float64, members int) float64 {
		return math.Sqrt(mean[0]/mean[1]) * finiteSizeFactor(members)
	},
}

// finiteSizeFactor is the factor √((M+1)/M); 1 for a distribution.
func finiteSizeFactor(members int) float64 {
	if members == 0 {
		return 1
	}
	return math.Sqrt(float64(members+1) / float64(members))
}

// SpreadSkillBins is the RMSE of the mean as a function of the spread, in bins of the
// spread that are a quarter of an octave wide. The spread of members has the factor
// √((M+1)/M). Both columns agree in every row if the forecast is calibrated.
//
// Source: Fortin et al. 2014, doi:10.1175/JHM-D-14-0008.1; Leutbecher and Palmer 2008,
// doi:10.1016/j.jcp.2007.02.014 (bins).
var SpreadSkillBins = &Score{
	ID: "spread_skill_bins", Name: "spread and skill by spread", Formula: "sqrt((M+1)/M) sqrt(<s^2>) and sqrt(<(m-y)^2>) of the cases of a bin of s",
	Doc:    "Whether error grows in proportion to spread; a flat curve is spread without information.",
	Source: "doi:10.1175/JHM-D-14-0008.1",
	Unit:   SameAsVariable, Better: Neither, Divisor: "M-1", Needs: Mean | Spread, MinMembers: 2,
	SharedSums: &Sums{
		Size: func(_, _ int) int { return 3 * spreadBins },
		Add: func(sums []float64, w float64, c *Case) {
			if !(c.Spread > 0) {
				return
			}
			k := min(spreadBins-1, max(0, int(math.Floor(4*math.Log2(c.Spread)))+spreadBins/2))
			sums[3*k] += w
			sums[3*k+1] += w * c.Spread * c.Spread
			sums[3*k+2] += w * (c.Mean - c.Obs) * (c.Mean - c.Obs)
		},
	},
	Diagram: &DiagramSpec{
		Columns: []string{"spread", "rmse", "share"}, IntervalColumn: 1, WeightColumn: 2, Most: math.Inf(1),
		Rows: func(t *Totals) [][]float64 {
			out, all := make([][]float64, spreadBins), make([]float64, 3*spreadBins)
			for k := range out {
				out[k] = all[3*k : 3*k+3]
				if n := t.Sums[3*k]; n > 0 {
					out[k][0], out[k][1], out[k][2] = finiteSizeFactor(t.Members)*math.Sqrt(t.Sums[3*k+1]/n), math.Sqrt(t.Sums[3*k+2]/n), n/t.Weight
				} else {
					out[k][0], out[k][1] = math.NaN(), math.NaN()
				}
			}
			return out
		},
	},
}

// spreadBins bins of a quarter octave cover spreads of 2⁻²⁰ to 2²⁰ in any unit.
const spreadBins = 160
