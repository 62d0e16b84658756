package score

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// EFI is the extreme forecast index of members against quantiles of the climate:
//
//	(2/π) ∫₀¹ (p − F(q(p))) / √(p(1−p)) dp
//
// F(q(p)) is the fraction of members at or below the p quantile of the climate. It is
// interpolated linearly between the given probabilities, and the integral over each
// interval is exact.
//
// Shape: climate [n+1], quantiles at 0, 1/n, …, 1, ascending; members [member].
// Unit: none, −1 (all members below the climate) to 1 (all above).
// Missing: NaN in gives NaN.
// Source: Lalaurette 2003, doi:10.1256/qj.02.152; Zsótér 2006, ECMWF Newsletter 107.
func EFI(climate, members []float64) float64 {
	return index(climate, func(q float64) float64 {
		k := 0
		for _, x := range members {
			if math.IsNaN(x) {
				return x
			}
			if x <= q {
				k++
			}
		}
		return float64(k) / float64(len(members))
	})
}

// index is the EFI of any forecast distribution; below(q) is the probability of values
// up to q. On an interval p₀ to p₁ F = f₀ + s(p−p₀), so the integrand is
// ((s·p₀ − f₀) + (1−s)p) / √(p(1−p)), of which stretch has both integrals.
func index(climate []float64, below func(q float64) float64) float64 {
	f0, sum := below(climate[0]), 0.0
	for k, x := range stretches(len(climate) - 1) {
		if math.IsNaN(climate[k] + climate[k+1]) {
			return math.NaN()
		}
		f1 := below(climate[k+1])
		slope := (f1 - f0) / (x.p1 - x.p0)
		sum += (slope*x.p0-f0)*x.zeroth + (1-slope)*x.first
		f0 = f1
	}
	return 2 / math.Pi * sum
}

// stretch holds, for the interval p₀ to p₁, the integrals
//
//	zeroth = ∫ dp/√(p(1−p))   = arccos(1−2p)               from p₀ to p₁
//	first  = ∫ p dp/√(p(1−p)) = arccos(√(1−p)) − √(p(1−p))  from p₀ to p₁
type stretch struct{ p0, p1, zeroth, first float64 }

// stretchesOf caches the result of stretches by n, since every point needs it.
var stretchesOf sync.Map

// stretches returns the integrals for n equal intervals of 0 to 1. The slice is shared.
func stretches(n int) []stretch {
	if s, ok := stretchesOf.Load(n); ok {
		return s.([]stretch)
	}
	out := make([]stretch, n)
	for k := range out {
		p0, p1 := float64(k)/float64(n), float64(k+1)/float64(n)
		out[k] = stretch{p0, p1, math.Acos(1-2*p1) - math.Acos(1-2*p0),
			math.Acos(math.Sqrt(1-p1)) - math.Acos(math.Sqrt(1-p0)) - math.Sqrt(p1*(1-p1)) + math.Sqrt(p0*(1-p0))}
	}
	stretchesOf.Store(n, out)
	return out
}

// EFIENS10 is the index as the code of the ENS-10 benchmark computes it. The probabilities
// are k/20. F(q) is j/20 for the first of the members' 21 quantiles that reaches q, or 1
// if none does:
//
//	(2/π) Σ_{k=1..19} (k/20 − F(q_k)) / √(k/20 (1−k/20)) · 0.05
//
// It lies within ±0.7914 and overestimates F by up to 0.05. Published EECRPS values are
// based on it.
//
// Shape: climate [21]; members ascending. Unit: none. Missing: NaN in gives NaN.
// Source: Ashkboos et al. 2022, arXiv:2206.14786.
func EFIENS10(climate, members []float64) float64 {
	var sum float64
	for k := 1; k < 20; k++ {
		p, f := float64(k)/20, 1.0
		if math.IsNaN(climate[k]) {
			return math.NaN()
		}
		for j := range 20 {
			if dist.EmpiricalQuantile(members, float64(j)/20) >= climate[k] {
				f = float64(j) / 20
				break
			}
		}
		sum += (p - f) / math.Sqrt(p*(1-p)) * 0.05
	}
	return 2 / math.Pi * sum
}

// EFIMap computes an index, EFI or EFIENS10, at every point.
//
// Shape: climate [level][point], members [member][point], dst [point]. Missing: NaN in gives NaN.
func EFIMap(dst []float32, climate, members [][]float32, index func(climate, members []float64) float64) {
	q, x := make([]float64, len(climate)), make([]float64, len(members))
	for p := range dst {
		for k, f := range climate {
			q[k] = float64(f[p])
		}
		missing := false
		for m, f := range members {
			x[m] = float64(f[p])
			missing = missing || math.IsNaN(x[m])
		}
		if missing {
			dst[p] = float32(math.NaN())
			continue
		}
		slices.Sort(x)
		dst[p] = float32(index(q, x))
	}
}

// SOT is the shift of tails at probability p, 0.9 for the upper and 0.1 for the lower
// tail:
//
//	− (Q_f(p) − Q_c(p₁)) / (Q_c(p) − Q_c(p₁))
//
// Q_f are quantiles of the forecast, Q_c of the climate, and p₁ is 0.99 for the upper and
// 0.01 for the lower tail. Above 0 more than a tenth of the forecast lies beyond the
// climate's outermost hundredth; −1: the tail equals that of the climate.
//
// Unit: none. Missing: NaN in gives NaN, as do equal quantiles of the climate.
// Source: Zsótér 2006, ECMWF Newsletter 107.
func SOT(forecast, climate, climateExtreme float64) float64 {
	if climate == climateExtreme {
		return math.NaN()
	}
	return -(forecast - climateExtreme) / (climate - climateExtreme)
}

