package significance

import (
	"fmt"
	"math"
)

// MinSeeds is the least number of trainings whose mean has an interval. The variance between two seeds is known so
// badly that no interval from it reaches its level (TestLongCoverageOverSeeds).
const MinSeeds = 3

// seedVariance is the variance that a mean over few seeds adds to that over dates, with its degrees of freedom.
// Uncertainty is the sum of its squared mean squares over their degrees of freedom, for Satterthwaite's formula.
type seedVariance struct{ added, freedom, uncertainty float64 }

// IntervalOverSeeds is Interval for the mean over several trainings that differ in their seed. The interval covers the
// sampling of dates and of seeds. Dates and seeds are crossed random effects, so the variance of the mean over S seeds is
//
//	V = V_dates + V_seeds,  V_seeds = max(0, MS_seeds − MS_interaction/K)/S
//
// V_dates is that of the mean over the seeds of each date ([MemoryOf]). MS_seeds is the variance of the values of the
// seeds, and MS_interaction that of K blocks of dates without the effects of seed and block, which V_dates has already.
// Half the width is √V t. Two quantiles of Student's t distribution are known for a sum of two variances: Satterthwaite's,
// with ν degrees of freedom, and Cochran's, the mean of those of both variances:
//
//	ν = V² / (V_dates²/ν_dates + (MS_seeds/S)²/(S−1) + (MS_interaction/(K S))²/((S−1)(K−1)))
//	t = (1 − w) t(ν) + w (V_dates t(ν_dates) + V_seeds t(S−1))/V,  w = max(0, 1 − (S−1)/ν_dates) V_seeds/V
//
// Satterthwaite's is right for similar degrees of freedom, and too small where most of the variance has 2 and the rest
// many, for which w takes Cochran's (TestLongCoverageOverSeeds).
//
// Shape: seeds [seed][date][quantity], the same dates for each.
// Missing: as Interval; the interval also with fewer than MinSeeds, but one.
// Errors: as Interval, and seeds of different dates.
// Source: Searle, Casella and McCulloch 1992, doi:10.1002/9780470316856, ch. 4 (crossed effects); Satterthwaite 1946,
// doi:10.2307/3002019; Cochran 1964, Biometrics 20, 191–195.
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
	ofInteraction := freedom * float64(blocks-1)
	for _, own := range cells {
		level := meanOf(own)
		for k, v := range own {
			interaction += square(v-level-ofBlock[k]+all) / ofInteraction
		}
	}
	interaction /= float64(blocks) // of the mean over the blocks
	if between <= interaction {
		return &seedVariance{freedom: freedom}
	}
	return &seedVariance{(between - interaction) / count, freedom, square(between/count)/freedom + square(interaction/count)/ofInteraction}
}

// halfWidthWithSeeds is halfWidth with the variance between seeds.
func (m Memory) halfWidthWithSeeds(s *seedVariance, confidence float64) float64 {
	dates := square(m.StandardError)
	v := dates + s.added
	if !(s.added > 0) {
		return m.halfWidth(confidence)
	}
	t := func(freedom float64) float64 { return Memory{StandardError: 1, Freedom: freedom}.halfWidth(confidence) }
	satterthwaite := t(square(v) / (square(dates)/m.Freedom + s.uncertainty))
	cochran := (dates*t(m.Freedom) + s.added*t(s.freedom)) / v
	w := max(0, 1-s.freedom/m.Freedom) * s.added / v
	return math.Sqrt(v) * ((1-w)*satterthwaite + w*cochran)
}

// meanOf is the mean of x.
func meanOf(x []float64) float64 {
	var sum float64
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}
