package tune

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// track is a race against a clock that only the candidates move.
type track struct {
	cpu, wall time.Duration
	runs      []string
	round     map[string]int
}

func (c *track) clock() (cpu, wall time.Duration) { return c.cpu, c.wall }

// runner takes cost(n) of processor time in its nth run, and the wall-clock time wall or the same.
func (c *track) runner(name string, cost func(n int) time.Duration, wall ...time.Duration) Candidate {
	return Candidate{Name: name, Run: func() error {
		n := c.round[name]
		c.round[name]++
		c.runs = append(c.runs, name)
		c.cpu += cost(n)
		if len(wall) > 0 {
			c.wall += wall[0]
		} else {
			c.wall += cost(n)
		}
		return nil
	}}
}

func always(ms int) func(int) time.Duration {
	return func(int) time.Duration { return time.Duration(ms) * time.Millisecond }
}

// cold makes the first run dearer.
func cold(first, ms int) func(int) time.Duration {
	return func(n int) time.Duration {
		if n == 0 {
			return always(first)(n)
		}
		return always(ms)(n)
	}
}

// show writes an entry as "choice: name cpu wall runs, …" in milliseconds.
func show(e Entry) string {
	var s []string
	for _, c := range e.Candidates {
		s = append(s, fmt.Sprintf("%s %g %g %d", c.Name, float64(c.CPU)/1e6, float64(c.Wall)/1e6, c.Runs))
	}
	return e.Choice + ": " + strings.Join(s, ", ")
}

