package score

import "math"

// rocRates returns hit rate and false-alarm rate of warnings issued at or above each
// probability of a table, from the highest to the lowest (which always warns), and the
// base rate of the event.
//
// Shape: table as probabilities; hits and alarms [entry].
func rocRates(table []float64) (hits, alarms []float64, base float64) {
	var events, others float64
	for k := 0; k+2 < len(table); k += 3 {
		events, others = events+table[k+2], others+table[k]-table[k+2]
	}
	var h, f float64
	for k := len(table) - 3; k >= 0; k -= 3 {
		h, f = h+table[k+2], f+table[k]-table[k+2]
		hits, alarms = append(hits, h/events), append(alarms, f/others)
	}
	return hits, alarms, events / (events + others)
}

// ROCArea is the area below the ROC curve: the hit rate as a function of the false-alarm
// rate for warnings at every probability, with straight lines in between. It equals the
// probability that an event was forecast with a higher probability than a non-event.
// ½ is no discrimination. Only the order of the probabilities matters, not their
// calibration.
//
// Unit: none. Better: higher; 1 is perfect.
// Source: Mason and Graham 2002, doi:10.1256/003590002320603584.
var ROCArea = &Score{
	ID: "roc_area", Name: "area below the ROC curve", Formula: "integral of the hit rate over the false-alarm rate",
	Doc:    "Whether events get higher probabilities than other cases, calibrated or not; 0.5 is no discrimination.",
	Source: "doi:10.1256/003590002320603584",
	Unit:   Dimensionless, Better: Higher, Needs: Distribution | Events, MinMembers: 2, SharedSums: probabilities,
	Value: func(mean []float64, _ int) float64 {
		hits, alarms, _ := rocRates(mean)
		var area, h, f float64
		for i := range hits {
			area += (alarms[i] - f) * (hits[i] + h) / 2
			h, f = hits[i], alarms[i]
		}
		return area
	},
	Diagram: &DiagramSpec{
		Columns: []string{"false_alarm_rate", "hit_rate", "probability"}, IntervalColumn: 1, WeightColumn: -1, Most: 1,
		Rows: func(t *Totals) [][]float64 {
			hits, alarms, _ := rocRates(t.Sums)
			out := make([][]float64, len(hits))
			for i := range hits {
				out[i] = []float64{alarms[i], hits[i], 1 - float64(i)/float64(len(hits)-1)}
			}
			return out
		},
	},
}

// EconomicValue is the relative economic value of warnings in the cost-loss model, for the
// user who benefits most: the one whose ratio α of the cost of protection to the avoided
// loss equals the frequency ō of the event. A user with ratio α who protects at the
// probability that is best for α has the value
//
//	V(α) = max_p [ min(α,ō) − F α(1−ō) + H ō(1−α) − ō ] / [ min(α,ō) − ō α ]
//
// H and F are hit rate and false-alarm rate. 1 is the value of a perfect forecast, 0
// that of the climate. At α = ō V is max(H−F).
//
// Unit: none. Better: higher.
// Source: Richardson 2000, doi:10.1002/qj.49712656313.
var EconomicValue = &Score{
	ID: "economic_value", Name: "largest economic value", Formula: "max_p (H-F); diagram: (min(a,o)-F a(1-o)+H o(1-a)-o)/(min(a,o)-o a)",
	Doc:    "Share of a perfect forecast's saving, for the cost-loss ratio that benefits most.",
	Source: "doi:10.1002/qj.49712656313",
	Unit:   Dimensionless, Better: Higher, Needs: Distribution | Events, MinMembers: 2, SharedSums: probabilities,
	Value: func(mean []float64, _ int) float64 {
		hits, alarms, base := rocRates(mean)
		return economicValue(base, hits, alarms, base)
	},
	Diagram: &DiagramSpec{
		Columns: []string{"cost_loss", "value"}, IntervalColumn: 1, WeightColumn: -1, Least: math.Inf(-1), Most: 1,
		Rows: func(t *Totals) [][]float64 {
			hits, alarms, base := rocRates(t.Sums)
			out := make([][]float64, 19)
			for i := range out {
				a := float64(i+1) / 20
				out[i] = []float64{a, economicValue(a, hits, alarms, base)}
			}
			return out
		},
	},
}

// economicValue is V(a), at least 0 since a user can ignore the forecast.
func economicValue(a float64, hits, alarms []float64, base float64) float64 {
	best := 0.0
	for i := range hits {
		v := (math.Min(a, base) - alarms[i]*a*(1-base) + hits[i]*base*(1-a) - base) / (math.Min(a, base) - base*a)
		if math.IsNaN(v) {
			return v
		}
		best = math.Max(best, v)
	}
	return best
}
