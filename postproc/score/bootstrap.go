package score

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Bootstrap configures the resampling of dates behind the confidence intervals. It is a
// moving-block bootstrap: blocks of consecutive dates are drawn with replacement, which
// preserves the dependence between dates within a block. The zero value is the default.
//
// Source: Künsch 1989, doi:10.1214/aos/1176347265; Wilks 1997,
// doi:10.1175/1520-0442(1997)010<0065:RHTFAF>2.0.CO;2.
type Bootstrap struct {
	Resamples   int     `json:"resamples"`    // 0: 2000
	BlockLength int     `json:"block_length"` // dates per block; 0: the cube root of the number of dates, rounded up
	Confidence  float64 `json:"confidence"`   // level of the intervals; 0: 0.95
	Seed        uint64  `json:"seed"`         // of the random numbers
}

// resolved replaces zero fields by the defaults for n dates.
//
// Errors: a block longer than the series, or values out of range.
func (b Bootstrap) resolved(n int) (Bootstrap, error) {
	if b.Resamples == 0 {
		b.Resamples = 2000
	}
	if b.BlockLength == 0 {
		b.BlockLength = int(math.Ceil(math.Cbrt(float64(n)) - 1e-9))
	}
	if b.Confidence == 0 {
		b.Confidence = 0.95
	}
	if b.Resamples < 0 || b.BlockLength < 1 || b.BlockLength > max(n, 1) || !(b.Confidence > 0 && b.Confidence < 1) {
		return b, fmt.Errorf("score: bootstrap: invalid for %d dates: %d resamples (want at least 1), blocks of %d dates (want 1 to the number of dates), confidence %g (want between 0 and 1)", n, b.Resamples, b.BlockLength, b.Confidence)
	}
	return b, nil
}

// draws returns, for every resample, how often it contains each of n dates. A block
// begins at any of the dates 0 to n−BlockLength with equal probability. The last block
// is shortened so that a resample has n dates. With too few dates for an interval it
// returns nil. b is resolved.
//
// Shape: [resample][date].
func (b Bootstrap) draws(n int) [][]int {
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

// minDates is the least number of dates for an interval. Resamples of fewer dates
// differ so little from each other that the interval would be too narrow.
const minDates = 8

// MinDates is the least number of dates for an interval: 8, and at least two blocks. A
// zero BlockLength adds no condition.
func (b Bootstrap) MinDates() int { return max(minDates, 2*b.BlockLength) }

// hasInterval reports whether n dates are enough for an interval. b is resolved.
func (b Bootstrap) hasInterval(n int) bool { return n >= b.MinDates() }

// interval is the percentile interval of the resampled values. It is NaN if there are
// too few dates or a resample has no value. It sorts values. b is resolved.
func (b Bootstrap) interval(values []float64, n int) (low, high float64) {
	if !b.hasInterval(n) || slices.ContainsFunc(values, math.IsNaN) {
		return math.NaN(), math.NaN()
	}
	slices.Sort(values)
	tail := (1 - b.Confidence) / 2
	return quantile(values, tail), quantile(values, 1-tail)
}

// Interval evaluates a function of sums over dates, with its bootstrap interval.
//
// Shape: rows [date][quantity], the contribution of each date in temporal order; of
// maps the sums [quantity] to one number.
// Errors: no dates, rows of different length, a bootstrap that does not fit the dates.
func (b Bootstrap) Interval(rows [][]float64, of func(sums []float64) float64) (value, low, high float64, err error) {
	if len(rows) == 0 {
		return 0, 0, 0, fmt.Errorf("score: no dates")
	}
	for _, r := range rows {
		if len(r) != len(rows[0]) {
			return 0, 0, 0, fmt.Errorf("score: the first date has %d sums, another %d", len(rows[0]), len(r))
		}
	}
	if b, err = b.resolved(len(rows)); err != nil {
		return 0, 0, 0, err
	}
	at := func(times func(date int) float64) float64 {
		sums := make([]float64, len(rows[0]))
		for i, r := range rows {
			for k, v := range r {
				sums[k] += times(i) * v
			}
		}
		return of(sums)
	}
	value = at(func(int) float64 { return 1 })
	var values []float64
	for _, times := range b.draws(len(rows)) {
		values = append(values, at(func(i int) float64 { return float64(times[i]) }))
	}
	low, high = b.interval(values, len(rows))
	return value, low, high, nil
}

// quantile is the p quantile of ascending v, by linear interpolation between order
// statistics: position p(n−1) from 0 (definition 7 of Hyndman and Fan 1996, the default
// of R and NumPy).
func quantile(v []float64, p float64) float64 {
	at := p * float64(len(v)-1)
	i := int(at)
	if i+1 >= len(v) {
		return v[len(v)-1]
	}
	f := at - float64(i)
	return v[i]*(1-f) + v[i+1]*f
}
