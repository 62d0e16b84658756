//go:build cgo && linux

package partial

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/mpitest"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/comm/mpi"
)

// rankVariable makes this test binary a rank of an MPI job; its value selects the program.
const rankVariable = "ENSEMBLE_PARTIAL_TEST"

func TestMain(m *testing.M) { mpitest.Main(m, rankVariable, asRank) }

func asRank(what string) error {
	l, ok := mpi.Launched(os.Getenv)
	if !ok {
		return errors.New("no launcher is seen")
	}
	stall := time.Minute
	if what == "lose" {
		stall = 2 * time.Second
	}
	w, err := mpi.Join(l, stall)
	if err != nil {
		return err
	}
	c := comm.New(w)
	words := strings.Fields(what)
	switch words[0] {
	case "train":
		err = trainBoth(c)
	case "host":
		err = comm.HostRanks(c, 5, trainBoth)
	case "lose":
		return loseRank(c)
	case "time":
		err = timeSteps(c, words[1], words[2])
	}
	if err != nil {
		return err
	}
	if c.Rank() == 0 {
		fmt.Println("passed")
	}
	return w.Close()
}

// loseRank trains until rank 1 stops to answer. The others end with an error that names it.
func loseRank(c *comm.Comm) error {
	err := runEager(c, EagerOptions{Period: 3}, 10, eagerRun{before: func(step int) {
		if c.Rank() == 1 && step == 4 {
			time.Sleep(time.Minute)
		}
	}})
	var lost *comm.RankError
	if !errors.As(err, &lost) {
		return err
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(int(exit.RankLost))
	return nil
}

// launch runs ranks of this test binary.
func launch(t testing.TB, launcher string, n int, what string) (string, error) {
	t.Helper()
	path := mpitest.Path(t, launcher)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	out, err := mpitest.Command(ctx, t, path, n, rankVariable+"="+what).CombinedOutput()
	return string(out), err
}

// Trainings over MPI, with one or several ranks in a process.
func TestOverMPI(t *testing.T) {
	for _, launcher := range mpitest.Launchers {
		t.Run(launcher, func(t *testing.T) {
			for what, n := range map[string]int{"train": 4, "host": 2} {
				if out, err := launch(t, launcher, n, what); err != nil || !strings.Contains(out, "passed") {
					t.Errorf("%s: %v\n%s", what, err, out)
				}
			}
		})
	}
}

// A rank that does not answer ends the training of the others.
func TestLostOverMPI(t *testing.T) {
	for _, launcher := range mpitest.Launchers {
		t.Run(launcher, func(t *testing.T) {
			t.Parallel() // they only wait
			if out, err := launch(t, launcher, 3, "lose"); err == nil || !strings.Contains(out, "partial collective of step 5") || !strings.Contains(out, "rank 1: no answer in time") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// The steps of BenchmarkDelays: timedSteps of 200 ms each, of which one rank, drawn at random,
// takes longer.
const (
	timedSteps  = 40
	timedValues = 1 << 20
	computeTime = 200 * time.Millisecond
)

func timeOf(rank, step, ranks int, delay time.Duration) time.Duration {
	if initiatorOf(77, step, ranks) == rank {
		return computeTime + delay
	}
	return computeTime
}

// leastTime is the time of all steps if no rank ever waits except at synchronous steps: that
// of the slowest rank of each period.
func leastTime(ranks, period int, delay time.Duration) (sum time.Duration) {
	for begin := 0; begin < timedSteps; begin += period {
		var slowest time.Duration
		for rank := range ranks {
			var own time.Duration
			for step := begin; step < min(begin+period, timedSteps); step++ {
				own += timeOf(rank, step, ranks, delay)
			}
			slowest = max(slowest, own)
		}
		sum += slowest
	}
	return sum
}

// timedMethod is how ranks exchange in BenchmarkDelays.
type timedMethod struct {
	name  string
	eager EagerOptions
	wagma bool // pairs, with the period and skips of eager
}

// timedMethods are those of BenchmarkDelays.
var timedMethods = []timedMethod{
	{"synchronous", EagerOptions{Period: 1}, false},
	{"solo", EagerOptions{Period: 10}, false},
	{"majority", EagerOptions{Initiator: Majority, Period: 10}, false},
	{"wagma", EagerOptions{Period: 10}, true},
	{"solo-skip", EagerOptions{Period: 10, Skip: true}, false},
	{"solo-skip-20", EagerOptions{Period: 20, Skip: true}, false},
	{"wagma-skip", EagerOptions{Period: 10, Skip: true}, true},
	{"wagma-skip-20", EagerOptions{Period: 20, Skip: true}, true},
}

// timeSteps prints the seconds of all steps, by a method and with a delay in milliseconds, the
// shares of late contributions and of steps that were left out, and the largest age in steps. A rank that computes sleeps.
func timeSteps(c *comm.Comm, method, delay string) error {
	ms, err := strconv.Atoi(delay)
	if err != nil {
		return err
	}
	compute := func(step int) {
		time.Sleep(timeOf(c.Rank(), step, c.Size(), time.Duration(ms)*time.Millisecond))
	}
	if err := comm.Barrier(c); err != nil {
		return err
	}
	begin, l := time.Now(), new(Log)
	m := timedMethods[slices.IndexFunc(timedMethods, func(m timedMethod) bool { return m.name == method })]
	if m.wagma {
		var a *WAGMA
		if a, err = wagmaOf(c, make([]float32, timedValues), WAGMAOptions{GroupSize: 2, Period: m.eager.Period, Skip: m.eager.Skip}, timedSteps, func(step int, _ []float32) { compute(step) }, nil); err == nil {
			l = a.Log()
		}
	} else {
		gradient := make([]float32, timedValues)
		var e *Eager
		if e, err = eagerOf(c, m.eager, timedSteps, eagerRun{values: timedValues, before: compute, gradient: func(int, []float32) []float32 { return gradient }}); err == nil {
			l = e.Log()
		}
	}
	if err != nil {
		return err
	}
	const values = 4
	own := []float64{time.Since(begin).Seconds(), float64(l.Late()), 0, float64(len(l.Skipped))}
	for step := range timedSteps {
		own[2] = max(own[2], float64(l.Age(step)))
	}
	all, err := comm.AllGather(c, own)
	if err == nil && c.Rank() == 0 {
		var seconds, late, age, left float64
		for r := range c.Size() {
			seconds, late, age, left = max(seconds, all[values*r]), late+all[values*r+1], max(age, all[values*r+2]), left+all[values*r+3]
		}
		all := float64(c.Size() * timedSteps)
		fmt.Printf("seconds %g late %g age %g left %g\n", seconds, late/all, age, left/all)
	}
	return err
}

// BenchmarkDelays measures steps per second of four processes of which one at random is
// slower in each step, and reports the bound by the computation of the ranks.
func BenchmarkDelays(b *testing.B) {
	const ranks = 4
	for _, ms := range []int{0, 50, 100, 300} {
		for _, m := range timedMethods {
			b.Run(fmt.Sprintf("%s/%dms", m.name, ms), func(b *testing.B) {
				best, late, age, left := math.Inf(1), 0.0, 0.0, 0.0
				for range b.N {
					out, err := launch(b, mpitest.Launchers[0], ranks, fmt.Sprintf("time %s %d", m.name, ms))
					var seconds float64
					if _, e := fmt.Sscanf(out, "seconds %g late %g age %g left %g", &seconds, &late, &age, &left); err != nil || e != nil {
						b.Fatal(err, out)
					}
					best = min(best, seconds)
				}
				b.ReportMetric(timedSteps/best, "steps/s")
				if m.eager.Skip {
					b.ReportMetric(100*left, "left-out-%")
				} else {
					b.ReportMetric(timedSteps/leastTime(ranks, m.eager.Period, time.Duration(ms)*time.Millisecond).Seconds(), "bound")
				}
				b.ReportMetric(100*late, "late-%")
				b.ReportMetric(age, "largest-age")
			})
		}
	}
}
