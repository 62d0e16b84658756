package search

import (
	"math"
	"testing"
)

// near reports whether two numbers agree to a relative difference.
func near(got, want, tolerance float64) bool { return math.Abs(got-want) <= tolerance*math.Abs(want) }

// The example of the eager-SGD paper's method: eight ranks compute for 100 ms, one at random for 300 ms more, and sums take 10 ms. A
// synchronous step takes 410 ms, and a solo step near 110 ms until the slowest rank of a period holds up the others. Over a period the
// slowest rank computes for at least the mean.
func TestWorkedFigures(t *testing.T) {
	const mean = (7*100 + 400) / 8.
	b := Imbalance{Ranks: 8, Slowest: 400 / mean, Persistent: 1}
	e := LateExchange{Units: 8, Ranks: 1, Period: 1000, Compute: mean, Sum: 10, Global: 10}
	if got := b.LateStep(e); !near(got, 410, 1e-12) {
		t.Errorf("a synchronous step takes %g ms, want 410", got)
	}
	g := b.on(8).units(LateExchange{Units: 8, Ranks: 1, Start: FirstStart}, 2)
	if got := mean*(g.base+g.cell*least(g.ranks).mean()) + 10; !near(got, 110, 1e-4) {
		t.Errorf("the first solo step takes %g ms, want 110", got)
	}
	e.Start = FirstStart
	for _, period := range []int{2, 6, 10, 100} {
		e.Period = period
		got := b.LateStep(e)
		if slowest := mean * b.slowestSum(t, 8, period); got < slowest || got > slowest+10 {
			t.Errorf("with period %d a solo step takes %g ms, the slowest rank computes for %g", period, got, slowest)
		}
	}
}

// slowestSum is the mean over steps of the longest sum of independent draws of n ranks, by brute force over the number of late steps:
// a binomial distribution.
func (b Imbalance) slowestSum(t *testing.T, n, steps int) float64 {
	t.Helper()
	p := 1 / float64(b.Ranks)
	early, late := b.times()[1], b.times()[0]
	below, sum := 0., 0.
	chance := math.Pow(1-p, float64(steps))
	for k := range steps + 1 {
		now := math.Min(1, below+chance)
		sum += (math.Pow(now, float64(n)) - math.Pow(below, float64(n))) * (float64(steps-k)*early + float64(k)*late) / float64(steps)
		below = now
		chance *= float64(steps-k) / float64(k+1) * p / (1 - p)
	}
	return sum
}

// Local SGD computes until the slowest rank has ended its steps: for delays of two values the largest of binomial draws.
func TestLocalStepsOfTwoValues(t *testing.T) {
	b := Imbalance{Ranks: 4, Slowest: 1.8, Persistent: 1}
	for _, n := range []int{2, 4, 64, 1024} {
		for _, steps := range []int{2, 10, 50} {
			got := b.LateStep(LateExchange{Start: NoStart, Units: n, Ranks: 1, Period: steps, Compute: 1})
			if want := min(b.SlowestOf(n), b.slowestSum(t, n, steps)); !near(got, want, 2e-3) {
				t.Errorf("%d ranks, %d steps: %g, want %g", n, steps, got, want)
			}
		}
	}
}

// The slowest of n ranks with exponential delays takes 1 − σ + σ(1 + 1/2 + … + 1/n) of the mean time, and the sum of k delays of one rank
// has the mean k. The distribution is given by 20,000 equally likely times.
func TestExponentialDelays(t *testing.T) {
	const sigma, count = 0.3, 20000
	b := Imbalance{Ranks: 4, Persistent: 1}
	for k := range count {
		b.Times = append(b.Times, 1-sigma+sigma*-math.Log(1-(float64(k)+0.5)/count))
	}
	harmonic := func(n int) (sum float64) {
		for k := range n {
			sum += 1 / float64(k+1)
		}
		return sum
	}
	b.Slowest = 1 - sigma + sigma*harmonic(4)
	for _, n := range []int{2, 3, 4, 16, 64} {
		if got, want := b.SlowestOf(n), 1-sigma+sigma*harmonic(n); !near(got, want, 2e-3) {
			t.Errorf("%d ranks: %g, want %g", n, got, want)
		}
	}
	// Two ranks, sums of two delays (Gamma of shape 2): the mean of the larger is 2 + 3/4.
	got := b.LateStep(LateExchange{Start: NoStart, Units: 2, Ranks: 1, Period: 2, Compute: 1})
	if want := 1 - sigma + sigma*2.75/2; !near(got, want, 2e-3) {
		t.Errorf("two steps of two ranks: %g, want %g", got, want)
	}
}