func TestBenchmark(t *testing.T) {
	for _, c := range []struct {
		name string
		o    BenchmarkOptions
		run  func(c *track) []Candidate
		want string
	}{
		{"the fastest wins, order of the list aside", BenchmarkOptions{}, func(c *track) []Candidate {
			return []Candidate{c.runner("a", always(13)), c.runner("b", always(11)), c.runner("c", always(10))}
		}, "c: c 10 10 3, b 11 11 3, a 13 13 2"},
		{"cold memory is forgiven once", BenchmarkOptions{}, func(c *track) []Candidate {
			return []Candidate{c.runner("a", always(10)), c.runner("b", cold(30, 5))}
		}, "b: b 5 5 3, a 10 10 2"},
		{"far behind once, and out", BenchmarkOptions{}, func(c *track) []Candidate {
			return []Candidate{c.runner("a", always(10)), c.runner("b", cold(31, 5))}
		}, "a: a 10 10 3, b 31 31 1"},
		{"but not the first of all", BenchmarkOptions{}, func(c *track) []Candidate {
			return []Candidate{c.runner("a", cold(90, 8)), c.runner("b", always(10))}
		}, "a: a 8 8 3, b 10 10 2"},
		{"behind twice, and out", BenchmarkOptions{}, func(c *track) []Candidate {
			return []Candidate{c.runner("a", always(16)), c.runner("b", always(10)), c.runner("c", always(15))}
		}, "b: b 10 10 3, c 15 15 2, a 16 16 2"},
		{"short kernels run more often", BenchmarkOptions{}, func(c *track) []Candidate {
			return []Candidate{c.runner("a", always(2)), c.runner("b", always(2))}
		}, "a: a 2 2 10, b 2 2 10"},
		{"but not without limit", BenchmarkOptions{}, func(c *track) []Candidate {
			return []Candidate{c.runner("a", always(1))}
		}, "a: a 1 1 12"},
		{"processor time ranks, not the wall", BenchmarkOptions{}, func(c *track) []Candidate {
			return []Candidate{c.runner("a", always(10), 5*time.Millisecond), c.runner("b", always(8), 80*time.Millisecond)}
		}, "b: b 8 80 3, a 10 5 2"},
		{"processor time of more busy threads is less time", BenchmarkOptions{}, func(c *track) []Candidate {
			a, b := c.runner("a", always(10)), c.runner("b", always(12))
			a.Busy, b.Busy = 1.2, 2
			return []Candidate{a, b}
		}, "b: b 12 12 3, a 10 10 2"},
		{"equals: the first", BenchmarkOptions{}, func(c *track) []Candidate {
			return []Candidate{c.runner("a", always(30)), c.runner("b", always(20)), c.runner("c", always(20))}
		}, "b: b 20 20 3, c 20 20 3, a 30 30 2"},
		{"within the margin: the first, then by time", BenchmarkOptions{}, func(c *track) []Candidate {
			return []Candidate{c.runner("a", always(102)), c.runner("b", always(101)), c.runner("c", always(100))}
		}, "a: a 102 102 3, c 100 100 3, b 101 101 3"},
		{"beyond the margin", BenchmarkOptions{}, func(c *track) []Candidate {
			return []Candidate{c.runner("a", always(103)), c.runner("b", always(100))}
		}, "b: b 100 100 3, a 103 103 3"},
		{"a margin of one's own", BenchmarkOptions{Margin: 1e-9}, func(c *track) []Candidate {
			return []Candidate{c.runner("a", always(102)), c.runner("b", always(100))}
		}, "b: b 100 100 3, a 102 102 3"},
		{"the budget ends it", BenchmarkOptions{Budget: 250 * time.Millisecond}, func(c *track) []Candidate {
			return []Candidate{c.runner("a", always(120)), c.runner("b", always(100)), c.runner("c", always(90)), c.runner("d", always(1))}
		}, "c: c 90 90 1, b 100 100 1, a 120 120 1"},
		{"one run in any case", BenchmarkOptions{Budget: 1}, func(c *track) []Candidate {
			return []Candidate{c.runner("a", always(1000)), c.runner("b", always(1))}
		}, "a: a 1000 1000 1"},
		{"rounds of one's own", BenchmarkOptions{MinRounds: 20}, func(c *track) []Candidate {
			return []Candidate{c.runner("a", always(50))}
		}, "a: a 50 50 20"},
		{"a clock that stands still", BenchmarkOptions{}, func(c *track) []Candidate {
			return []Candidate{c.runner("a", always(0)), c.runner("b", always(0))}
		}, "a: a 1e-06 1e-06 12, b 1e-06 1e-06 12"},
	} {
		t.Run(c.name, func(t *testing.T) {
			track := &track{round: map[string]int{}}
			c.o.Clock = track.clock
			e, err := Benchmark(c.run(track), c.o)
			if got := show(e); err != nil || got != c.want {
				t.Errorf("got  %s (%v)\nwant %s", got, err, c.want)
			}
			if err := e.check("key"); err != nil {
				t.Errorf("a table would refuse it: %v", err)
			}
		})
	}
}

