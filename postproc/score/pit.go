package score

// pitBins is the number of bins of a PIT histogram.
const pitBins = 20

// PITFlatness is the distance of the PIT histogram from a flat one, over 20 bins:
//
//	Σ_k | share_k − 1/20 |
//
// The PIT is F(y), the forecast distribution function at the observation, of the normal
// distribution with the system's mean and spread or of its family. It corresponds to the
// rank histogram of members. At a point mass at y = 0 the PIT is uniform on [0, F(0)]: the
// bins get the expected shares, so that the histogram is flat for calibrated forecasts.
//
// Unit: none. Better: lower; 0 is calibrated, but few cases never reach it.
// Source: Gneiting, Balabdaoui and Raftery 2007, doi:10.1111/j.1467-9868.2007.00587.x;
// doi:10.1111/j.1541-0420.2009.01191.x (shares at a point mass).
var PITFlatness = &Score{
	ID: "pit_flatness", Name: "distance of the PIT histogram from a flat one", Formula: "sum_k |share_k - 1/20|, bins of F(y)",
	Doc:    "Calibration of distributions; 0 if all forecast probabilities agree with observed frequencies.",
	Source: "doi:10.1111/j.1467-9868.2007.00587.x",
	Unit:   Dimensionless, Better: Lower, NoSkillScore: true, Needs: Distribution, DistributionsOnly: true,
	SharedSums: &Sums{
		Size: func(_, _ int) int { return pitBins },
		Add: func(sums []float64, w float64, c *Case) {
			pit := 1 - c.exceedance(c.Obs, c.Obs)
			if c.Family != nil && c.Family.Positive && c.Obs <= 0 { // a point mass at 0, or none
				addPITShares(sums, pit, w)
				return
			}
			sums[min(pitBins-1, int(pit*pitBins))] += w
		},
	},
	Value: func(mean []float64, _ int) float64 { return distanceFromFlat(mean) },
	Diagram: &DiagramSpec{
		Columns: []string{"pit", "share", "flat"}, IntervalColumn: 1, WeightColumn: -1, Most: 1,
		Rows: func(t *Totals) [][]float64 {
			out := make([][]float64, pitBins)
			for k := range out {
				out[k] = []float64{(float64(k) + 0.5) / pitBins, t.Sums[k] / t.Weight, 1. / pitBins}
			}
			return out
		},
	},
}

// addPITShares adds the weight w to the bins of [0, pit] in proportion to their overlap.
func addPITShares(sums []float64, pit, w float64) {
	if pit*pitBins < 1 {
		sums[0] += w
		return
	}
	for k := range sums {
		if part := min(pit*pitBins-float64(k), 1); part > 0 {
			sums[k] += w * part / (pit * pitBins)
		}
	}
}
