package search

import (
	"math"
	"slices"
)

// Imbalance is how the times differ that ranks compute in a step: because of decoding, other programs, or slower processors.
// The zero value is no imbalance. Common variation of all ranks is none either.
type Imbalance struct {
	// Ranks is the number of ranks of the measurement. Slowest is the longest time of the ranks in a step over the mean time, in
	// the mean over steps; Persistent is the longest mean time of a rank over the mean time, at most Slowest.
	Ranks               int
	Slowest, Persistent float64
	// Times are equally likely times of a rank in a step, relative to its own mean. Empty: in each step one of the Ranks, drawn
	// at random, takes longer than the others, as Slowest over Persistent says.
	Times []float64
}

// IsKnown reports whether there is a measurement.
func (b Imbalance) IsKnown() bool { return b.Ranks > 1 && b.Slowest >= 1 }

// Random is the part of Slowest that is another rank in each step.
func (b Imbalance) Random() float64 {
	if !b.IsKnown() {
		return 1
	}
	return b.Slowest / max(1, b.Persistent)
}

// times returns Times, or those of one late rank.
func (b Imbalance) times() []float64 {
	if len(b.Times) > 0 {
		return b.Times
	}
	late := min(b.Random(), float64(b.Ranks))
	t := slices.Repeat([]float64{(float64(b.Ranks) - late) / float64(b.Ranks-1)}, b.Ranks)
	t[0] = late
	return t
}

// gridCells is the number of cells between the shortest and the longest time of a step, unless these differ by so little that cells
// of leastCell of the mean are smaller.
const (
	gridCells = 256
	leastCell = 1e-4
)

// grid is the times of ranks in a step on a grid that begins at the shortest one. Those of persistently slow ranks are a second
// kind.
//
// Unit: mean times of a step; ranks in cells, from base on.
type grid struct {
	base, cell float64
	ranks      []draws // by kind, for the number of ranks that is planned
}

// on returns the times of n ranks. One of the measured ranks, and as many of n, are persistently slow.
func (b Imbalance) on(n int) grid {
	times := b.times()
	slow, rest := 0, 1.
	if b.Persistent > 1 {
		slow = max(1, int(math.Round(float64(n)/float64(b.Ranks))))
		rest = max(0, (float64(b.Ranks)-b.Persistent)/float64(b.Ranks-1))
	}
	lo, hi := slices.Min(times), slices.Max(times)
	g := grid{base: rest * lo, cell: max(leastCell, rest*(hi-lo)/gridCells)}
	kind := func(count int, factor float64) {
		if count < 1 {
			return
		}
		d := draws{count: float64(count)}
		var points []spread
		for _, t := range times {
			points = append(points, pointAt((factor*t-g.base)/g.cell))
		}
		weights := slices.Repeat([]float64{1 / float64(len(times))}, len(times))
		d.of = mixed(points, weights)
		g.ranks = append(g.ranks, d)
	}
	kind(slow, b.Persistent)
	kind(n-slow, rest)
	return g
}

// independent returns the mean time of the slowest of n ranks whose times are independent draws: Σ x·(F(x)ⁿ − F(x−)ⁿ) with
// their distribution function F.
func (b Imbalance) independent(n int) float64 {
	g := b.on(n)
	return g.base + g.cell*largest(g.ranks).mean()
}

// SlowestOf returns the mean time of the slowest of n ranks in a step over the mean time. For the measured number of ranks it is
// the measured one. For others the excess is that of independent draws, scaled so that it agrees with the measurement, and no
// larger than that of the longest time.
func (b Imbalance) SlowestOf(n int) float64 {
	if !b.IsKnown() || n < 2 {
		return 1
	}
	if n == b.Ranks {
		return b.Slowest
	}
	most := max(1, b.Persistent)*slices.Max(b.times()) - 1
	drawn := b.independent(b.Ranks) - 1
	if drawn <= 0 {
		return b.Slowest
	}
	return 1 + min(most, (b.independent(n)-1)*(b.Slowest-1)/drawn)
}

// quantiles is the number of Times of a measurement.
const quantiles = 50

// ImbalanceOf returns the imbalance of the times that ranks computed, in any unit.
//
// Shape: times [rank][step], at least one step. Of one rank, or without time, it is the zero value.
func ImbalanceOf(times [][]float64) Imbalance {
	b := Imbalance{Ranks: len(times)}
	if b.Ranks < 2 {
		return Imbalance{}
	}
	steps := len(times[0])
	means, total := make([]float64, b.Ranks), 0.
	for r, own := range times {
		for _, t := range own {
			means[r] += t / float64(steps)
		}
		total += means[r] / float64(b.Ranks)
	}
	if total <= 0 {
		return Imbalance{}
	}
	b.Persistent = slices.Max(means) / total
	var all []float64
	for step := range steps {
		slowest, common := 0., 0. // common to the ranks: variation of the step itself
		for r := range times {
			slowest = max(slowest, times[r][step])
			common += times[r][step] / means[r] / float64(b.Ranks)
		}
		b.Slowest += slowest / total / float64(steps)
		for r := range times {
			all = append(all, times[r][step]/means[r]/common)
		}
	}
	slices.Sort(all)
	n := min(quantiles, len(all))
	for k := range n {
		part := all[len(all)*k/n : len(all)*(k+1)/n]
		mean := 0.
		for _, t := range part {
			mean += t / float64(len(part))
		}
		b.Times = append(b.Times, mean)
	}
	return b
}