// Without imbalance every exchange adds its time to the computation, and with a period of 1 every system is synchronous.
func TestEvenLateSteps(t *testing.T) {
	even, uneven := Imbalance{}, Imbalance{Ranks: 4, Slowest: 1.5, Persistent: 1.1}
	for _, start := range []Start{AllStart, FirstStart, DrawnStart, GroupStart} {
		e := LateExchange{Start: start, Units: 4, Ranks: 2, Group: 2, Period: 10, Compute: 3, Wait: 0.5, Sum: 1, Global: 1}
		if got := even.LateStep(e); !near(got, 4.5, 1e-12) {
			t.Errorf("start %d: even step %g, want 4.5", start, got)
		}
		e.Period = 1
		if got, want := uneven.LateStep(e), 3*uneven.SlowestOf(8)+1.5; !near(got, want, 1e-12) {
			t.Errorf("start %d: synchronous step %g, want %g", start, got, want)
		}
	}
}

// Ranks that differ by rounding only, and exchanges that take much longer than the computation, are no special case.
func TestNearlyEvenLateSteps(t *testing.T) {
	for _, b := range []Imbalance{{Ranks: 4, Slowest: 1, Persistent: 1, Times: []float64{1, 1 + 1e-15}}, {Ranks: 4, Slowest: 1 + 1e-12, Persistent: 1}, {Ranks: 4, Slowest: 1.001, Persistent: 1.001}} {
		for _, start := range []Start{AllStart, FirstStart, DrawnStart, GroupStart, NoStart} {
			for _, sum := range []float64{0, 1e-6, 1, 1000} {
				e := LateExchange{Start: start, Units: 16, Ranks: 1, Group: 4, Period: 10, Compute: 1, Sum: sum, Global: sum}
				if got, want := b.LateStep(e), (Imbalance{}).LateStep(e); !near(got, want, 2e-3) {
					t.Errorf("%+v, start %d, exchange %g: %g, want %g", b, start, sum, got, want)
				}
			}
		}
	}
}

// A measurement gives the ratios that it was made of; what all ranks have in common is no imbalance.
func TestImbalanceOf(t *testing.T) {
	b := ImbalanceOf([][]float64{{1, 2, 1, 4}, {1, 2, 1, 4}, {2, 4, 2, 8}})
	if b.Ranks != 3 || !near(b.Slowest, 1.5, 1e-12) || !near(b.Persistent, 1.5, 1e-12) || b.Random() != 1 {
		t.Errorf("one slow rank: %+v", b)
	}
	for _, v := range b.Times {
		if !near(v, 1, 1e-12) {
			t.Errorf("times %v, want 1", b.Times)
		}
	}
	b = ImbalanceOf([][]float64{{3, 1}, {1, 3}})
	if !near(b.Slowest, 1.5, 1e-12) || !near(b.Persistent, 1, 1e-12) || len(b.Times) != 4 || !near(b.Times[3], 1.5, 1e-12) {
		t.Errorf("ranks in turn: %+v", b)
	}
	if b := ImbalanceOf([][]float64{{1, 2}}); b.IsKnown() || b.SlowestOf(9) != 1 {
		t.Errorf("one rank: %+v", b)
	}
}

// More ranks are never faster, and no rank is slower than the longest time.
func TestSlowestGrows(t *testing.T) {
	for _, b := range []Imbalance{{Ranks: 4, Slowest: 1.4, Persistent: 1}, {Ranks: 4, Slowest: 1.4, Persistent: 1.3}, {Ranks: 2, Slowest: 1.05, Persistent: 1.05}} {
		before := 1.
		for n := 2; n <= 4096; n *= 2 {
			got := b.SlowestOf(n)
			if got < before-1e-9 || got > float64(b.Ranks) {
				t.Errorf("%+v: %g of %d ranks, %g of half as many", b, got, n, before)
			}
			before = got
		}
	}
}
