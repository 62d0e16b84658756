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

// FitAffineSpread finds A and B by weighted least squares of the full ensemble's spread on
// that of the small one.
//
// Shape: few, full [date][point]; weights [point], nil for equal weights.
// Missing: cases with NaN are left out. Errors: wrong shapes, ErrNoCases, a constant few.
func FitAffineSpread(few, full []float32, weights []float64) (AffineSpread, error) {
	if n := len(weights); weights != nil && (n == 0 || len(few)%n != 0) {
		return AffineSpread{}, fmt.Errorf("affine spread: %d values with %d weights", len(few), n)
	}
	l, err := leastSquares(few, full, func(i int) float64 {
		if weights == nil {
			return 1
		}
		return weights[i%len(weights)]
	})
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

// line is a least-squares line of y on x through their weighted means x and y; sd is the standard deviation of x.
type line struct{ x, y, slope, residual, sd float64 }

// leastSquares fits y on x over all cases without NaN,
//
//	slope = Σ w (x−x̄)(y−ȳ) / Σ w (x−x̄)²
//
// residual is the standard deviation about the line.
//
// Errors: different lengths; ErrNoCases without cases or with a constant x.
func leastSquares(x, y []float32, weight func(i int) float64) (line, error) {
	if len(x) != len(y) {
		return line{}, fmt.Errorf("%d values of the predictor for %d values of the predictand", len(x), len(y))
	}
	each := func(do func(w, a, b float64)) {
		for i := range x {
			a, b := float64(x[i]), float64(y[i])
			if math.IsNaN(a) || math.IsNaN(b) {
				continue
			}
			do(weight(i), a, b)
		}
	}
	var sw, mx, my float64
	each(func(w, a, b float64) { sw += w; mx += w * a; my += w * b })
	if sw == 0 {
		return line{}, ErrNoCases
	}
	mx /= sw
	my /= sw
	var xx, xy, yy float64
	each(func(w, a, b float64) {
		xx += w * (a - mx) * (a - mx)
		xy += w * (a - mx) * (b - my)
		yy += w * (b - my) * (b - my)
	})
	if xx == 0 {
		return line{}, fmt.Errorf("the predictor is constant: %w", ErrNoCases)
	}
	slope := xy / xx
	return line{mx, my, slope, math.Sqrt(max(0, yy-slope*xy) / sw), math.Sqrt(xx / sw)}, nil
}
