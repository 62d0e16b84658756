package score

// FSS are the sums of the fractions skill score, over fields and dates:
//
//	1 − Σ w (f−o)² / (Σ w f² + Σ w o²)
//
// f and o are the fractions of the area around each point in which an event is forecast
// and happened: 1 is perfect, 0 no overlap. Of probabilities in place of a single forecast's
// fractions it is that of an ensemble.
//
// Unit: 1. Better: higher.
// Source: Roberts and Lean 2008, doi:10.1175/2007MWR2123.1, eq. 6.
type FSS struct{ weight, difference, forecast, observed, events float64 }

// Add takes one field.
//
// Shape: fractions [point]; w [point] or nil for 1. event [point] is where it happened, 1 or
// 0, from which the base rate is.
// Missing: a point that is missing in any of the three is left out.
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

// Value is the score; NaN if no event was forecast and none happened.
func (s *FSS) Value() float64 { return 1 - s.difference/(s.forecast+s.observed) }

// BaseRate is the share of the area with the event, the score of a random forecast.
func (s *FSS) BaseRate() float64 { return s.events / s.weight }

// Useful is the score from which a scale is taken to have skill, half-way between that of a
// random forecast and 1:
//
//	½ + base rate/2
func (s *FSS) Useful() float64 { return 0.5 + s.BaseRate()/2 }
