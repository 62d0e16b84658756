package significance

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Memory describes how much the dates of a series depend on each other.
type Memory struct {
	// Lag1 is the correlation of neighbouring dates, corrected for the estimation of the
	// mean and for few dates, and increased by 0.2 of its standard error; 0 or more.
	Lag1 float64
	// Block is the length of blocks of which a bootstrap estimates the standard error of
	// the mean best.
	Block int
	// Independent is the number of independent dates with the same standard error of the mean, at least 2.5.
	Independent float64
	// StandardError of the mean, and its degrees of freedom for Student's t distribution, at least 2.
	StandardError, Freedom float64
}

// MemoryOf measures the memory of a series, which is taken as autoregressive of order 1, so that memory that exceeds a
// few dates is seen in a short series:
//
//	ρₖ = (n rₖ + 1)/(n − 3),  ρ̂ = max(ρ₁ (1 + 250/n²) + 0.2 √((1 − ρ²)/n), 0)
//	n' = max(n / (1 + 2 Σ_k (1 − k/n) ρ̂ᵏ), 2.5),  SE² = γ₀ / (1 − 1/n') / n',  max(n' − 1, 2) degrees of freedom
//
// The factor 1 + 250/n² is of positive ρ₁ only. It and the 0.2 standard errors make the coverage of 95 % intervals of
// 13 to 365 dates of correlation 0 to 0.8 as even as possible (TestLongCoverageOfIntervals). Memory that lasts as long
// as the dates cannot be told from a trend. The bounds of n' and of the degrees of freedom limit half of a 95 %
// interval to 3.5 standard deviations of the dates, however large ρ̂ is.
//
// Memory below noise decreases more slowly than ρ₁ᵏ. If ρ₁ and ρ₂ of 30 dates or more exceed one standard error, 1/√n,
// the correlation at lag k is also taken as ρ₁ φᵏ⁻¹ with φ = ρ₂/ρ₁, between ρ₁ and 0.9, and the smaller n' counts.
// The block length is that of Politis and White with the correction of 2009.
//
// Shape: x [date] in temporal order. Missing: NaN in gives NaN.
// Source: Politis and White 2004, doi:10.1081/ETC-120028836; Patton, Politis and White 2009,
// doi:10.1080/07474930802459016; Marriott and Pope 1954, doi:10.1093/biomet/41.3-4.390 (ρ);
// Thiébaux and Zwiers 1984, doi:10.1175/1520-0450(1984)023<0800:TIAEOE>2.0.CO;2 (n').
func MemoryOf(x []float64) Memory { return memoryOf(x, hidden{}, nil) }

// hidden is the memory of other series of the same dates, which a series may hide.
type hidden struct {
	decay  float64 // from date to date; 0: unknown
	uplift float64 // of the fitted amplitude, in its standard errors
}

// memoryOf is MemoryOf of a series of which more is known. If other series of the same dates have a memory that
// decreases by decay from date to date, the correlation at lag k is also taken as A decayᵏ, where A is fitted to the
// first lags by least squares and increased by 0.5 or 0.8 of its standard error, and the smaller n' counts:
//
//	A = Σ ρₖ decayᵏ / Σ decay²ᵏ + uplift / √(n Σ decay²ᵏ),  k = 1 … 5
//
// The uplifts were chosen on 40, 75 and 150 dates; TestLongCoverageOfCalibration judges them on other numbers of dates.
//
// noise is the autocovariance of a part of x, from lag 0 on, that the memory and the standard error leave out. Without it
// ρₖ is at most 0.9, or that of x: as a ratio of differences it may be anything.
func memoryOf(x []float64, h hidden, noise []float64) Memory {
	n := float64(len(x))
	most := min(len(x)-1, int(math.Ceil(math.Sqrt(n)))+lagsTogether(n))
	if most < 1 {
		return Memory{0, 1, n, math.NaN(), math.NaN()}
	}
	g := autocovariance(x, most)
	if !(g[0] > 0) || g[0] <= 1e-24*square(slices.MaxFunc(x, func(a, b float64) int { return cmpAbs(a, b) })) {
		return Memory{0, 1, n, 0, n - 1} // all values agree up to rounding
	}
	block := blockLength(g, n)
	subtractNoise(g, noise)
	lag1, variance := memoryOfLags(g, n, h)
	m := Memory{Lag1: lag1, Block: block}
	m.Independent = max(n/variance, leastIndependent)
	m.StandardError = math.Sqrt(g[0] / (1 - 1/m.Independent) / m.Independent)
	m.Freedom = max(m.Independent-1, leastFreedom)
	return m
}

// Constants of MemoryOf.
const (
	fewDates         = 250
	leastIndependent = 2.5
	leastFreedom     = 2
	leastBelowNoise  = 30 // dates
	mostDecay        = 0.9
	uplift           = 0.2 // standard errors of ρ₁
	fitUplift        = 0.5 // standard errors of A
	symmetricUplift  = 0.8 // of symmetric intervals
	fittedLags       = 5
	leastSignal      = 0.1 // of the variance
)

