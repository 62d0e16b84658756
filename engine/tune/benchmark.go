package tune

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Candidate is one of several implementations of the same computation.
type Candidate struct {
	Name  string
	Bytes int64        // workspace; recorded, not used
	Run   func() error // executes it once
}

// BenchmarkOptions bounds a benchmark. The zero value suits kernels of a few
// milliseconds.
type BenchmarkOptions struct {
	// MinRounds is the number of rounds that are run in any case; 0 means 3. In each round
	// every candidate that is not far behind runs once. Further rounds, up to MaxRounds (0
	// means 12), follow until MinDuration has passed.
	MinRounds, MaxRounds int
	// MinDuration is the least duration of the benchmark if MaxRounds permits; 0 means 40
	// ms. Short kernels need more rounds.
	MinDuration time.Duration
	// Budget is the time limit; 0 means 5 s. After it no run starts, and candidates that
	// have not run are left out. The first candidate always runs.
	Budget time.Duration
	// Margin is the relative difference below which times count as equal; 0 means 0.02. Of
	// equal candidates the one listed first is chosen.
	Margin float64

	// clock returns the processor time and the wall-clock time; tests replace it.
	clock func() (cpu, wall time.Duration)
}

// check sets the defaults.
//
// Errors: *exit.Error (exit.Bug) for negative options.
func (o *BenchmarkOptions) check() error {
	if o.MinRounds < 0 || o.MaxRounds < 0 || o.MinDuration < 0 || o.Budget < 0 || !(o.Margin >= 0) {
		return &exit.Error{Code: exit.Bug, What: fmt.Sprintf("benchmark of kernels: negative options: %+v", *o), Fix: "report this"}
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

// Benchmark times candidates and chooses the fastest.
//
// Candidates run one after the other, every second round in reverse order, so that each
// finds the caches as different others left them and a short load by another process
// affects all of them. A candidate drops out if its first run takes more than 3 times
// as long as the best, or a later one more than 1.5 times.
//
// They are ranked by the least processor time of this process, because on a shared
// machine wall-clock time depends on other processes. Therefore all candidates must use
// the same threads, and nothing else in the process may run. The entry lists the choice
// first, then the others by time; equal times keep the order of candidates.
//
// The choice is the first listed candidate with
//
//	CPU time ≤ (1 + Margin) · least CPU time
//
// Cost: MinRounds to MaxRounds runs of each candidate, within Budget.
// Errors: that of the first run that fails, with the name of its candidate; *exit.Error
// (exit.Bug) without candidates or with negative options.
func Benchmark(candidates []Candidate, o BenchmarkOptions) (Entry, error) {
	if err := o.check(); err != nil {
		return Entry{}, err
	}
	if len(candidates) == 0 {
		return Entry{}, &exit.Error{Code: exit.Bug, What: "benchmark of kernels: no candidates", Fix: "report this"}
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
			// The first run includes page faults, so its bound is wider.
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

// timeRun runs a candidate once and keeps the least times of all its runs. A clock of
// low resolution may give 0; the least time is 1 ns, since 0 means that there is none.
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

// rankTimings makes the entry from the candidates that have run.
func rankTimings(runners []Timing, lead time.Duration, margin float64) Entry {
	runners = slices.DeleteFunc(runners, func(r Timing) bool { return r.Runs == 0 })
	equal := float64(lead) * (1 + margin)
	i := slices.IndexFunc(runners, func(r Timing) bool { return float64(r.CPU) <= equal })
	choice := runners[i]
	rest := slices.Delete(runners, i, i+1)
	slices.SortStableFunc(rest, func(a, b Timing) int { return cmp.Compare(a.CPU, b.CPU) })
	return Entry{Choice: choice.Name, Candidates: append([]Timing{choice}, rest...)}
}