// TestBenchmarkExpected: candidates run in the order of their expected times. One that would be slower than the best even if it took less
// than expected by the error is skipped; the entry has its expected time in the unit of the others. The first one of a kind is compared with
// those of other kinds, by a larger error.
func TestBenchmarkExpected(t *testing.T) {
	type runner struct {
		name     string
		ms       int
		expected float64
		kind     string
	}
	for _, c := range []struct {
		name    string
		error   float64
		all     []runner
		runs    string // of the first round
		want    string
		skipped string
	}{
		{"all are as expected: one runs", 0.1, []runner{{"a", 15, 3, ""}, {"b", 10, 2, ""}, {"c", 12, 2.4, ""}}, "b", "b: b 10 10 3", "c 12 a 15"},
		{"within the error: two run", 0.24, []runner{{"a", 15, 3, ""}, {"b", 10, 2, ""}, {"c", 9, 2.4, ""}}, "bc", "c: c 9 9 3, b 10 10 3", "a 11.25"},
		{"no error: all run, in their order", 0, []runner{{"a", 15, 3, ""}, {"b", 10, 2, ""}, {"c", 9, 2.4, ""}}, "bca", "c: c 9 9 3, b 10 10 3, a 15 15 2", ""},
		{"unknown: runs, last", 0.1, []runner{{"a", 9, 0, ""}, {"b", 10, 2, ""}, {"c", 12, 2.4, ""}}, "ba", "a: a 9 9 3, b 10 10 3", "c 12"},
		{"all unknown: as listed", 0.1, []runner{{"a", 9, 0, ""}, {"b", 10, 0, ""}}, "ab", "a: a 9 9 3, b 10 10 3", ""},
		{"slower than expected: the next runs", 0.1, []runner{{"a", 30, 2, ""}, {"b", 10, 2.1, ""}, {"c", 11, 2.3, ""}}, "abc", "b: b 10 10 3, c 11 11 3, a 30 30 2", ""},
		{"a kind that is faster than expected", 0.1, []runner{{"a", 10, 2, ""}, {"b", 12, 2.3, ""}, {"c", 8, 2.9, "whole"}, {"d", 9, 3.3, "whole"}}, "ac", "c: c 8 8 3, a 10 10 2", "d 9.103448 b 11.5"},
		{"a kind that is slower by more than its error", 0.1, []runner{{"a", 10, 2, ""}, {"c", 8, 3.1, "whole"}}, "a", "a: a 10 10 3", "c 15.5"},
		{"a kind that is slower than expected", 0.1, []runner{{"a", 10, 2, ""}, {"c", 14, 2, "whole"}, {"d", 15, 2.1, "whole"}}, "ac", "a: a 10 10 3, c 14 14 2", "d 14.7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			track := &track{round: map[string]int{}}
			var all []Candidate
			for _, r := range c.all {
				candidate := track.runner(r.name, always(r.ms))
				candidate.Expected, candidate.Kind = r.expected, r.kind
				all = append(all, candidate)
			}
			e, err := Benchmark(all, BenchmarkOptions{Error: c.error, KindError: 0.5, Clock: track.clock, MaxRounds: 3})
			var skipped []string
			for _, s := range e.Skipped {
				skipped = append(skipped, fmt.Sprintf("%s %g", s.Name, float64(s.CPU)/1e6))
			}
			got, runs := show(e), strings.Join(track.runs, "")
			if err != nil || got != c.want || !strings.HasPrefix(runs, c.runs) || strings.Join(skipped, " ") != c.skipped {
				t.Errorf("%s (%v), skipped %q, ran as %s; want %s, %q, %s", got, err, skipped, runs, c.want, c.skipped, c.runs)
			}
			if err := e.check("key"); err != nil {
				t.Errorf("a table would refuse it: %v", err)
			}
		})
	}
}

// TestBenchmarkAlternates: a burst of foreign work that lasts a whole round hits all, and
// does not decide. Every other round is run in reverse.
func TestBenchmarkAlternates(t *testing.T) {
	c := &track{round: map[string]int{}}
	burst := func(ms int) func(int) time.Duration {
		return func(n int) time.Duration { return always(ms)(n) * time.Duration(1+4*(n%2)) }
	}
	e, err := Benchmark([]Candidate{c.runner("a", burst(22)), c.runner("b", burst(20)), c.runner("c", burst(21))}, BenchmarkOptions{Clock: c.clock})
	if want := "b: b 20 20 3, c 21 21 3, a 22 22 3"; err != nil || show(e) != want {
		t.Errorf("got %s (%v), want %s", show(e), err, want)
	}
	if got := strings.Join(c.runs, ""); got != "abccbaabc" {
		t.Errorf("they ran as %s, want abc, cba, abc", got)
	}
}

