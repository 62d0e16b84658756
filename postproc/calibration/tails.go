package calibration

import (
	"math"

	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// Tails accumulates standardised forecast errors |e|/s. Fit derives from them a factor for
// the spread, and the degrees of freedom of Student's t distribution that describes the
// tails. The zero value is empty.
type Tails struct {
	errors, spreads float64 // Σ w e², Σ w s²
	cells           []float64
	cases           int
}

// The histogram of |e|/s has tailCells cells of width tailCell. Replacing |e|/s by the
// centre of its cell changes a score by about 1e-5. Larger values count in the last cell.
const (
	tailCell  = 0.01
	tailCells = 4000
)

// Add adds a case with error e, forecast spread s and weight. Missing: cases with NaN or without spread are left out.
func (t *Tails) Add(e, s, weight float64) {
	if e != e || !(s > 0) {
		return
	}
	if t.cells == nil {
		t.cells = make([]float64, tailCells)
	}
	t.errors += weight * e * e
	t.spreads += weight * s * s
	t.cells[min(tailCells-1, int(math.Abs(e)/s/tailCell))] += weight * s
	t.cases++
}

// Cases is the number of cases added.
func (t *Tails) Cases() int { return t.cases }

// minInverseNu and maxInverseNu bound the inverse degrees of freedom 1/ν: from the normal
// distribution to nearly infinite variance (ν = 2).
const (
	minInverseNu = 1e-6
	maxInverseNu = 0.45
)

// Fit returns the factor of the spread and the degrees of freedom ν:
//
//	factor = √( Σ w e² / Σ w s² )
//	ν      = argmin mean CRPS of Student's t distribution with standard deviation factor·s
//
// 1/ν is found by golden-section search. Without cases or with errors that are all 0
// the result is factor 1 and normal tails.
//
// Source: the factor as in Fortin et al. 2014, doi:10.1175/JHM-D-14-0008.1; the estimate by
// least CRPS as in Gneiting et al. 2005, doi:10.1175/MWR2904.1.
func (t *Tails) Fit() (factor, nu float64) {
	if !(t.errors > 0) {
		return 1, 1 / minInverseNu
	}
	factor = math.Sqrt(t.errors / t.spreads)
	crps := func(tails float64) (sum float64) {
		nu := 1 / tails
		sigma := factor / dist.StudentStd(nu)
		for k, w := range t.cells {
			if w != 0 {
				c, _, _ := dist.StudentCRPS(0, sigma, nu, (float64(k)+0.5)*tailCell)
				sum += w * c
			}
		}
		return sum
	}
	low, high := minInverseNu, maxInverseNu
	golden := (math.Sqrt(5) - 1) / 2
	a, b := high-golden*(high-low), low+golden*(high-low)
	fa, fb := crps(a), crps(b)
	for high-low > 1e-5 {
		if fa <= fb {
			high, b, fb = b, a, fa
			a = high - golden*(high-low)
			fa = crps(a)
		} else {
			low, a, fa = a, b, fb
			b = low + golden*(high-low)
			fb = crps(b)
		}
	}
	best := (low + high) / 2
	if crps(minInverseNu) <= crps(best) {
		best = minInverseNu
	}
	return factor, 1 / best
}