// subtractNoise subtracts the autocovariance of noise. At least leastSignal of the variance remains.
func subtractNoise(g, noise []float64) {
	if len(noise) == 0 {
		return
	}
	least, most := leastSignal*g[0], max(g[1]/g[0], mostDecay)
	for k := range min(len(g), len(noise)) {
		g[k] -= noise[k]
	}
	g[0] = max(g[0], least)
	for k := range g[1:] {
		g[1+k] = min(max(g[1+k], -g[0]), most*g[0])
	}
}

// memoryOfLags returns ρ̂ of MemoryOf, and n times the variance of the mean of n dates of unit variance.
func memoryOfLags(g []float64, n float64, h hidden) (lag1, variance float64) {
	if n <= 4 {
		return 0, 1
	}
	correlation := func(k int) float64 { return min(max((n*g[k]/g[0]+1)/(n-3), -mostLag1), mostLag1) }
	rho := correlation(1)
	rho = min(max(rho, rho*(1+fewDates/(n*n))), mostLag1)
	lag1 = min(max(rho+uplift*math.Sqrt((1-rho*rho)/n), 0), mostLag1)
	variance = inflation(lag1, lag1, n)
	if decay := h.decay; decay > 0 {
		var fit, squares float64
		for k := 1; k <= min(fittedLags, len(g)-1); k++ {
			fit += correlation(k) * math.Pow(decay, float64(k))
			squares += math.Pow(decay, float64(2*k))
		}
		amplitude := fit/squares + h.uplift/math.Sqrt(n*squares)
		variance = max(variance, inflation(min(max(amplitude, 0), 1)*decay, decay, n))
	}
	if n < leastBelowNoise {
		return lag1, variance
	}
	if one, two := correlation(1), correlation(2); min(one, two) > 1/math.Sqrt(n) {
		variance = max(variance, inflation(one, min(max(two/one, one), mostDecay), n))
	}
	return lag1, variance
}

// mostLag1 is less than 1, so that sums over lags end.
const mostLag1 = 0.999

// halfWidth is half the width of the interval of the mean.
func (m Memory) halfWidth(confidence float64) float64 {
	p := 0.5 + confidence/2
	if math.IsInf(m.Freedom, 1) {
		return m.StandardError * distuv.UnitNormal.Quantile(p)
	}
	return m.StandardError * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: m.Freedom}.Quantile(p)
}

// inflation is n times the variance of the mean of n dates of unit variance, whose correlation at lag k is rho·decayᵏ⁻¹.
func inflation(rho, decay, n float64) float64 {
	sum, power := 1.0, rho
	for k := 1.0; k < n && power > 1e-12; k++ {
		sum += 2 * (1 - k/n) * power
		power *= decay
	}
	return sum
}

// autocovariance is that of lags 0 to most, with divisor n.
func autocovariance(x []float64, most int) []float64 {
	n := float64(len(x))
	var mean float64
	for _, v := range x {
		mean += v / n
	}
	out := make([]float64, most+1)
	for k := range out {
		for t := k; t < len(x); t++ {
			out[k] += (x[t] - mean) * (x[t-k] - mean) / n
		}
	}
	return out
}

// lagsTogether is the number of consecutive lags without significant correlation after
// which memory is taken to have ended.
func lagsTogether(n float64) int { return max(5, int(math.Ceil(math.Sqrt(math.Log10(n))))) }

// blockLength is the length of moving blocks by Politis and White, at most a third of the series.
func blockLength(g []float64, n float64) int {
	last, significant := len(g)-1, 2*math.Sqrt(math.Log10(n)/n)
	memory, quiet := 0, 0
	for k := 1; k <= last && quiet < lagsTogether(n); k++ {
		if math.Abs(g[k]/g[0]) < significant {
			quiet++
		} else {
			memory, quiet = k, 0
		}
	}
	width := min(2*max(memory, 1), last)
	spectrum, slope := g[0], 0.0
	for k := 1; k <= width; k++ {
		taper := min(1, 2*(1-float64(k)/float64(width)))
		spectrum += 2 * taper * g[k]
		slope += 2 * taper * float64(k) * g[k]
	}
	most := math.Ceil(min(3*math.Sqrt(n), n/3))
	if !(spectrum > 0) {
		return int(most)
	}
	b := math.Cbrt(1.5 * square(slope/spectrum) * n) // 2 G²/D with D = 4/3 g(0)²
	return int(max(1, math.Round(min(b, most))))
}

func square(x float64) float64 { return x * x }

// cmpAbs compares absolute values.
func cmpAbs(a, b float64) int {
	switch a, b := math.Abs(a), math.Abs(b); {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
