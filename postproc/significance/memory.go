package significance

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Memory describes how much the dates of a series depend on each other.
type Memory struct {
	// Lag1 is the correlation of neighbouring dates, corrected for the estimation of the
	// mean and increased by 0.4 of its standard error; 0 or more.
	Lag1 float64
	// Block is the length of blocks of which a bootstrap estimates the standard error of
	// the mean best.
	Block int
	// Independent is the number of independent dates with the same standard error of the mean.
	Independent float64
	// StandardError of the mean, and its degrees of freedom for Student's t distribution.
	StandardError, Freedom float64
}

// MemoryOf measures the memory of a series. The standard error of its mean is the larger
// one of two estimates. One takes the series as autoregressive of order 1, so that memory
// that exceeds a few dates is seen in a short series:
//
//	ρ = (n r₁ + 1)/(n − 3) (1 + 110/n²),  ρ̂ = max(ρ + 0.4 √((1 − ρ²)/n), 0),  n' = n / (1 + 2 Σ_k (1 − k/n) ρ̂ᵏ)
//	SE² = γ₀ / (1 − 1/n') / n',  n' − 1 degrees of freedom
//
// The factor 1 + 110/n² is of positive ρ only. It and the 0.4 standard errors make the coverage of 95 % intervals of
// 13 to 365 dates of correlation 0 to 0.8 as even as possible (TestLongCoverageOfIntervals). The other estimate is that
// of moving blocks of length b, divided by 1 − b/n, with n/b − 1 degrees of freedom, if there are at least 11 blocks:
// the variance of fewer is often too large by chance. The block length is that of Politis and White with the correction
// of 2009.
//
// Shape: x [date] in temporal order. Missing: NaN in gives NaN.
// Source: Politis and White 2004, doi:10.1081/ETC-120028836; Patton, Politis and White 2009,
// doi:10.1080/07474930802459016; Marriott and Pope 1954, doi:10.1093/biomet/41.3-4.390 (ρ);
// Thiébaux and Zwiers 1984, doi:10.1175/1520-0450(1984)023<0800:TIAEOE>2.0.CO;2 (n').
func MemoryOf(x []float64) Memory {
	n := float64(len(x))
	most := min(len(x)-1, int(math.Ceil(math.Sqrt(n)))+lagsTogether(n))
	if most < 1 {
		return Memory{0, 1, n, math.NaN(), math.NaN()}
	}
	g := autocovariance(x, most)
	if !(g[0] > 0) || g[0] <= 1e-24*square(slices.MaxFunc(x, func(a, b float64) int { return cmpAbs(a, b) })) {
		return Memory{0, 1, n, 0, n - 1} // all values agree up to rounding
	}
	m := Memory{Block: blockLength(g, n)}
	rho := 0.0
	if n > 4 {
		rho = min(max((n*g[1]/g[0]+1)/(n-3), -0.999), 0.999)
		rho = min(max(rho, rho*(1+fewDates/(n*n))), 0.999)
	}
	m.Lag1 = min(max(rho+0.4*math.Sqrt((1-rho*rho)/n), 0), 0.985)
	m.Independent = max(n/inflation(m.Lag1, n), 1.2)
	m.StandardError = math.Sqrt(g[0] / (1 - 1/m.Independent) / m.Independent)
	m.Freedom = max(m.Independent-1, leastFreedom)
	b := float64(m.Block)
	blocks := Memory{m.Lag1, m.Block, 0, math.Sqrt(blockVariance(x, m.Block) / (1 - b/n)), max(n/b-1, leastFreedom)}
	if blocks.Freedom >= leastBlocks-1 && blocks.halfWidth(0.95) > m.halfWidth(0.95) {
		blocks.Independent = min(m.Independent, max(g[0]/square(blocks.StandardError), 1.2))
		return blocks
	}
	return m
}

// fewDates and leastBlocks are constants of MemoryOf.
const (
	fewDates    = 110
	leastBlocks = 11
)

// leastFreedom limits the quantiles of Student's t distribution for series of about two
// independent dates.
const leastFreedom = 1.5

// halfWidth is half the width of the interval of the mean.
func (m Memory) halfWidth(confidence float64) float64 {
	p := 0.5 + confidence/2
	if math.IsInf(m.Freedom, 1) {
		return m.StandardError * distuv.UnitNormal.Quantile(p)
	}
	return m.StandardError * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: m.Freedom}.Quantile(p)
}

// inflation is n times the variance of the mean of n dates of an autoregressive series of unit variance.
func inflation(rho, n float64) float64 {
	sum, power := 1.0, 1.0
	for k := 1.0; k < n && power > 1e-12; k++ {
		power *= rho
		sum += 2 * (1 - k/n) * power
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

// blockVariance is the variance of the mean that moving blocks of length b give.
func blockVariance(x []float64, b int) float64 {
	n := float64(len(x))
	sums := make([]float64, len(x)+1)
	for i, v := range x {
		sums[i+1] = sums[i] + v
	}
	count := len(x) - b + 1
	var mean, variance float64
	for i := range count {
		mean += (sums[i+b] - sums[i]) / float64(b) / float64(count)
	}
	for i := range count {
		variance += square((sums[i+b]-sums[i])/float64(b)-mean) / float64(count)
	}
	return float64(b) / n * variance
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
