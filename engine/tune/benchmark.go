package tune

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Candidate is one of several ways to compute the same.
type Candidate struct {
	Name  string
	Bytes int64        // workspace; only recorded
	Run   func() error // computes it once
}

// BenchmarkOptions bound a race. The zero value serves kernels of a few milliseconds.
type BenchmarkOptions struct {
	// MinRounds are run in any case, of all that are not far behind; 0 means 3.
	// Further rounds, up to MaxRounds (0 means 12), are run until the race has
	// taken Settle (0 means 40 ms): short kernels need more of them.
	MinRounds, MaxRounds int
	MinDuration          time.Duration
	// Budget ends a race: once it is spent no further run begins, and candidates
	// that were never run do not take part; 0 means 5 s. The first one always runs.
	Budget time.Duration
	// Margin is the relative difference in time below which candidates are
	// equals, of which the one listed first wins; 0 means 0.02.
	Margin float64

	clock func() (cpu, wall time.Duration) // for tests
}

// check completes the options.
func (o *BenchmarkOptions) check() error {
	if o.MinRounds < 0 || o.MaxRounds < 0 || o.MinDuration < 0 || o.Budget < 0 || !(o.Margin >= 0) {
		return &exit.Error{Code: exit.Bug, What: fmt.Sprintf("options of a race are negative: %+v", *o), Fix: "report this"}
	}
	o.MinRounds = cmp.Or(o.MinRounds, 3)
	o.MaxRounds = max(cmp.Or(o.MaxRounds, 12), o.MinRounds)
	o.MinDuration = cmp.Or(o.MinDuration, 40*time.Millisecond)
	o.Budget = cmp.Or(o.Budget, 5*time.Second)
	o.Margin = cmp.Or(o.Margin, 0.02)
	if o.clock == nil {
		start := time.Now()
		o.clock = func() (cpu, wall time.Duration) { return ProcessTime(), time.Since(start) }
	}
	return nil
}

// Benchmark times candidates and chooses the fastest. They run in turn, every other
// round in reverse, so that a neighbour's burst of work hits all of them and
// each finds the caches as different others left them. One that takes more than
// 3 times the best after its first run, or 1.5 times after later ones, drops
// out.
//
// They are ranked by the least processor time of this process: on a shared
// machine the time on the wall says more about the neighbours. So all must use
// the same threads, and nothing else in the process may be busy. The entry lists
// the choice first, then the others by time; of equal times the one listed first
// comes first.
//
// Errors: that of the first run that fails, with its candidate's name; *exit.Error
// with exit.Bug without candidates or with negative options.
func Benchmark(candidates []Candidate, o BenchmarkOptions) (Entry, error) {
	if err := o.check(); err != nil {
		return Entry{}, err
	}
	if len(candidates) == 0 {
		return Entry{}, &exit.Error{Code: exit.Bug, What: "a race without candidates", Fix: "report this"}
	}
	runners := make([]Timing, len(candidates))
	var lead time.Duration // 0: none yet
	_, start := o.clock()
	spent := func() time.Duration {
		_, now := o.clock()
		return now - start
	}
	for round := 0; round < o.MinRounds || round < o.MaxRounds && spent() < o.MinDuration; round++ {
		for n := range candidates {
			i := n
			if round%2 == 1 {
				i = len(candidates) - 1 - n
			}
			r := &runners[i]
			// The first run pays for cold memory, the second may meet a burst.
			behind := r.Runs == 1 && r.CPU/3 > lead || r.Runs > 1 && r.CPU/3*2 > lead
			if behind || lead > 0 && spent() >= o.Budget {
				continue
			}
			if err := timeRun(candidates[i], r, o.clock); err != nil {
				return Entry{}, err
			}
			if lead == 0 || r.CPU < lead {
				lead = r.CPU
			}
		}
	}
	return rankTimings(runners, lead, o.Margin), nil
}

// timeRun runs a candidate once and keeps its least times.
func timeRun(c Candidate, r *Timing, clock func() (cpu, wall time.Duration)) error {
	cpu, wall := clock()
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	cpuEnd, wallEnd := clock()
	cpu, wall = max(cpuEnd-cpu, 1), max(wallEnd-wall, 1)
	if r.Runs > 0 {
		cpu, wall = min(cpu, r.CPU), min(wall, r.Wall)
	}
	*r = Timing{Name: c.Name, CPU: cpu, Wall: wall, Runs: r.Runs + 1, Bytes: c.Bytes}
	return nil
}

// rankTimings makes the entry of those that ran.
func rankTimings(runners []Timing, lead time.Duration, margin float64) Entry {
	runners = slices.DeleteFunc(runners, func(r Timing) bool { return r.Runs == 0 })
	equal := float64(lead) * (1 + margin)
	i := slices.IndexFunc(runners, func(r Timing) bool { return float64(r.CPU) <= equal })
	choice := runners[i]
	rest := slices.Delete(runners, i, i+1)
	slices.SortStableFunc(rest, func(a, b Timing) int { return cmp.Compare(a.CPU, b.CPU) })
	return Entry{Choice: choice.Name, Candidates: append([]Timing{choice}, rest...)}
}
