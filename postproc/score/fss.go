package score

// FSS is the fractions skill score of the event that a threshold is exceeded, in discs
// around the points:
//
//	1 − < (f−o)² > / ( < f² > + < o² > )
//
// o is the fraction of the disc where the event happened, f the mean over the disc of
// the forecast probability: the fraction of members above the threshold, or from the
// system's distribution. Parts of a disc outside a region count, missing points do not.
//
// Unit: none. Better: higher; 1 is perfect, 0 no overlap. NaN if the event was neither
// forecast nor observed.
// Source: Roberts and Lean 2008, doi:10.1175/2007MWR2123.1, eq. 6; for probabilities
// Schwartz and Sobash 2017, doi:10.1175/MWR-D-16-0400.1.
var FSS = &Score{
	ID: "fss", Name: "fractions skill score", Formula: "1 - <(f-o)^2>/(<f^2> + <o^2>), f and o means over discs",
	Doc:    "Whether the event is forecast in the right neighbourhood, though not at the right point; skilful above fss_useful.",
	Source: "doi:10.1175/2007MWR2123.1",
	Unit:   Dimensionless, Better: Higher, Divisor: "M", Needs: Distribution | Events | Fractions, MinMembers: 1, Parts: 3,
	Point: func(parts []float64, c *Case) {
		f, o := c.fractions()
		parts[0], parts[1], parts[2] = (f-o)*(f-o), f*f, o*o
	},
	Value: func(mean []float64, _ int) float64 { return 1 - mean[0]/(mean[1]+mean[2]) },
}

// FSSUseful is the least FSS at which a radius is considered skilful, half-way between
// a random and a perfect forecast:
//
//	½ + < o > / 2
//
// o is 1 where the event happened and 0 elsewhere. It is the same for all systems.
//
// Unit: none.
// Source: Roberts and Lean 2008, doi:10.1175/2007MWR2123.1.
var FSSUseful = &Score{
	ID: "fss_useful", Name: "useful fractions skill score", Formula: "1/2 + <o>/2",
	Doc:    "FSS half-way between a random and a perfect forecast, from the frequency of the event.",
	Source: "doi:10.1175/2007MWR2123.1",
	Unit:   Dimensionless, Better: Neither, Needs: Distribution | Events | Fractions, MinMembers: 1, Parts: 1,
	Point: func(parts []float64, c *Case) {
		parts[0] = 0
		if _, happened := c.Probability(); happened {
			parts[0] = 1
		}
	},
	Value: func(mean []float64, _ int) float64 { return 0.5 + mean[0]/2 },
}

// fractionFields are means over discs of the forecast probability and of the event, of one
// system.
//
// Shape: [threshold][point]. Missing: NaN at points that are not scored.
type fractionFields struct{ forecast, observed [][]float32 }

// fractions are the fractions at the point of the case, for its threshold.
func (c *Case) fractions() (forecast, observed float64) {
	f, p := c.location.fractions, c.location.p
	return float64(f.forecast[c.ThresholdIndex][p]), float64(f.observed[c.ThresholdIndex][p])
}

// fractionsOf computes the fractions of all systems on one date; nil if no score needs them.
//
// Cost: that of Grid.Neighbourhood for 1 + systems fields of each threshold.
func (a *Accumulator) fractionsOf(members []int, entries [][]entry, ref Reference, samples []Sample) []*fractionFields {
	needed := false
	for _, plan := range a.plan {
		for _, s := range plan {
			needed = needed || s.Needs&Fractions != 0
		}
	}
	if !needed {
		return nil
	}
	n, thresholds := len(a.grid.Weights), len(a.o.Thresholds)
	fields := make([][]float32, thresholds*(1+len(a.systems))) // the event, then each system
	for k := range fields {
		fields[k] = missingField(n)
	}
	w := a.newWorker(members, entries, 0)
	for p := range n {
		if !w.load(p, ref, samples) {
			continue
		}
		for s := range a.systems {
			c := &w.cases[s]
			w.fillEvents(s)
			for c.ThresholdIndex = range thresholds {
				probability, happened := c.Probability()
				fields[thresholds*(1+s)+c.ThresholdIndex][p] = float32(probability)
				fields[c.ThresholdIndex][p] = 0
				if happened {
					fields[c.ThresholdIndex][p] = 1
				}
			}
		}
	}
	means := a.grid.Neighbourhood(fields...)
	var out []*fractionFields
	for s := range a.systems {
		out = append(out, &fractionFields{forecast: means[thresholds*(1+s):][:thresholds], observed: means[:thresholds]})
	}
	return out
}

// missingField is a field of NaN.
func missingField(n int) []float32 {
	nan := float32(Missing())
	x := make([]float32, n)
	for i := range x {
		x[i] = nan
	}
	return x
}
