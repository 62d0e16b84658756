package score

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Bootstrap describes the resampling of dates behind the intervals: moving
// blocks of neighbouring dates, so that the dependence within a block survives.
// The zero value is the default.
//
// Source: Künsch 1989, doi:10.1214/aos/1176347265; Wilks 1997,
// doi:10.1175/1520-0442(1997)010<0065:RHTFAF>2.0.CO;2.
type Bootstrap struct {
	Resamples   int     `json:"resamples"`    // 0 means 2000
	BlockLength int     `json:"block_length"` // dates in a block; 0 means the cube root of their number, rounded up
	Confidence  float64 `json:"confidence"`   // 0 means 0.95
	Seed        uint64  `json:"seed"`
}

// resolved fills in defaults for n dates.
//
// Errors: a block that is longer than the series, or values out of range.
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
		return b, fmt.Errorf("score: bootstrap of %d dates with %d resamples, blocks of %d, confidence %g", n, b.Resamples, b.BlockLength, b.Confidence)
	}
	return b, nil
}

// draws gives, for every resample, how often each of n dates is in it. Blocks
// start anywhere from 0 to n−BlockLength with equal chance; the last is cut so
// that a resample has n dates. There are none of dates that have no interval: every
// number of a verification would be made of each in vain. b is resolved.
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

// minDates is how many dates an interval needs: resamples of fewer differ too little from
// each other, at worst not at all, and their interval would be too narrow.
const minDates = 8

// MinDates is how many dates an interval needs. A block length that is not set asks for no more.
func (b Bootstrap) MinDates() int { return max(minDates, 2*b.BlockLength) }

// hasInterval tells whether so many dates have intervals. b is resolved.
func (b Bootstrap) hasInterval(n int) bool { return n >= b.MinDates() }

// interval is the percentile interval of the resampled values, or NaN where there are too
// few dates, less than two blocks, or a resample has no value. b is resolved.
func (b Bootstrap) interval(values []float64, n int) (low, high float64) {
	if !b.hasInterval(n) || slices.ContainsFunc(values, math.IsNaN) {
		return math.NaN(), math.NaN()
	}
	slices.Sort(values)
	tail := (1 - b.Confidence) / 2
	return quantile(values, tail), quantile(values, 1-tail)
}

// Interval is a function of sums over dates with its interval: rows [date][quantity] are
// what each date adds, in order, and of makes one number of their sums.
//
// Errors: no dates, rows of different length, a bootstrap that does not fit the dates.
func (b Bootstrap) Interval(rows [][]float64, of func(sums []float64) float64) (value, low, high float64, err error) {
	if len(rows) == 0 {
		return 0, 0, 0, fmt.Errorf("score: no dates")
	}
	for _, r := range rows {
		if len(r) != len(rows[0]) {
			return 0, 0, 0, fmt.Errorf("score: dates with %d and %d sums", len(rows[0]), len(r))
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

// quantile interpolates linearly between the order statistics of sorted v
// (R type 7).
func quantile(v []float64, p float64) float64 {
	at := p * float64(len(v)-1)
	i := int(at)
	if i+1 >= len(v) {
		return v[len(v)-1]
	}
	f := at - float64(i)
	return v[i]*(1-f) + v[i+1]*f
}
