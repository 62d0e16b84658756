package significance

import (
	"math"
	"math/rand/v2"
	"testing"
)

// coversSeeds measures how often the interval of a mean over dates and seeds contains the true mean 0. share is the part
// of the variance of the mean that is that of the seeds; interaction the variance of a score with a date and a seed,
// relative to that with the date.
func coversSeeds(t *testing.T, n, seeds, trials int, rho, share, interaction float64) (coverage float64) {
	r := rand.New(rand.NewPCG(uint64(n*100+seeds), math.Float64bits(share+rho+10*interaction)))
	varDates := (inflation(rho, rho, float64(n)) + interaction/float64(seeds)) / float64(n)
	sd := math.Sqrt(float64(seeds) * varDates * share / (1 - share))
	for k := range trials {
		dates := autoregressive(r, n, rho)
		rows := make([][][]float64, seeds)
		for s := range rows {
			level := sd * r.NormFloat64()
			for _, d := range dates {
				rows[s] = append(rows[s], []float64{d + level + math.Sqrt(interaction)*r.NormFloat64(), 1})
			}
		}
		_, low, high, err := Bootstrap{Resamples: 300, Seed: uint64(k)}.IntervalOverSeeds(rows, func(s []float64) float64 { return s[0] / s[1] })
		if err != nil {
			t.Error(err)
		}
		if low <= 0 && 0 <= high {
			coverage += 1 / float64(trials)
		}
	}
	return coverage
}

// The interval of a mean over seeds reaches its level where that over dates alone does not. The sampling error of 400
// trials is 1.1 %.
func TestIntervalOverSeeds(t *testing.T) {
	for _, c := range []struct {
		seeds              int
		share, interaction float64
	}{{3, 0.5, 0}, {3, 0.8, 1}, {5, 0.8, 0}} {
		if coverage := coversSeeds(t, 52, c.seeds, 400, 0, c.share, c.interaction); coverage < 0.92 || coverage > 0.99 {
			t.Errorf("%+v: coverage %.3f", c, coverage)
		}
	}
	// The seeds' share of 80 % widens the interval by √5 and more.
	rows := make([][][]float64, 3)
	r := rand.New(rand.NewPCG(1, 2))
	for range 52 {
		d := r.NormFloat64()
		for s, level := range []float64{-0.5, 0, 0.5} {
			rows[s] = append(rows[s], []float64{d + level, 1})
		}
	}
	mean := func(s []float64) float64 { return s[0] / s[1] }
	of, low, high, err := Bootstrap{}.IntervalOverSeeds(rows, mean)
	_, one, other, err2 := Bootstrap{}.Interval(rows[1], mean)
	if err != nil || err2 != nil || high-low < 2*(other-one) || !(low < of && of < high) {
		t.Errorf("%g from %g to %g, over dates %g to %g, %v, %v", of, low, high, one, other, err, err2)
	}
	// Seeds that agree add nothing.
	if _, a, b, err := (Bootstrap{}).IntervalOverSeeds([][][]float64{rows[1], rows[1], rows[1]}, mean); err != nil || math.Abs(a-one) > 1e-12 || math.Abs(b-other) > 1e-12 {
		t.Errorf("the same three times: %g to %g, want %g to %g, %v", a, b, one, other, err)
	}
	if v, a, b, err := (Bootstrap{}).IntervalOverSeeds(rows[:2], mean); err != nil || v != v || a == a || b == b {
		t.Errorf("two seeds: %g, %g to %g, %v", v, a, b, err)
	}
	for _, bad := range [][][][]float64{nil, {rows[0], rows[1][:3]}, {{{1, 2}}, {{1}}}} {
		if _, _, _, err := (Bootstrap{}).IntervalOverSeeds(bad, mean); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
}
