package dist

import "math"

// nonNegativeCRPS computes the CRPS for y of a distribution without values below 0, with its
// derivatives, by inside at y ≥ 0. It handles what is common to the families: NaN; the
// distance of y below 0, which adds to the score only; and scale 0, the point mass at
// max(mu, 0), which has the CRPS of the parent.
//
// Unit: that of y. Missing: NaN in gives NaN; scale < 0 gives NaN.
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
