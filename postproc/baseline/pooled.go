package baseline

import "fmt"

// fitPooled finds one set of coefficients for all points: the sums of a Newton step are
// those of all points, each date of a point by its weight, added up in the order of points.
//
// Cost: some ten passes over the cases.
func (r *Regression) fitPooled(s *Set, season []float64) error {
	l, err := leastSquares(s.Mean, s.Obs, s.caseWeight)
	if err != nil {
		return fmt.Errorf("regression: %w", err)
	}
	u := units{mean: l.x, meanSD: l.sd, obs: l.y, scatter: l.residual}
	var weight float64
	for i, sd := range s.Std {
		if m, y := s.Mean[i], s.Obs[i]; m == m && y == y && sd == sd {
			w := s.weight(i % s.Points())
			u.spread += w * float64(sd)
			weight += w
		}
	}
	u.spread /= weight
	f := newFitter(r, len(s.Valid), season)
	if f.active[0] = u.spread > 0 && f.begin(0, u, l.slope); !f.active[0] {
		return fmt.Errorf("regression: no spread, or means that are not above 0: %w", ErrNoCases)
	}
	f.pooled = func(q sums, theta coefficients) { r.sumPoints(q, theta, s, season, &f.units[0]) }
	f.minimise(r.Steps)
	f.store(0, 0)
	return nil
}

// sumPoints fills the first lane of q with the weighted means over all points, at the
// coefficients of the first lane.
func (r *Regression) sumPoints(q sums, theta coefficients, s *Set, season []float64, u *units) {
	n := s.Points()
	const run = 16 * lanes
	parts := make([]sums, (n+run-1)/run)
	parallel(n, run, func(k, lo, hi int) {
		f := newFitter(r, len(s.Valid), season)
		f.common = u
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
