package calibration

import (
	"math"

	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// Tails gathers errors of a mean in units of the spread that was forecast for them, to find a factor that
// makes spread and error agree, and how heavy the tails of Student's t distribution are then. The zero value
// is empty.
type Tails struct {
	errors, spreads float64 // Σ w e², Σ w s²
	cells           []float64
	cases           int
}

// Cells of |e|/s. The score of a case is known to some 1e-5 from its cell; what lies beyond
// the last one counts as in it.
const (
	tailCell  = 0.01
	tailCells = 4000
)

// Add adds a case: its error e, the spread s that was forecast, and its weight. Cases with NaN
// or without spread are left out.
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

// Cases is the number of cases that were added.
func (t *Tails) Cases() int { return t.cases }

// minInverseNu and maxInverseNu bound the inverse of the degrees of freedom: from the normal distribution to tails whose
// variance hardly exists.
const (
	minInverseNu = 1e-6
	maxInverseNu = 0.45
)

// Fit gives the factor √(Σ w e² / Σ w s²) of the spread, and the degrees of freedom with which Student's t
// distribution of that spread has the least mean CRPS. Without cases, or where the mean was never wrong, nothing is
// changed: factor 1, normal tails.
//
// Source: the factor as Fortin et al. 2014, doi:10.1175/JHM-D-14-0008.1; the estimate by least CRPS as
// Gneiting et al. 2005, doi:10.1175/MWR2904.1.
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
