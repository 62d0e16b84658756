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
	// Expected is the expected time, in any unit that all candidates have in common; 0:
	// unknown. See Expectations. Of another machine ratios of candidates of one Kind tell more
	// than those of two.
	Expected float64
	Kind     string
	// Busy is the mean number of threads that have work; 0: one. Of equal processor times that of more busy threads is the
	// shorter time.
	Busy float64
}

// time is what processor time makes of wall-clock time on threads that no other process takes.
func (c Candidate) time(cpu float64) float64 { return cpu / cmp.Or(c.Busy, 1) }

// BenchmarkOptions bounds a benchmark. The zero value suits kernels of a few
// milliseconds.
type BenchmarkOptions struct {
	// MinRounds is the number of rounds that are run in any case; 0 means 3. In each round
	// every candidate that is not far behind runs once. Further rounds, up to MaxRounds (0
	// means 12), follow until MinDuration has passed.
	MinRounds, MaxRounds int
	// MinDuration is the least duration of the benchmark if MaxRounds permits and all
	// candidates take part; 0 means 40 ms. Short kernels need more rounds. If some drop out
	// or are skipped, it is shorter in proportion.
	MinDuration time.Duration
	// Budget is the time limit; 0 means 5 s. After it no run starts, and candidates that
	// have not run are left out. The first candidate always runs.
	Budget time.Duration
	// Margin is the relative difference below which times count as equal; 0 means 0.02. Of
	// equal candidates the one listed first is chosen.
	Margin float64
	// Error is the relative error of ratios of expected times of one kind, KindError that of two kinds: a
	// candidate is skipped if even this much less than its expected time is more than the best measured
	// time. Error 0: none is.
	Error, KindError float64

	// Clock returns the processor time and the wall-clock time; nil: those of this process.
	Clock func() (cpu, wall time.Duration)
}

// ShortRace suits variants of kernels of about a millisecond. Budget depends on the kernel.
var ShortRace = BenchmarkOptions{MinRounds: 2, MinDuration: 15 * time.Millisecond}

// A candidate that took more than these multiples of the best time does not run again:
// after one run, which may include page faults, and after several.
const (
	behindOnce = 3
	behind     = 1.2
)

// check sets the defaults.
//
// Errors: *exit.Error (exit.Bug) for negative options.
func (o *BenchmarkOptions) check() error {
	if o.MinRounds < 0 || o.MaxRounds < 0 || o.MinDuration < 0 || o.Budget < 0 || !(o.Margin >= 0) || !(o.Error >= 0) || !(o.KindError >= 0) {
		return &exit.Error{Code: exit.Bug, What: fmt.Sprintf("benchmark of kernels: negative options: %+v", *o), Fix: "report this"}
	}
	o.MinRounds = cmp.Or(o.MinRounds, 3)
	o.MaxRounds = max(cmp.Or(o.MaxRounds, 12), o.MinRounds)
	o.MinDuration = cmp.Or(o.MinDuration, 40*time.Millisecond)
	o.Budget = cmp.Or(o.Budget, 5*time.Second)
	o.Margin = cmp.Or(o.Margin, 0.02)
	if o.Clock == nil {
		start := time.Now()
		o.Clock = func() (cpu, wall time.Duration) { return ProcessTime(), time.Since(start) }
	}
	return nil
}

// Benchmark times candidates and chooses the fastest.
//
// Candidates run one after the other, those with the least expected times first and
// those without any last. Every second round has the reverse order, so that each finds
// the caches as different others left them and a short load by another process affects
// all of them. A candidate drops out if its first run takes more than 3 times as long as
// the best, or all of several more than 1.2 times. The very first run, which includes
// starting threads, excludes nothing.
//
// Times t are the least processor time of this process divided by the busy threads, because on a shared machine wall-clock
// time depends on other processes. Therefore all candidates must use the same threads, and nothing else in the process may
// run.
//
// With expected times e, also divided by the busy threads, candidate i is skipped if
//
//	e_i/(1 + Error) · t_k/e_k > best t
//
// where k is the fastest candidate of its kind at that moment; if none of its kind has run, with KindError in place of Error, the
// fastest of all that have an expected time.
//
// The entry lists the choice first, then the others by time; equal times keep the order of candidates. The choice is the
// first listed candidate with
//
//	t ≤ (1 + Margin) · best t
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
	r := newRace(candidates, o)
	for round := 0; r.hasRound(round); round++ {
		for n := range r.order {
			i := r.order[n]
			if round%2 == 1 {
				i = r.order[len(r.order)-1-n]
			}
			if r.isOut(i) || r.lead >= 0 && r.spent() >= o.Budget {
				continue
			}
			if err := timeRun(candidates[i], &r.timings[i], o.Clock); err != nil {
				return Entry{}, err
			}
			r.compare(i)
		}
	}
	return r.rank(), nil
}

