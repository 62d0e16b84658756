package baseline

import (
	"fmt"
	"math"
)

// AffineSpread corrects the spread s of a small ensemble towards that of the full ensemble by
//
//	A + B·s
//
// with one A and B for all points. It is the baseline for a predicted spread field.
//
// Unit: A that of the variable. Source: ordinary linear regression, defined here.
type AffineSpread struct {
	A float64 `json:"a"`
	B float64 `json:"b"`
}

// AffineSpreadCost is the Method.Cost of FitAffineSpread.
const AffineSpreadCost = 5

// FitAffineSpread finds A and B by weighted least squares of the full ensemble's spread, in Obs of the set, on that of
// the small one, in Std. Mean is not used.
//
// Missing: cases with NaN are left out. Errors: wrong shapes, ErrNoCases, a constant spread of the small ensemble.
func FitAffineSpread(s *Set) (AffineSpread, error) {
	if err := s.check("affine spread", false); err != nil {
		return AffineSpread{}, err
	}
	if len(s.Std) != len(s.Obs) {
		return AffineSpread{}, fmt.Errorf("affine spread: %d values of the predictor for %d values of the predictand", len(s.Std), len(s.Obs))
	}
	l, err := s.leastSquares("spread of all points", s.Std, s.Obs, nil)
	if err != nil {
		return AffineSpread{}, fmt.Errorf("affine spread: %w", err)
	}
	return AffineSpread{A: l.y - l.slope*l.x, B: l.slope}, nil
}

// Predict fills the corrected spread, at least 0.
func (a AffineSpread) Predict(dst, few []float32) {
	for i, s := range few {
		dst[i] = float32(max(0, a.A+a.B*float64(s)))
	}
}

// line is a least-squares line of y on x through their weighted means x and y; sd is the standard deviation of x. z is the
// weighted mean of a third field.
type line struct{ x, y, z, slope, residual, sd float64 }

// moments are the sum of the weights, the weighted means, and the weighted sums of squares and products about them.
type moments struct{ w, x, y, z, xx, xy, yy float64 }

// add combines the moments of two sets of cases.
//
// Source: Chan, Golub and LeVeque 1983, doi:10.1080/00031305.1983.10483115.
func (a *moments) add(b *moments) {
	if b.w == 0 {
		return
	}
	w := a.w + b.w
	dx, dy, part := b.x-a.x, b.y-a.y, b.w/w
	a.xx += b.xx + dx*dx*a.w*part
	a.xy += b.xy + dx*dy*a.w*part
	a.yy += b.yy + dy*dy*a.w*part
	a.x += dx * part
	a.y += dy * part
	a.z += (b.z - a.z) * part
	a.w = w
}

// leastSquares fits y on x over all cases without NaN in these fields and, unless it is nil, in z:
//
//	slope = Σ w (x−x̄)(y−ȳ) / Σ w (x−x̄)²
//
// residual is the standard deviation about the line. Chunks have a fixed size, so that the bits do not depend on the
// number of processors.
//
// Shape: x, y, z as Obs. Errors: ErrNoCases without cases or with a constant x.
// Cost: one pass.
func (s *Set) leastSquares(stage string, x, y, z []float32) (line, error) {
	const chunk = 8192
	n := s.Points()
	parts := make([]moments, (len(x)+chunk-1)/chunk)
	s.each(pass{stage, len(x), chunk, 3}, func(k, lo, hi int) {
		each := func(do func(w, a, b, c float64)) {
			p := lo%n - 1
			for i := lo; i < hi; i++ {
				if p++; p == n {
					p = 0
				}
				a, b, c := x[i], y[i], float32(0)
				if z != nil {
					c = z[i]
				}
				if a == a && b == b && c == c {
					do(s.weight(p), float64(a), float64(b), float64(c))
				}
			}
		}
		m := &parts[k]
		each(func(w, a, b, c float64) {
			m.w += w
			m.x += w * a
			m.y += w * b
			m.z += w * c
		})
		if m.w == 0 {
			return
		}
		m.x, m.y, m.z = m.x/m.w, m.y/m.w, m.z/m.w
		each(func(w, a, b, _ float64) {
			a, b = a-m.x, b-m.y
			m.xx += w * a * a
			m.xy += w * a * b
			m.yy += w * b * b
		})
	})
	var t moments
	for k := range parts {
		t.add(&parts[k])
	}
	switch {
	case t.w == 0:
		return line{}, ErrNoCases
	case t.xx == 0:
		return line{}, fmt.Errorf("the predictor is constant: %w", ErrNoCases)
	}
	slope := t.xy / t.xx
	return line{t.x, t.y, t.z, slope, math.Sqrt(max(0, t.yy-slope*t.xy) / t.w), math.Sqrt(t.xx / t.w)}, nil
}
