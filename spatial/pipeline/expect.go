package pipeline

import (
	"cmp"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/rng"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
)

// PassTimes are measured times of the passes of a piece, by stage, in the order in which they ran.
type PassTimes struct{ Forward, Backward [][]cluster.Time }

// PassTimes collects the times of passes in measured timelines.
func (s *Schedule) PassTimes(measured ...*Timeline) PassTimes {
	p := PassTimes{make([][]cluster.Time, s.Stages), make([][]cluster.Time, s.Stages)}
	for _, t := range measured {
		spans := slices.Concat(t.Spans...)
		slices.SortStableFunc(spans, func(a, b Span) int { return cmp.Compare(a.Start, b.Start) })
		for _, x := range spans {
			of := p.of(x.Backward)
			of[x.Stage] = append(of[x.Stage], (x.End-x.Start)/cluster.Time(x.Count))
		}
	}
	return p
}

// of lists the times of passes in a direction.
func (p PassTimes) of(backward bool) [][]cluster.Time {
	if backward {
		return p.Backward
	}
	return p.Forward
}

// median is the median of the times of a micro-batch.
func (s *Schedule) median(times []cluster.Time) cluster.Time {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return sorted[len(sorted)/2] * cluster.Time(s.Split)
}

// rotated returns copies of the lists that start at a random place of time and go on from their ends to their starts. Passes that
// follow each other stay together: what slows a worker lasts for several passes.
//
// Source: Politis and Romano 1992, Exploring the limits of bootstrap, pp. 263-270 (circular block bootstrap).
func (p PassTimes) rotated(key uint64) PassTimes {
	at := rng.Uniform(key, 0)
	rotate := func(lists [][]cluster.Time) [][]cluster.Time {
		out := make([][]cluster.Time, len(lists))
		for stage, list := range lists {
			k := int(at * float64(len(list)))
			out[stage] = slices.Concat(list[k:], list[:k])
		}
		return out
	}
	return PassTimes{rotate(p.Forward), rotate(p.Backward)}
}

// take returns the first time of a list and moves it to the end.
func (p PassTimes) take(t Task) cluster.Time {
	list := p.of(t.Backward)[t.Stage]
	if len(list) == 0 {
		return 0
	}
	first := list[0]
	copy(list, list[1:])
	list[len(list)-1] = first
	return first
}

// Expected is the mean of steps whose passes vary in length.
type Expected struct {
	End     cluster.Time
	Bubbles float64 // share of a step in which a worker is idle, mean over workers and steps
}

// Expect simulates steps, each with the passes of one measured step from a random one on, and returns their mean. Steps are not mixed
// because their passes vary together: other programs slow all passes of a step.
//
// Workers that wait for each other wait for the slower one, each time. With passes that vary the idle share is therefore larger
// than with passes of median length (Time of MeasuredCosts), most where the schedule leaves no idle time. send is as in Costs.
//
// Errors: those of Time.
func (s *Schedule) Expect(measured []PassTimes, send []cluster.Time, steps int) (mean Expected, err error) {
	for step := range steps {
		key := rng.Key(rng.Hash("pass times"), uint64(step))
		p := measured[step%len(measured)].rotated(key)
		t, err := s.time(send, func(t Task) (sum cluster.Time) {
			for range t.Count {
				sum += p.take(t)
			}
			return sum
		})
		if err != nil {
			return mean, err
		}
		mean.End += t.End / cluster.Time(steps)
		mean.Bubbles += t.MeanBubbles() / float64(steps)
	}
	return mean, nil
}