// TestBenchmarkBudget: whatever the candidates, the race takes no longer than its
// budget and one run more.
func TestBenchmarkBudget(t *testing.T) {
	for n := 1; n < 30; n++ {
		c := &track{round: map[string]int{}}
		var all []Candidate
		for i := range n {
			all = append(all, c.runner(fmt.Sprint(i), always(1+i*7%13)))
		}
		if _, err := Benchmark(all, BenchmarkOptions{Budget: 50 * time.Millisecond, MinRounds: 100, Clock: c.clock}); err != nil {
			t.Fatal(err)
		}
		if c.wall >= 50*time.Millisecond+13*time.Millisecond {
			t.Errorf("%d candidates: %v, want less than the budget and one run", n, c.wall)
		}
	}
}

func TestBenchmarkErrors(t *testing.T) {
	broken := errors.New("broken")
	c := &track{round: map[string]int{}}
	_, err := Benchmark([]Candidate{c.runner("a", always(1)), {Name: "b", Run: func() error { return broken }}}, BenchmarkOptions{Clock: c.clock})
	if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "b: ") {
		t.Errorf("a run that fails: %v, want b: broken", err)
	}
	for name, o := range map[string]BenchmarkOptions{"rounds": {MinRounds: -1}, "budget": {Budget: -1}, "margin": {Margin: math.NaN()}} {
		if _, err := Benchmark([]Candidate{c.runner("a", always(1))}, o); exit.CodeOf(err) != exit.Bug {
			t.Errorf("%s: %v, want a bug", name, err)
		}
	}
	if _, err := Benchmark(nil, BenchmarkOptions{}); exit.CodeOf(err) != exit.Bug {
		t.Errorf("no candidates: %v, want a bug", err)
	}
}

// spin uses the processor: rounds of a fixed chain of dependent operations.
func spin(n int) func() error {
	return func() error {
		x := 1.0
		for range n {
			x = math.Sqrt(x + 1)
		}
		if x < 1 {
			return errors.New("the root is wrong")
		}
		return nil
	}
}

// TestBenchmarkRealWork ranks work of known proportions on the real clock: 1 to 2 to 6.
// Sleeping costs no processor time, though it takes the longest wall-clock time.
func TestBenchmarkRealWork(t *testing.T) {
	const n = 100_000
	all := []Candidate{{Name: "six", Run: spin(6 * n)}, {Name: "two", Run: spin(2 * n)}, {Name: "one", Run: spin(n)}}
	e, err := Benchmark(all, BenchmarkOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(show(e))
	var names []string
	for _, c := range e.Candidates {
		names = append(names, c.Name)
	}
	if want := []string{"one", "two", "six"}; !slices.Equal(names, want) {
		t.Errorf("ranked %v, want %v", names, want)
	}
	if runtime.GOOS != "linux" {
		t.Skip("skipped: the processor time is known on Linux only")
	}
	sleep := Candidate{Name: "sleep", Run: func() error { time.Sleep(100 * time.Millisecond); return nil }}
	e, err = Benchmark([]Candidate{{Name: "work", Run: spin(20 * n)}, sleep}, BenchmarkOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if t.Log(show(e)); e.Choice != "sleep" {
		t.Errorf("%s: sleeping costs no processor time", show(e))
	}
}

// TestProcessTime: it moves on with work and stands still while the process
// sleeps.
func TestProcessTime(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("skipped: the processor time is known on Linux only")
	}
	before := ProcessTime()
	for range 100 {
		if err := spin(100_000)(); err != nil {
			t.Fatal(err)
		}
	}
	worked := ProcessTime()
	time.Sleep(100 * time.Millisecond)
	if work, sleep := worked-before, ProcessTime()-worked; work < 10*time.Millisecond || sleep > 50*time.Millisecond {
		t.Errorf("ten million roots took %v of the processor, and 100 ms of sleep %v", work, sleep)
	}
}

func ExampleBenchmark() {
	fast := func() error { return nil }
	slow := spin(1_000_000)
	entry, err := Benchmark([]Candidate{{Name: "slow", Run: slow}, {Name: "fast", Run: fast}}, BenchmarkOptions{})
	fmt.Println(entry.Choice, err)
	// Output: fast <nil>
}
