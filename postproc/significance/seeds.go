package significance

import (
	"fmt"
	"math"
)

// MinSeeds is the least number of trainings whose mean has an interval. The variance between two seeds is known so
// badly that no interval from it reaches its level (TestLongCoverageOverSeeds).
const MinSeeds = 3

// MinDatesOverSeeds is the least number of dates for the interval of a mean over several trainings: fewer dates do not
// tell memory from what differs by date and seed (TestLongCoverageOverSeeds).
const MinDatesOverSeeds = 30

// seedVariance is the variance of a mean over few seeds that is not that of its dates.
type seedVariance struct {
	noise          []float64 // autocovariance by lag of what differs by date and seed, in the mean over seeds
	interaction    float64   // variance of the mean from that
	added, freedom float64   // variance of the mean from that and the seeds, with its degrees of freedom
}

// IntervalOverSeeds is Interval for the mean over several trainings that differ in their seed. The interval covers the
// sampling of dates and of seeds. Dates and seeds are crossed random effects, so the variance of the mean over S seeds is
//
//	V = V_dates + V_seeds,  V_seeds = max(MS_seeds, MS_interaction/K)/S
//
// V_dates is that of what a date has in common for all seeds: the autocovariance of the mean over the seeds of each date,
// less that of what differs by date and seed, has the memory and the standard error of [MemoryOf]. What differs would hide
// the memory. MS_seeds is the variance of the values of the seeds, which has the interaction of seeds and dates, and
// MS_interaction that of K blocks of dates without the effects of seed and block. Half the width is √V t. Two quantiles of
// Student's t distribution are combined: that with ν degrees of freedom, and Cochran's, the mean of those of both variances:
//
//	ν = V² / (V_dates²/(ν_dates + 1) + V_seeds²/(ν_seeds + 1)) − 1
//	t = (1 − w) t(ν) + w (V_dates t(ν_dates) + V_seeds t(ν_seeds))/V,  w = max(0, 1 − ν_seeds/ν_dates) (V_seeds/V)²
//
// With 0 in place of 1 that is Satterthwaite's, whose intervals of two variances with few degrees of freedom are too wide,
// and with 2 Welch's with unbiased squares, too narrow. Both are right for similar degrees of freedom, and too small where
// most of the variance has 2 and the rest many, for which w takes Cochran's. MemoryOf takes V_dates
// rather too large than too small, as is right for an interval from it alone. In the sum it has 3/4 of its degrees of freedom,
// and is smaller in proportion, so that its own interval is the same; then it is reduced by 0.7 V_seeds/V, as the quantile of
// two uncertain variances has a margin already. These constants were chosen on 28 to 150 dates and three, four and seven seeds;
// TestLongCoverageOverSeeds judges them on other numbers of both.
//
// Shape: seeds [seed][date][quantity], the same dates for each.
// Missing: as Interval; the interval also with fewer than MinSeeds or MinDatesOverSeeds, but for one seed.
// Errors: as Interval, and seeds of different dates.
// Source: Searle, Casella and McCulloch 1992, doi:10.1002/9780470316856, ch. 4 (crossed effects); Welch 1947,
// doi:10.1093/biomet/34.1-2.28, and Satterthwaite 1946, doi:10.2307/3002019 (ν); Cochran 1964, Biometrics 20, 191–195.
func (b Bootstrap) IntervalOverSeeds(seeds [][][]float64, of func(sums []float64) float64) (value, low, high float64, err error) {
	if len(seeds) == 1 {
		return b.Interval(seeds[0], of)
	}
	if len(seeds) == 0 {
		return 0, 0, 0, fmt.Errorf("significance: no seeds")
	}
	mean := make([][]float64, len(seeds[0]))
	for _, rows := range seeds {
		if len(rows) != len(mean) {
			return 0, 0, 0, fmt.Errorf("significance: the first seed has %d dates, another %d", len(mean), len(rows))
		}
		for i, r := range rows {
			if mean[i] == nil {
				mean[i] = make([]float64, len(r))
			}
			if len(r) != len(mean[i]) {
				return 0, 0, 0, fmt.Errorf("significance: a date has %d sums with the first seed, %d with another", len(mean[i]), len(r))
			}
			for k, v := range r {
				mean[i][k] += v / float64(len(seeds))
			}
		}
	}
	value, e, err := b.evaluate(mean, of, seeds)
	if len(seeds) < MinSeeds || len(mean) < MinDatesOverSeeds {
		e.Low, e.High = math.NaN(), math.NaN()
	}
	return value, e.Low, e.High, err
}

