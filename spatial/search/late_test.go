package search

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/partial"
)

// trainLate returns the seconds of a step of ranks that train by a system on the virtual cluster and compute for the given times.
func trainLate(t *testing.T, e LateExchange, times [][]float64, values int, network cluster.Network) float64 {
	t.Helper()
	steps := len(times[0])
	result, err := cluster.Run(len(times), network, cluster.Options{}, func(r *cluster.Rank) error {
		x := make([]float32, values)
		var step func() error
		var start func(int) error
		switch e.Start {
		case GroupStart:
			a, err := partial.NewWAGMA(r.Comm, x, partial.WAGMAOptions{GroupSize: e.Group, Period: e.Period})
			if err != nil {
				return err
			}
			start, step = a.Start, func() error { _, err := a.Step(x); return err }
		case NoStart:
			l, err := partial.NewLocal(r.Comm, x, partial.LocalOptions{Steps: e.Period, Rate: 1})
			if err != nil {
				return err
			}
			start, step = func(int) error { return nil }, func() error { _, err := l.Step(x); return err }
		default:
			o := partial.EagerOptions{Period: e.Period}
			if e.Start == DrawnStart {
				o.Initiator = partial.Majority
			}
			if e.Start == AllStart {
				o.Period = 1
			}
			a, err := partial.NewEager(r.Comm, values, o)
			if err != nil {
				return err
			}
			start, step = a.Start, func() error { _, err := a.Step(x); return err }
		}
		if err := start(steps); err != nil {
			return err
		}
		for _, seconds := range times[r.Rank()] {
			r.Compute(cluster.Time(seconds * float64(cluster.Second)))
			if err := step(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return result.Time().Seconds() / float64(steps)
}

// drawTimes returns times of ranks in steps [rank][step]: of some kind, with the mean 0.1 s of an undelayed step.
func drawTimes(kind string, ranks, steps int) [][]float64 {
	random := rand.New(rand.NewPCG(7, uint64(ranks)))
	times := make([][]float64, ranks)
	for r := range times {
		times[r] = make([]float64, steps)
	}
	for step := range steps {
		late := random.IntN(ranks)
		for r := range times {
			t := 0.1
			switch kind {
			case "one late":
				if r == late {
					t += 0.15
				}
			case "exponential":
				t += 0.03 * random.ExpFloat64()
			case "persistent":
				t += 0.02 * random.ExpFloat64()
				if r == 1 {
					t += 0.03
				}
			}
			times[r][step] = t
		}
	}
	return times
}

// exchangeOn completes an exchange of ranks that compute for the given times on a machine.
func exchangeOn(e LateExchange, m Machine, times [][]float64, period, values int) LateExchange {
	ranks := len(times)
	e.Units, e.Ranks, e.Period = ranks, 1, period
	e.Group = max(2, e.Group)
	all, _ := m.UnitsExchange(ranks, 1, ranks, int64(values))
	own := all
	if e.Start == GroupStart {
		own, _ = m.UnitsExchange(ranks, 1, e.Group, int64(values))
	}
	notice := m.Notices(ranks, 1)
	e.Global, e.Sum, e.Notice = all.Seconds(), (own + notice).Seconds(), notice.Seconds()
	for _, own := range times {
		for _, t := range own {
			e.Compute += t / float64(ranks*len(own))
		}
	}
	return e
}

// Predicted steps per second are within 10 % of those on the virtual cluster, on 4 and 64 ranks, for exchanges that take a
// hundredth to a third of the computation.
func TestLateStepsArePlayed(t *testing.T) { playLateSteps(t, 1600, 4000) }

// playLateSteps compares predicted with simulated steps. computed is the number of steps of all ranks together, values that of a
// gradient.
func playLateSteps(t *testing.T, computed, values int) {
	const period = 10
	for _, kind := range []string{"even", "one late", "exponential", "persistent"} {
		for _, ranks := range []int{4, 64} {
			steps := computed / ranks / period * period
			times := drawTimes(kind, ranks, steps)
			b := ImbalanceOf(times)
			for _, rate := range []cluster.Rate{16_000_000, 1_000_000} {
				link := Link{Alpha: 20 * cluster.Microsecond, Rate: rate}
				m := Machine{IntraNode: link, InterNode: link}
				for name, e := range map[string]LateExchange{
					"synchronous": {}, "solo": {Start: FirstStart}, "majority": {Start: DrawnStart}, "wagma": {Start: GroupStart, Group: int(math.Sqrt(float64(ranks)))}, "local": {Start: NoStart},
				} {
					e = exchangeOn(e, m, times, period, values)
					got := b.LateStep(e)
					want := trainLate(t, e, times, values, cluster.LogGP{Latency: link.Alpha, Rate: rate})
					if math.Abs(want/got-1) > 0.1 {
						t.Errorf("%s, %d ranks, exchange %.0f ms, %s: %.1f ms, simulated %.1f (%+.1f %%)", kind, ranks, 1e3*e.Sum, name, 1e3*got, 1e3*want, 100*(got/want-1))
					}
				}
			}
		}
	}
}

// Predicted steps per second are within 8 % of those measured on four processes that compute for 200 ms, of which one at random takes
// longer in each step (benchmarks/results.md, late ranks). The time of an exchange is that of the steps without a delay.
func TestMeasuredLateSteps(t *testing.T) {
	systems := []LateExchange{{}, {Start: FirstStart}, {Start: DrawnStart}, {Start: GroupStart, Group: 2}}
	exchanges := []float64{1/4.5 - 0.2, 1/4.6 - 0.2, 1/4.5 - 0.2, 1/4.7 - 0.2}
	for delay, measured := range map[float64][4]float64{0.05: {3.7, 4.3, 4.1, 4.3}, 0.1: {3.0, 3.9, 3.7, 3.9}, 0.3: {1.9, 2.9, 2.5, 2.9}} {
		mean := 0.2 + delay/4
		b := Imbalance{Ranks: 4, Slowest: (0.2 + delay) / mean, Persistent: 1}
		for i, e := range systems {
			e.Units, e.Ranks, e.Period, e.Compute, e.Sum, e.Global = 4, 1, 10, mean, exchanges[i], exchanges[0]
			got := 1 / b.LateStep(e)
			t.Logf("delay %g s, start %d: %.2f steps/s, measured %.1f (%+.0f %%)", delay, e.Start, got, measured[i], 100*(got/measured[i]-1))
			if math.Abs(got/measured[i]-1) > 0.08 {
				t.Errorf("delay %g s, start %d: %.2f steps/s, measured %.1f", delay, e.Start, got, measured[i])
			}
		}
	}
}
