package score

// FSS accumulates the fractions skill score over fields and dates:
//
//	1 − Σ w (f−o)² / (Σ w f² + Σ w o²)
//
// f and o are the fractions of the area around each point where an event is forecast
// and observed. 1 is perfect, 0 no overlap. With probabilities in place of f it is the
// score of an ensemble. The zero value is empty.
//
// Unit: none. Better: higher.
// Source: Roberts and Lean 2008, doi:10.1175/2007MWR2123.1, eq. 6.
type FSS struct{ weight, difference, forecast, observed, events float64 }

// Add adds one field.
//
// Shape: forecast and observed [point] are fractions; event [point] is 1 where the event
// was observed and 0 elsewhere, for the base rate; w [point] or nil for equal weights.
// Missing: a point that is NaN in any of the three fields is left out.
func (s *FSS) Add(forecast, observed, event []float32, w []float64) {
	for p := range forecast {
		f, o, e, weight := float64(forecast[p]), float64(observed[p]), float64(event[p]), 1.0
		if f != f || o != o || e != e {
			continue
		}
		if w != nil {
			weight = w[p]
		}
		s.weight += weight
		s.difference += weight * (f - o) * (f - o)
		s.forecast += weight * f * f
		s.observed += weight * o * o
		s.events += weight * e
	}
}

// Value is the score. It is NaN if the event was neither forecast nor observed.
func (s *FSS) Value() float64 { return 1 - s.difference/(s.forecast+s.observed) }

// BaseRate is the fraction of the area with the event. A random forecast has this score.
func (s *FSS) BaseRate() float64 { return s.events / s.weight }

// Useful is the least score at which a scale is considered skilful, half-way between a
// random and a perfect forecast:
//
//	½ + base rate/2
//
// Source: Roberts and Lean 2008, doi:10.1175/2007MWR2123.1.
func (s *FSS) Useful() float64 { return 0.5 + s.BaseRate()/2 }
