package significance

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// Bootstrap configures the resampling of dates behind the confidence intervals. It is a
// moving-block bootstrap: blocks of consecutive dates are drawn with replacement, which
// preserves the dependence between dates within a block. The zero value is the default.
//
// The deviations of the resampled values from their mean are added to the value, so that
// the value lies inside its interval even if resampling moves a score that is not linear to one
// side. They are stretched until the width is that of Student's t distribution with the
// standard error of [MemoryOf], of the influence of each date on the value.
// Blocks of a given length are taken as independent and are not stretched.
//
// Source: Künsch 1989, doi:10.1214/aos/1176347265; Wilks 1997,
// doi:10.1175/1520-0442(1997)010<0065:RHTFAF>2.0.CO;2.
type Bootstrap struct {
	Resamples   int     `json:"resamples"`    // 0: 2000
	BlockLength int     `json:"block_length"` // dates per block; 0: from the memory of the scores
	Confidence  float64 `json:"confidence"`   // level of the intervals; 0: 0.95
	Seed        uint64  `json:"seed"`         // of the random numbers

	measured  bool   // BlockLength was measured
	hidden    hidden // memory of other series
	least     int    // dates, of parts of a score; 0: MinDates
	symmetric bool   // the interval, about the value
}

// Resolved replaces zero fields by the defaults for n dates, except a block length that is
// to be measured.
//
// Errors: a block longer than the series, or values out of range.
func (b Bootstrap) Resolved(n int) (Bootstrap, error) {
	if b.Resamples == 0 {
		b.Resamples = 2000
	}
	b.measured = b.measured || b.BlockLength == 0
	if b.Confidence == 0 {
		b.Confidence = 0.95
	}
	if b.Resamples < 0 || b.BlockLength < 0 || b.BlockLength > max(n, 1) || !(b.Confidence > 0 && b.Confidence < 1) {
		return b, fmt.Errorf("significance: bootstrap: invalid for %d dates: %d resamples (want at least 1), blocks of %d dates (want 1 to the number of dates), confidence %g (want between 0 and 1)", n, b.Resamples, b.BlockLength, b.Confidence)
	}
	return b, nil
}

// WithMemory sets a block length that is to be measured to the median of those of some
// series of n dates, at most half the dates. b is resolved.
func (b Bootstrap) WithMemory(n int, series [][]float64) Bootstrap {
	if !b.measured {
		return b
	}
	var lengths []int
	for _, x := range series {
		if !slices.ContainsFunc(x, math.IsNaN) {
			lengths = append(lengths, MemoryOf(x).Block)
		}
	}
	b.BlockLength = 1
	if len(lengths) > 0 {
		slices.Sort(lengths)
		b.BlockLength = max(1, min(lengths[len(lengths)/2], n/2))
	}
	return b
}

// WithDecay lets intervals see memory that decreases as slowly as the longest of some series of the same dates. Scores
// that are no means over dates are mostly noise date by date, which hides their memory; the bias of the same system shows it.
// b is resolved.
func (b Bootstrap) WithDecay(series [][]float64) Bootstrap {
	b.hidden = hidden{0, fitUplift}
	for _, x := range series {
		if !slices.ContainsFunc(x, isMissing) {
			b.hidden.decay = max(b.hidden.decay, min(MemoryOf(x).Lag1, mostDecay))
		}
	}
	return b
}

// MinDatesOfParts is the least number of dates for the interval of a part of a score or of a distance of a histogram from a
// flat one. Such a value is moved by few dates by as much as it varies, and its interval of them is two to five times too wide in
// the mean and covers 91 to 98 % (TestLongCoverageOfCalibration).
const MinDatesOfParts = 25

// OfParts is b for parts of a score and distances of a histogram from a flat one, which need MinDatesOfParts dates. b is resolved.
func (b Bootstrap) OfParts() Bootstrap {
	b.least = MinDatesOfParts
	return b
}

// Symmetric is b for values that vary most where their dates seem most alike, such as brier_resolution: the interval is
// symmetric about the value, and the margin of the hidden memory is larger. b is resolved.
func (b Bootstrap) Symmetric() Bootstrap {
	b.symmetric, b.hidden.uplift = true, symmetricUplift
	return b
}

// Draws returns, for every resample, how often it contains each of n dates. A block
// begins at any of the dates 0 to n−BlockLength with equal probability. The last block
// is shortened so that a resample has n dates. With too few dates for an interval it
// returns nil. b is resolved.
//
// Shape: [resample][date].
func (b Bootstrap) Draws(n int) [][]int {
	if !b.hasInterval(n) {
		return nil
	}
	r := rand.New(rand.NewPCG(b.Seed, 0x5c0e))
	out := make([][]int, b.Resamples)
	for k := range out {
		times := make([]int, n)
		for left := n; left > 0; {
			start := r.IntN(n - b.BlockLength + 1)
			for i := range min(b.BlockLength, left) {
				times[start+i]++
			}
			left -= b.BlockLength
		}
		out[k] = times
	}
	return out
}

// MinDates is the least number of dates for an interval. The memory of fewer dates is known so badly that no interval
// reaches its level both with and without memory (TestLongCoverageOfIntervals).
const MinDates = 13

// MinDates is the least number of dates for an interval: 13, and at least two blocks of a
// given length; that of OfParts.
func (b Bootstrap) MinDates() int { return max(MinDates, b.least, 2*b.BlockLength) }

// hasInterval reports whether n dates are enough for an interval. b is resolved.
func (b Bootstrap) hasInterval(n int) bool { return n >= b.MinDates() }