// MeanAbsEFI is the mean absolute extreme forecast index <|EFI|> of the system's own
// forecast, and MeanAbsEFIENS10 that of EFIENS10: how unusual the forecast weather is for
// place and season. SOTUpper and SOTLower are the mean shifts of tails at 0.9 and 0.1,
// over the points where the two quantiles of the climate differ.
//
// Unit: none. Better: neither. Source: Lalaurette 2003, doi:10.1256/qj.02.152; Zsótér
// 2006, ECMWF Newsletter 107.
var (
	MeanAbsEFI = &Score{
		ID: "efi", Name: "absolute extreme forecast index", Formula: "<|EFI|>, EFI = 2/pi integral of (p-F(q_p))/sqrt(p(1-p)) dp, q_p of the climate",
		Doc:    "How unusual the forecast is for location and season: 0 equals the climate, 1 lies beyond all of it.",
		Source: "doi:10.1256/qj.02.152",
		Unit:   Dimensionless, Better: Neither, Needs: Distribution | Quantiles, Parts: 1,
		Point: func(parts []float64, c *Case) {
			parts[0] = math.Abs(index(c.Climate, func(q float64) float64 { return 1 - c.exceedance(q, q) }))
		},
		Value: firstMean,
	}
	MeanAbsEFIENS10 = &Score{
		ID: "efi_ens10", Name: "absolute extreme forecast index of ENS-10", Formula: "<|EFI|>, EFI = 2/pi sum_k=1..19 (k/20-F(q_k))/sqrt(k/20(1-k/20)) 0.05",
		Doc:    "The index that weights EECRPS; at most 0.7914.",
		Source: "arXiv:2206.14786",
		Unit:   Dimensionless, Better: Neither, Needs: Members | Quantiles, MinMembers: 1, Parts: 1,
		Point: func(parts []float64, c *Case) {
			step := (len(c.Climate) - 1) / 20
			var climate [21]float64
			for k := range climate {
				climate[k] = c.Climate[k*step]
			}
			parts[0] = math.Abs(EFIENS10(climate[:], c.Members))
		},
		Value: firstMean,
	}
	SOTUpper = newSOT("sot_90", "upper", 0.9, 0.99)
	SOTLower = newSOT("sot_10", "lower", 0.1, 0.01)
)

// maxSOT bounds the absolute shift of tails at a point, as earthkit-meteo does. Where the
// two quantiles of the climate nearly agree, a single point would dominate the mean.
const maxSOT = 10

// newSOT defines a score of SOT at probability p with p₁ = extreme. Parts are SOT and
// 1, both 0 where SOT is not defined.
func newSOT(id, which string, p, extreme float64) *Score {
	return &Score{
		ID: id, Name: "shift of the " + which + " tail", Formula: fmt.Sprintf("<-(Q_f(%g)-Q_c(%g))/(Q_c(%g)-Q_c(%g))>, Q_f of the forecast, Q_c of the climate, each within +-10", p, extreme, p, extreme),
		Doc:    "Above 0 a tenth of the forecast lies beyond the climate's outermost hundredth; -1 as the climate.",
		Source: "Zsoter 2006, ECMWF Newsletter 107",
		Unit:   Dimensionless, Better: Neither, NoSkillScore: true, Needs: Distribution | Tails, Parts: 2,
		Point: func(parts []float64, c *Case) {
			at := func(p float64) float64 { return dist.EmpiricalQuantile(c.Climate, p) }
			parts[0], parts[1] = min(max(SOT(c.quantile(p), at(p), at(extreme)), -maxSOT), maxSOT), 1
			if math.IsNaN(parts[0]) {
				parts[0], parts[1] = 0, 0
			}
		},
		Value: func(mean []float64, _ int) float64 { return mean[0] / mean[1] },
	}
}

// EECRPSGauss and EECRPSPlain are the extreme-event weighted CRPS,
//
//	< |EFI| CRPS >
//
// with the index of the raw ensemble as the weight of all systems. The ENS-10 benchmark
// uses the Gaussian CRPS and EFIENS10. The weight depends on a forecast, so the score is
// not proper; it serves to compare systems.
//
// Unit: that of the variable. Better: lower. Source: Ashkboos et al. 2022, arXiv:2206.14786.
var (
	EECRPSGauss = newEECRPS("eecrps_gauss", CRPSGauss)
	EECRPSPlain = newEECRPS("eecrps_plain", CRPSPlain)
)

// newEECRPS defines the score that weights another one by |EFI|.
func newEECRPS(id string, of *Score) *Score {
	return &Score{
		ID: id, Name: of.Name + ", weighted by |EFI|", Formula: "<|EFI| " + of.ID + ">",
		Doc:    "CRPS where the raw ensemble predicts unusual weather; averaged over the whole area, as published.",
		Source: "arXiv:2206.14786",
		Unit:   SameAsVariable, Better: Lower, Divisor: of.Divisor, NormalOnly: of.NormalOnly, Needs: of.Needs | Index, MinMembers: of.MinMembers, Parts: 1,
		Point: func(parts []float64, c *Case) {
			of.Point(parts, c)
			parts[0] *= math.Abs(c.Index)
		},
		Value: firstMean,
	}
}