// ofAll stands for all kinds.
const ofAll = "*"

// race is a benchmark that runs.
type race struct {
	BenchmarkOptions
	candidates []Candidate
	timings    []Timing // by candidate
	order      []int    // of candidates in even rounds
	lead       int      // the fastest candidate; −1: none has run
	// references are the fastest candidates with an expected time: of each kind, and of all.
	references map[string]int
	start      time.Duration
}

// newRace orders candidates by their expected times.
func newRace(candidates []Candidate, o BenchmarkOptions) *race {
	r := &race{BenchmarkOptions: o, candidates: candidates, timings: make([]Timing, len(candidates)), lead: -1, references: map[string]int{}}
	for i := range candidates {
		r.order = append(r.order, i)
	}
	slices.SortStableFunc(r.order, func(i, j int) int {
		a, b := candidates[i].time(candidates[i].Expected), candidates[j].time(candidates[j].Expected)
		if a == 0 || b == 0 {
			return -cmp.Compare(a, b) // the known one first
		}
		return cmp.Compare(a, b)
	})
	_, r.start = o.Clock()
	return r
}

// spent is the duration of the benchmark.
func (r *race) spent() time.Duration {
	_, now := r.Clock()
	return now - r.start
}

// hasRound reports whether a round is run.
func (r *race) hasRound(round int) bool {
	if round < r.MinRounds || round >= r.MaxRounds {
		return round < r.MinRounds
	}
	left := 0
	for i := range r.candidates {
		if !r.isOut(i) {
			left++
		}
	}
	return r.spent()*time.Duration(len(r.candidates)) < r.MinDuration*time.Duration(left)
}

// isOut reports whether a candidate is skipped, or so slow that it does not run again.
func (r *race) isOut(i int) bool {
	if r.lead < 0 {
		return false
	}
	t, best := r.time(i), r.time(r.lead)
	switch r.timings[i].Runs {
	case 0:
		cpu, err := r.expected(i)
		return r.Error > 0 && r.candidates[i].time(float64(cpu)) > (1+err)*best
	case 1:
		return t > behindOnce*best && i != r.order[0]
	}
	return t > behind*best
}

// time is the time of a candidate by which they are compared, in ns.
func (r *race) time(i int) float64 { return r.candidates[i].time(float64(r.timings[i].CPU)) }

// compare takes a new time of a candidate into account.
func (r *race) compare(i int) {
	if r.lead < 0 || r.time(i) < r.time(r.lead) {
		r.lead = i
	}
	if r.candidates[i].Expected == 0 {
		return
	}
	for _, kind := range []string{r.candidates[i].Kind, ofAll} {
		if k, known := r.references[kind]; !known || r.time(i) < r.time(k) {
			r.references[kind] = i
		}
	}
}

// expected is the expected processor time of a candidate by the measured one of its reference, with its relative error; 0: unknown.
func (r *race) expected(i int) (cpu time.Duration, err float64) {
	c := r.candidates[i]
	err = r.Error
	k, known := r.references[c.Kind]
	if !known {
		err = r.KindError
		k, known = r.references[ofAll]
	}
	if !known {
		return 0, 0
	}
	return time.Duration(float64(r.timings[k].CPU) * c.Expected / r.candidates[k].Expected), err
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

// rank makes the entry: candidates that have run, then those that were skipped.
func (r *race) rank() Entry {
	var ran, skipped []int
	choice := -1
	for i, t := range r.timings {
		switch {
		case t.Runs == 0:
			if cpu, _ := r.expected(i); cpu > 0 { // otherwise the time was up
				skipped = append(skipped, i)
			}
		case choice < 0 && r.time(i) <= (1+r.Margin)*r.time(r.lead):
			choice = i
		default:
			ran = append(ran, i)
		}
	}
	slices.SortStableFunc(ran, func(i, j int) int { return cmp.Compare(r.time(i), r.time(j)) })
	expected := make([]time.Duration, len(r.candidates))
	for i := range expected {
		expected[i], _ = r.expected(i)
	}
	slices.SortStableFunc(skipped, func(i, j int) int {
		return cmp.Compare(r.candidates[i].time(float64(expected[i])), r.candidates[j].time(float64(expected[j])))
	})
	e := Entry{Choice: r.timings[choice].Name}
	for _, i := range slices.Insert(ran, 0, choice) {
		e.Candidates = append(e.Candidates, r.timings[i])
	}
	for _, i := range skipped {
		e.Skipped = append(e.Skipped, Expectation{Name: r.candidates[i].Name, CPU: expected[i]})
	}
	return e
}
