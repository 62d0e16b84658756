package score

import (
	"fmt"
	"math"
	"slices"
	"sync"
)

// EFI is the extreme forecast index of members against quantiles of the climate:
//
//	(2/π) ∫₀¹ (p − F(q(p))) / √(p(1−p)) dp
//
// F(q(p)) is the share of members at or below the climate's p quantile, taken as linear
// between the levels; the integral is then exact on each stretch. −1: all below the
// climate, 1: all above it.
//
// Shape: climate [n+1] quantiles at levels 0, 1/n, …, 1, ascending; members [member].
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

// index is EFI of any forecast distribution, below being the probability of values up to q.
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

// stretch is p₀ to p₁ with ∫ dp/√(p(1−p)) = arccos(1−2p) and ∫ p dp/√(p(1−p)) =
// arccos(√(1−p)) − √(p(1−p)) over it, by which F = f₀ + s(p−p₀) is integrated.
type stretch struct{ p0, p1, zeroth, first float64 }

// stretchesOf keeps stretches by their number: every point needs them.
var stretchesOf sync.Map

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

// EFIENS10 is the index as the ENS-10 benchmark computes it: levels k/20, and F(q) the
// level j/20 of the first of the members' own 21 quantiles (linear between order
// statistics) that reaches q, 1 if none does:
//
//	(2/π) Σ_{k=1..19} (k/20 − F(q_k)) / √(k/20 (1−k/20)) · 0.05
//
// It reaches ±0.7914 only, and overstates F by up to 0.05. Published EECRPS rest on it.
//
// Shape: climate [21]; members ascending. Source: Ashkboos et al. 2022, arXiv:2206.14786.
func EFIENS10(climate, members []float64) float64 {
	var sum float64
	for k := 1; k < 20; k++ {
		p, f := float64(k)/20, 1.0
		if math.IsNaN(climate[k]) {
			return math.NaN()
		}
		for j := range 20 {
			if quantile(members, float64(j)/20) >= climate[k] {
				f = float64(j) / 20
				break
			}
		}
		sum += (p - f) / math.Sqrt(p*(1-p)) * 0.05
	}
	return 2 / math.Pi * sum
}

// EFIMap is an index, EFI or EFIENS10, at every point.
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

// SOT is the shift of tails at level p, 0.9 for the upper tail and 0.1 for the lower:
//
//	− (Q_f(p) − Q_c(p₁)) / (Q_c(p) − Q_c(p₁))
//
// with p₁ = 0.99 above and 0.01 below, Q_f of the members and Q_c of the climate. Above 0
// some members lie beyond the climate's extreme; −1: the tail is the climate's. NaN if
// the climate's two quantiles agree.
//
// Shape: members ascending. Source: Zsótér 2006, ECMWF Newsletter 107.
func SOT(forecast, climate, climateExtreme float64) float64 {
	if climate == climateExtreme {
		return math.NaN()
	}
	return -(forecast - climateExtreme) / (climate - climateExtreme)
}

// MeanAbsEFI is the mean size of the extreme forecast index EFI of the system's own forecast, and
// MeanAbsEFIENS10 that of EFIENS10: how unusual the weather is that it forecasts. SOTUpper and
// SOTLower are its mean shifts of tails at 0.9 and 0.1, over the points where the climate has a
// tail at all.
//
// Unit: none. Better: neither way. Source: Zsótér 2006, ECMWF Newsletter 107.
var (
	MeanAbsEFI = &Score{
		ID: "efi", Name: "size of the extreme forecast index", Formula: "<|EFI|>, EFI = 2/pi integral of (p-F(q_p))/sqrt(p(1-p)) dp, q_p of the climate",
		Doc:    "How unusual the forecast is for location and season: 0 as the climate, 1 beyond all of it.",
		Source: "doi:10.1256/qj.02.152",
		Unit:   Dimensionless, Better: Neither, Needs: Distribution | Quantiles, Parts: 1,
		Point: func(parts []float64, c *Case) {
			parts[0] = math.Abs(index(c.Climate, func(q float64) float64 { return 1 - c.exceedance(q) }))
		},
		Value: firstMean,
	}
	MeanAbsEFIENS10 = &Score{
		ID: "efi_ens10", Name: "size of the extreme forecast index as ENS-10 has it", Formula: "<|EFI|>, EFI = 2/pi sum_k=1..19 (k/20-F(q_k))/sqrt(k/20(1-k/20)) 0.05",
		Doc:    "The index that weights EECRPS; it reaches 0.7914 at most.",
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

// maxSOT bounds a shift of tails, as earthkit-meteo does: where the climate has hardly a tail
// a single point would outweigh all others.
const maxSOT = 10

func newSOT(id, which string, p, extreme float64) *Score {
	return &Score{
		ID: id, Name: "shift of the " + which + " tail", Formula: fmt.Sprintf("<-(Q_f(%g)-Q_c(%g))/(Q_c(%g)-Q_c(%g))>, Q_f of the forecast, Q_c of the climate, each within +-10", p, extreme, p, extreme),
		Doc:    "Above 0 a tenth of the forecast lies beyond the climate's outermost hundredth; -1 as the climate.",
		Source: "Zsoter 2006, ECMWF Newsletter 107",
		Unit:   Dimensionless, Better: Neither, NoSkillScore: true, Needs: Distribution | Tails, Parts: 2,
		Point: func(parts []float64, c *Case) {
			at := func(p float64) float64 { return quantile(c.Climate, p) }
			parts[0], parts[1] = min(max(SOT(c.quantile(p), at(p), at(extreme)), -maxSOT), maxSOT), 1
			if math.IsNaN(parts[0]) {
				parts[0], parts[1] = 0, 0
			}
		},
		Value: func(mean []float64, _ int) float64 { return mean[0] / mean[1] },
	}
}

// EECRPSGauss and EECRPSPlain are the extreme-event weighted CRPS, < |EFI| CRPS >: the
// index is that of the raw ensemble and the same for all systems. The ENS-10 benchmark
// takes the Gaussian CRPS and EFIENS10. The weight is chosen by the forecast, which can
// be hedged: it compares systems, it is no proper score.
//
// Unit: that of the variable. Better: lower. Source: Ashkboos et al. 2022, arXiv:2206.14786.
var (
	EECRPSGauss = newEECRPS("eecrps_gauss", CRPSGauss)
	EECRPSPlain = newEECRPS("eecrps_plain", CRPSPlain)
)

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
