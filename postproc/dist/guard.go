package dist

import (
	"math"
	"slices"
)

// guard completes the functions of a family for every float64:
//
//   - NaN among parameters or arguments gives NaN, as do a scale below 0 and a probability outside [0, 1]
//   - a distribution function is within [0, 1], a CRPS is not below 0 by rounding
//
// It returns f, whose functions it replaces.
//
// Source: IEEE 754-2008, section 6.2: NaN propagates. The bounds are those of the
// definitions, 0 ≤ F ≤ 1 and CRPS ≥ 0.
func guard(f *Family) *Family {
	cdf, quantile, crps, valid := f.CDF, f.Quantile, f.CRPS, validParameters(f)
	f.CDF = func(par []float64, x float64) float64 {
		if x != x || !valid(par) {
			return math.NaN()
		}
		return min(max(cdf(withoutSigns(par), x), 0), 1)
	}
	f.Quantile = func(par []float64, p float64) float64 {
		if !(p >= 0 && p <= 1) || !valid(par) {
			return math.NaN()
		}
		return quantile(withoutSigns(par), p)
	}
	if of := f.quantileFunc; of != nil {
		f.quantileFunc = func(p float64) func(par []float64) float64 {
			if !(p >= 0 && p <= 1) {
				return func([]float64) float64 { return math.NaN() }
			}
			q := of(p)
			return func(par []float64) float64 {
				if !valid(par) {
					return math.NaN()
				}
				return q(withoutSigns(par))
			}
		}
	}
	f.CRPS = func(grad, par []float64, y float64) float64 {
		if y != y || !valid(par) {
			for i := range grad {
				grad[i] = math.NaN()
			}
			return math.NaN()
		}
		return max(crps(grad, withoutSigns(par), y), 0)
	}
	return f
}

// withoutSigns returns parameters with 0 for −0, of which a quotient would be the infinity of the other sign.
func withoutSigns(par []float64) []float64 {
	for i, v := range par {
		if v == 0 && math.Signbit(v) {
			own := slices.Clone(par)
			for k := i; k < len(own); k++ {
				own[k] += 0
			}
			return own
		}
	}
	return par
}

// validParameters returns whether parameters define a distribution, as far as that shows in each of them: none is NaN, no scale
// is below 0, and a probability, named p, is within [0, 1].
func validParameters(f *Family) func(par []float64) bool {
	lo, hi := make([]float64, len(f.Parameters)), make([]float64, len(f.Parameters))
	for i, name := range f.Parameters {
		lo[i], hi[i] = math.Inf(-1), math.Inf(1)
		if f.Roles[i] == Scale || name == "sigma" || name == "shape" {
			lo[i] = 0
		}
		if name == "p" {
			lo[i], hi[i] = 0, 1
		}
	}
	return func(par []float64) bool {
		for i, v := range par {
			if !(v >= lo[i] && v <= hi[i]) {
				return false
			}
		}
		return true
	}
}
