package significance

import (
	"fmt"
	"math"
)

// MinSeeds is the least number of trainings whose mean has an interval. The variance between two seeds is known so
// badly that no interval from it reaches its level (TestLongCoverageOverSeeds).
const MinSeeds = 3

// seedVariance is the variance that a mean over few seeds adds to that over dates, and its degrees of freedom.
type seedVariance struct{ added, freedom float64 }

// IntervalOverSeeds is Interval for the mean over several trainings that differ in their seed. The interval covers the
// sampling of dates and of seeds. Dates and seeds are crossed: the variance of the mean over S seeds is
//
//	V = V_dates + V_seeds,  V_seeds = max(0, MS_seeds − MS_interaction/K)/S
//
// V_dates is that of the mean over the seeds of each date ([MemoryOf]). MS_seeds is the variance of the values of the
// seeds, and MS_interaction that of K blocks of dates without the effects of seed and block, which V_dates has already.
// Half the width is √V (V_dates t_dates + V_seeds t_seeds)/V, with the quantiles of Student's t distribution for the
// degrees of freedom of both, S − 1 for the seeds.
//
// Shape: seeds [seed][date][quantity], the same dates for each.
// Missing: as Interval; the interval also with fewer than MinSeeds, but one.
// Errors: as Interval, and seeds of different dates.
// Source: Searle, Casella and McCulloch 1992, doi:10.1002/9780470316856, ch. 4 (crossed effects); Cochran 1964,
// Biometrics 20, 191–195 (quantile of a sum of two variances).
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
	if len(seeds) < MinSeeds {
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
	blocks := max(2, n/block)
	values, cells := make([]float64, len(seeds)), make([][]float64, len(seeds)) // cells [seed][block]: mean influence
	for s, rows := range seeds {
		var without []float64
		values[s], without = leaveOneOut(rows, of)
		cells[s] = make([]float64, blocks)
		for i, v := range without {
			cells[s][i*blocks/n] += float64(n-1) * (values[s] - v) * float64(blocks) / float64(n)
		}
	}
	freedom := count - 1
	mean, between := meanOf(values), 0.0
	for _, v := range values {
		between += square(v-mean) / freedom
	}
	ofBlock := make([]float64, blocks)
	for _, own := range cells {
		for k, v := range own {
			ofBlock[k] += v / count
		}
	}
	all, interaction := meanOf(ofBlock), 0.0
	for _, own := range cells {
		level := meanOf(own)
		for k, v := range own {
			interaction += square(v-level-ofBlock[k]+all) / (freedom * float64(blocks-1))
		}
	}
	return &seedVariance{max(0, between-interaction/float64(blocks)) / count, freedom}
}

// halfWidthWithSeeds is halfWidth with the variance between seeds.
func (m Memory) halfWidthWithSeeds(s *seedVariance, confidence float64) float64 {
	dates := square(m.StandardError)
	if !(dates+s.added > 0) {
		return 0
	}
	ofDates, ofSeeds := Memory{StandardError: 1, Freedom: m.Freedom}, Memory{StandardError: 1, Freedom: s.freedom}
	return (dates*ofDates.halfWidth(confidence) + s.added*ofSeeds.halfWidth(confidence)) / math.Sqrt(dates+s.added)
}

// meanOf is the mean of x.
func meanOf(x []float64) float64 {
	var sum float64
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}
