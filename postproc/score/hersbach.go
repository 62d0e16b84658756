package score

import "math"

// hersbach are the shared sums of Hersbach's decomposition of the plain CRPS of M
// members x₁ ≤ … ≤ x_M. The bin between x_i and x_{i+1} has the part α_i where the
// observation lies above, and β_i where it lies below. The last two sums count
// observations below and above all members.
//
// Layout: α_0…α_M, β_0…β_M, below, above.
// Source: Hersbach 2000, doi:10.1175/1520-0434(2000)015<0559:DOTCRP>2.0.CO;2.
var hersbach = &Sums{
	Size: func(m, _ int) int { return 2*(m+1) + 2 },
	Add: func(sums []float64, w float64, c *Case) {
		x, y, m := c.Members, c.Obs, len(c.Members)
		alpha, beta, out := sums[:m+1], sums[m+1:2*(m+1)], sums[2*(m+1):]
		if y < x[0] {
			beta[0] += w * (x[0] - y)
			out[0] += w
		}
		if y > x[m-1] {
			alpha[m] += w * (y - x[m-1])
			out[1] += w
		}
		for i := 1; i < m; i++ {
			at := min(max(y, x[i-1]), x[i])
			alpha[i] += w * (at - x[i-1])
			beta[i] += w * (x[i] - at)
		}
	},
}

// hersbachParts computes reliability and potential CRPS from the averages of hersbach.
// Inner bins have the width g_i = α_i + β_i and the frequency o_i = β_i/g_i. The outer
// bins have o_0 = the frequency of observations below all members and g_0 = β_0/o_0, and
// likewise above.
func hersbachParts(mean []float64, m int) (reliability, potential float64) {
	alpha, beta, out := mean[:m+1], mean[m+1:2*(m+1)], mean[2*(m+1):]
	for i := range alpha {
		g, o := alpha[i]+beta[i], 0.0
		switch {
		case i == 0 && out[0] > 0:
			o, g = out[0], beta[0]/out[0]
		case i == m && out[1] > 0:
			o, g = 1-out[1], alpha[m]/out[1]
		case i == 0 || i == m || g == 0:
			continue
		default:
			o = beta[i] / g
		}
		d := o - float64(i)/float64(m)
		reliability += g * d * d
		potential += g * o * (1 - o)
	}
	return reliability, potential
}

// CRPSReliability is the reliability part of the plain CRPS,
//
//	Σ_i g_i (o_i − i/M)²
//
// g_i is the mean width of the bin between neighbouring members, and o_i the frequency,
// weighted by width, of observations below it. With few members the observation often
// lies outside all of them, which increases this part.
//
// Unit: that of the variable. Better: lower; 0 is reliable.
// Source: Hersbach 2000, doi:10.1175/1520-0434(2000)015<0559:DOTCRP>2.0.CO;2.
var CRPSReliability = &Score{
	ID: "crps_reliability", Name: "reliability part of the CRPS",
	Formula: "sum_i g_i (o_i - i/M)^2, of crps_plain",
	Doc:     "Part of the plain CRPS due to miscalibration of the bins between members.",
	Source:  "doi:10.1175/1520-0434(2000)015<0559:DOTCRP>2.0.CO;2",
	Unit:    SameAsVariable, Better: Lower, NoSkillScore: true, Divisor: "M^2", Needs: Members, MinMembers: 1, SharedSums: hersbach,
	Value: func(mean []float64, m int) float64 { r, _ := hersbachParts(mean, m); return r },
}

// CRPSPotential is the potential CRPS, that of the members after perfect calibration,
//
//	Σ_i g_i o_i (1−o_i)
//
// Reliability part and potential CRPS add up to the plain CRPS.
//
// Unit: that of the variable. Better: lower.
// Source: Hersbach 2000, doi:10.1175/1520-0434(2000)015<0559:DOTCRP>2.0.CO;2.
var CRPSPotential = &Score{
	ID: "crps_potential", Name: "potential CRPS",
	Formula: "sum_i g_i o_i (1-o_i), of crps_plain",
	Doc:     "CRPS that reliable members of the same sharpness would have; crps_plain less its reliability part.",
	Source:  "doi:10.1175/1520-0434(2000)015<0559:DOTCRP>2.0.CO;2",
	Unit:    SameAsVariable, Better: Lower, Divisor: "M^2", Needs: Members, MinMembers: 1, SharedSums: hersbach,
	Value: func(mean []float64, m int) float64 { _, p := hersbachParts(mean, m); return math.Max(p, 0) },
}