// seedVarianceOf estimates the variance between seeds, with blocks of dates taken as independent; nil for few seeds.
func seedVarianceOf(seeds [][][]float64, of func(sums []float64) float64, block int) *seedVariance {
	if len(seeds) < MinSeeds {
		return nil
	}
	n, count := len(seeds[0]), float64(len(seeds))
	values, own := make([]float64, len(seeds)), make([][]float64, len(seeds)) // own [seed][date]: influence, then without effects
	for s, rows := range seeds {
		var without []float64
		values[s], without = leaveOneOut(rows, of)
		own[s] = make([]float64, n)
		for i, v := range without {
			own[s][i] = float64(n-1) * (values[s] - v)
		}
	}
	centre(own)
	freedom := count - 1
	mean, between := meanOf(values), 0.0
	for _, v := range values {
		between += square(v-mean) / freedom / count
	}
	out := &seedVariance{noise: make([]float64, min(fittedLags+1, n))}
	for _, x := range own {
		for k, v := range autocovariance(x, len(out.noise)-1) {
			out.noise[k] += v / freedom / count * float64(n) / float64(n-1)
		}
	}
	blocks := max(2, n/block)
	ofInteraction := freedom * float64(blocks-1)
	for _, x := range own {
		cells := make([]float64, blocks)
		for i, v := range x {
			cells[i*blocks/n] += v / float64(n)
		}
		for _, v := range cells {
			out.interaction += square(v) * float64(blocks) / ofInteraction / count
		}
	}
	out.added, out.freedom = between, freedom
	if out.interaction > between {
		out.added, out.freedom = out.interaction, ofInteraction
	}
	return out
}

// centre subtracts the effects of both axes.
func centre(x [][]float64) {
	column := make([]float64, len(x[0]))
	for _, row := range x {
		for i, v := range row {
			column[i] += v / float64(len(x))
		}
	}
	all := meanOf(column)
	for _, row := range x {
		level := meanOf(row)
		for i := range row {
			row[i] += all - level - column[i]
		}
	}
}

// Constants of IntervalOverSeeds.
const (
	ofTheSum  = 0.75 // the part of the degrees of freedom that V_dates has in a sum
	reduction = 0.7  // of V_dates, relative to the share of V_seeds
)

// halfWidthWithSeeds is halfWidth with the variance between seeds; nil: one seed.
func (m Memory) halfWidthWithSeeds(s *seedVariance, confidence float64) float64 {
	if s == nil || !(s.added > 0) {
		return m.halfWidth(confidence)
	}
	t := func(freedom float64) float64 { return Memory{StandardError: 1, Freedom: freedom}.halfWidth(confidence) }
	freedom := ofTheSum * m.Freedom
	dates := square(m.halfWidth(confidence) / t(freedom))
	dates *= 1 - reduction*s.added/(dates+s.added)
	v := dates + s.added
	together := square(v)/(square(dates)/(freedom+1)+square(s.added)/(s.freedom+1)) - 1
	cochran := (dates*t(freedom) + s.added*t(s.freedom)) / v
	w := max(0, 1-s.freedom/freedom) * square(s.added/v)
	return math.Sqrt(v) * ((1-w)*t(together) + w*cochran)
}

// meanOf is the mean of x.
func meanOf(x []float64) float64 {
	var sum float64
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}
