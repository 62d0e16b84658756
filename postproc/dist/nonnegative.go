package dist

import "math"

// nonNegativeCRPS computes the CRPS for y of a distribution without values below 0, with its
// derivatives, by inside at y ≥ 0. It handles what is common to the families: NaN; the
// distance of y below 0, which adds to the score only; and scale 0, the point mass at
// max(mu, 0), which has the CRPS of the parent.
//
// From CRPS = ∫ (F(x) − 1{x ≥ y})² dx with F(x) = 0 for x < 0 it follows that CRPS(y) =
// CRPS(0) − y for y < 0.
//
// Unit: that of y. Missing: NaN in gives NaN; scale < 0 gives NaN.
// Source: Gneiting and Raftery 2007, doi:10.1198/016214506000001437, equation 20.
func nonNegativeCRPS(mu, scale, y float64, parent, inside func(mu, scale, y float64) (crps, dmu, dscale float64)) (crps, dmu, dscale float64) {
	if !(scale >= 0) || math.IsNaN(mu) || math.IsNaN(y) {
		return math.NaN(), math.NaN(), math.NaN()
	}
	below := max(-y, 0)
	y = max(y, 0)
	if scale > 0 {
		crps, dmu, dscale = inside(mu, scale, y)
		return crps + below, dmu, dscale
	}
	crps, dmu, dscale = parent(max(mu, 0), 0, y)
	if mu <= 0 { // the mass stays at 0
		dmu, dscale = 0, 0
	}
	return crps + below, dmu, dscale
}
