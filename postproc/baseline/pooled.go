package baseline

import "fmt"

// fitPooled fits one set of coefficients for all points. The sums of a Newton step are those
// over all points, weighted, and added in the order of the points.
//
// Errors: ErrNoCases without spread or, for families with moments as parameters, with
// means that are not positive.
// Cost: about ten passes over the cases; of more than sparsePoints points, over those of a sample, and three over all.
// Source: Gneiting et al. 2005, doi:10.1175/MWR2904.1 (one set of coefficients for a
// region).
func (r *Regression) fitPooled(s *Set, season []float64) error {
	l, err := s.leastSquares("regression line", s.Mean, s.Obs, s.Std)
	if err != nil {
		return fmt.Errorf("regression: %w", err)
	}
	u := units{mean: l.x, meanSD: l.sd, obs: l.y, scatter: l.residual, spread: l.z}
	f := newFitter(r, len(s.Valid), season)
	if f.active[0] = u.spread > 0 && f.begin(0, u, l.slope); !f.active[0] {
		return fmt.Errorf("regression: no spread, or means that are not positive: %w", ErrNoCases)
	}
	if few := s.sparse(sparsePoints); few != s {
		near := &Regression{Family: r.Family, Link: r.Link, Harmonics: r.Harmonics, Pooled: true, Location: make([]float64, len(r.Location)), Scale: make([]float64, len(r.Scale)), Steps: make([]int, 1)}
		if near.fitPooled(few, season) == nil {
			f.resume(0, near.Location, near.Scale)
		}
	}
	f.sumsAt = func(q sums, theta coefficients) {
		sumPoints(q, theta, s, func() *fitter {
			own := newFitter(r, len(s.Valid), season)
			own.common = &f.units[0]
			return own
		})
	}
	f.minimise(r.Steps)
	f.store(0, 0)
	return nil
}

// sumPoints fills the first lane of q with the weighted means over all points, at the
// coefficients in the first lane of theta. Every row of q but the number of cases is
//
//	Σ_p w_p n_p q_p / Σ_p w_p n_p
//
// with the mean q_p over the n_p cases of point p and its weight w_p. Each worker sums groups
// with a fitter of its own.
func sumPoints(q sums, theta coefficients, s *Set, open func() *fitter) {
	n := s.Points()
	parts := make([]sums, (n+groupRun-1)/groupRun)
	s.each(s.points("scores of all points", groupRun, 3), func(k, lo, hi int) {
		f := open()
		same, own, part := newCoefficients(), newSums(), newSums()
		for i := range f.terms {
			for l := range lanes {
				*same.at(i, l) = *theta.at(i, 0)
			}
		}
		for p := lo; p < hi; p += lanes {
			end := min(hi, p+lanes)
			f.gather(s, p, end)
			f.evaluate(own, same)
			for l := range end - p {
				if !f.active[l] {
					continue
				}
				// own holds means over the cases of a point: back to sums, times the weight.
				w := s.weight(p+l) * *own.count(l)
				*part.count(0) += w
				for row := range len(part) / lanes {
					if row != countRow {
						part[row*lanes] += w * own[row*lanes+l]
					}
				}
			}
		}
		parts[k] = part
	})
	clear(q)
	for _, part := range parts {
		for i := 0; i < len(q); i += lanes {
			q[i] += part[i]
		}
	}
	weight := *q.count(0)
	for row := range len(q) / lanes {
		if row != countRow {
			q[row*lanes] /= weight
		}
	}
}