// Reason states why a value has no interval; empty: it has.
type Reason string

// Reasons.
const (
	FewDates  Reason = "few_dates" // fewer than Bootstrap.MinDates
	Undefined Reason = "undefined" // a resample has no value
	TooWide   Reason = "too_wide"  // of a skill score: it contains 0, and its ends are ratios that differ by a factor of more than 16
)

// Estimate is the interval of a value, and the memory of the influence of each date on it.
type Estimate struct {
	Low, High         float64
	Independent, Lag1 float64 // as in Memory
	NoInterval        Reason
}

// Estimate returns the interval of values[0] from the resampled values[1:] and the values
// without each date. It sorts values[1:]. b is resolved.
//
// Missing: the interval with too few dates, and if a value is NaN or infinite; Independent and Lag1 if one without a
// date is.
func (b Bootstrap) Estimate(values, without []float64) Estimate {
	return b.estimateWithSeeds(values, without, nil)
}

// estimateWithSeeds is Estimate with the variance that a mean over few seeds adds; nil: none.
func (b Bootstrap) estimateWithSeeds(values, without []float64, seeds *seedVariance) Estimate {
	value, n := values[0], len(without)
	m := Memory{Independent: math.NaN(), Lag1: math.NaN()}
	var noise []float64
	if seeds != nil {
		noise = seeds.noise
	}
	if !slices.ContainsFunc(without, isMissing) && !isMissing(value) {
		influence := make([]float64, n)
		for i, v := range without {
			influence[i] = float64(n-1) * (value - v)
		}
		m = memoryOf(influence, b.hidden, noise)
	}
	out := Estimate{Low: math.NaN(), High: math.NaN(), Independent: m.Independent, Lag1: m.Lag1}
	switch {
	case !b.hasInterval(n):
		out.NoInterval = FewDates
		return out
	case slices.ContainsFunc(values, isMissing):
		out.NoInterval = Undefined
		return out
	}
	resampled := values[1:]
	slices.Sort(resampled)
	var mean, variance float64
	for _, v := range resampled {
		mean += v / float64(len(resampled))
	}
	for _, v := range resampled {
		variance += square(v-mean) / float64(len(resampled))
	}
	normal := distuv.UnitNormal.Quantile(0.5+b.Confidence/2) * math.Sqrt(variance)
	if !b.measured || !(m.StandardError > 0) {
		m.StandardError, m.Freedom = math.Sqrt(variance), math.Inf(1)
		if seeds != nil {
			m.StandardError = math.Sqrt(max(variance-seeds.interaction, 0))
		}
	}
	half := max(normal, m.halfWidthWithSeeds(seeds, b.Confidence))
	if b.symmetric || !(normal > 0) { // or all dates agree
		out.Low, out.High = value-half, value+half
		return out
	}
	stretch := half / normal
	tail := (1 - b.Confidence) / 2
	out.Low = min(value, value+stretch*(dist.EmpiricalQuantile(resampled, tail)-mean))
	out.High = max(value, value+stretch*(dist.EmpiricalQuantile(resampled, 1-tail)-mean))
	return out
}

// isMissing reports whether x is NaN or infinite.
func isMissing(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }

// Interval evaluates a function of sums over dates, with its bootstrap interval.
//
// Shape: rows [date][quantity], the contribution of each date in temporal order; of
// maps the sums [quantity] to one number.
// Errors: no dates, rows of different length, a bootstrap that does not fit the dates.
func (b Bootstrap) Interval(rows [][]float64, of func(sums []float64) float64) (value, low, high float64, err error) {
	value, e, err := b.evaluate(rows, of, nil)
	return value, e.Low, e.High, err
}

// evaluate evaluates a function of sums over dates, with its interval.
func (b Bootstrap) evaluate(rows [][]float64, of func(sums []float64) float64, seeds [][][]float64) (value float64, e Estimate, err error) {
	if len(rows) == 0 {
		return 0, e, fmt.Errorf("significance: no dates")
	}
	for _, r := range rows {
		if len(r) != len(rows[0]) {
			return 0, e, fmt.Errorf("significance: the first date has %d sums, another %d", len(rows[0]), len(r))
		}
	}
	if b, err = b.Resolved(len(rows)); err != nil {
		return 0, e, err
	}
	value, without := leaveOneOut(rows, of)
	influence := make([]float64, len(rows))
	for i, v := range without {
		influence[i] = value - v
	}
	b = b.WithMemory(len(rows), [][]float64{influence})
	values, sums := []float64{value}, make([]float64, len(rows[0]))
	for _, times := range b.Draws(len(rows)) {
		clear(sums)
		for i, r := range rows {
			for k, v := range r {
				sums[k] += float64(times[i]) * v
			}
		}
		values = append(values, of(sums))
	}
	return value, b.estimateWithSeeds(values, without, seedVarianceOf(seeds, of, b.BlockLength)), nil
}

// leaveOneOut evaluates a function of sums over dates, with all dates and without each.
func leaveOneOut(rows [][]float64, of func(sums []float64) float64) (value float64, without []float64) {
	total := make([]float64, len(rows[0]))
	for _, r := range rows {
		for k, v := range r {
			total[k] += v
		}
	}
	value = of(slices.Clone(total))
	sums := make([]float64, len(total))
	for _, r := range rows {
		for k, v := range r {
			sums[k] = total[k] - v
		}
		without = append(without, of(sums))
	}
	return value, without
}
