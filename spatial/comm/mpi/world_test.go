//go:build cgo && linux

package mpi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/dl"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/mpitest"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/comm/commtest"
)

// part is the variable that makes this test binary a rank; its value selects the
// conformance suite or a failure.
const part = "ENSEMBLE_MPI_TEST"

func TestMain(m *testing.M) { mpitest.Main(m, part, rank) }

func rank(what string) error {
	l, ok := Launched(os.Getenv)
	if !ok {
		return errors.New("no launcher is seen")
	}
	join := func(stall time.Duration) (commtest.Job, error) { return Join(l, stall) }
	if what == longMessage {
		return receiveWithoutCalls(l)
	}
	sum, timed := strings.CutPrefix(what, "sum ")
	if !timed {
		return commtest.RunRank(what, join)
	}
	w, err := join(time.Minute)
	if err != nil {
		return err
	}
	if err := timeSums(comm.New(w), sum); err != nil {
		return err
	}
	return w.Close()
}

// mpirun runs this test binary on n ranks; the test is skipped where the launcher
// or its library is missing.
func mpirun(t testing.TB, i Implementation, n int, what string) (string, error) {
	t.Helper()
	path := mpitest.Path(t, map[string]string{"Open MPI": mpitest.Launchers[0], "MPICH": mpitest.Launchers[1]}[i.Name])
	if _, err := Probe(i); errors.Is(err, dl.ErrNotFound) {
		t.Skipf("skipped: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	out, err := mpitest.Command(ctx, t, path, n, part+"="+what).CombinedOutput()
	return string(out), err
}

// sumRounds is the number of sums that timeSums measures.
const sumRounds = 10

// timeSums prints the seconds of a sum of 64 MiB on each rank by the algorithm of the given name.
func timeSums(c *comm.Comm, name string) error {
	for _, a := range []comm.Algorithm{comm.Ring, comm.Halving, comm.Doubling} {
		if a.String() != name {
			continue
		}
		x := make([]float32, 64<<20/4)
		var begin time.Time
		for k := range sumRounds + 1 {
			if k == 1 { // after a first round
				if err := comm.Barrier(c); err != nil {
					return err
				}
				begin = time.Now()
			}
			if err := comm.AllReduce(c, x, a); err != nil {
				return err
			}
		}
		if c.Rank() == 0 {
			fmt.Printf("%g\n", time.Since(begin).Seconds()/sumRounds)
		}
	}
	return nil
}

// BenchmarkAllReduce sums 64 MiB on each of 2 and 4 processes. The tree over the ranks (halving) and the ring move the
// same bytes.
func BenchmarkAllReduce(b *testing.B) {
	for _, i := range Implementations {
		for _, n := range []int{2, 4} {
			for _, a := range []comm.Algorithm{comm.Ring, comm.Halving, comm.Doubling} {
				b.Run(fmt.Sprintf("%s/%d/%v", i.Name, n, a), func(b *testing.B) {
					for range b.N {
						out, err := mpirun(b, i, n, "sum "+a.String())
						s, e := strconv.ParseFloat(strings.TrimSpace(out), 64)
						if err != nil || e != nil {
							b.Fatal(err, out)
						}
						b.ReportMetric(1000*s, "ms/sum")
					}
				})
			}
		}
	}
}

// One test binary runs the programs of commtest under both libraries.
func TestPrograms(t *testing.T) {
	for _, i := range Implementations {
		t.Run(i.Name, func(t *testing.T) {
			for _, n := range []int{1, 2, 3, 4} {
				out, err := mpirun(t, i, n, "programs")
				if err != nil || !strings.Contains(out, fmt.Sprintf("passed on %d ranks", n)) {
					t.Errorf("%d ranks: %v\n%s", n, err, out)
				}
			}
		})
	}
}

// The conformance suite passes on hosted ranks.
func TestHostedPrograms(t *testing.T) {
	for _, i := range Implementations {
		t.Run(i.Name, func(t *testing.T) {
			for _, n := range [][2]int{{1, 3}, {2, 3}, {2, 4}, {3, 8}} {
				out, err := mpirun(t, i, n[0], fmt.Sprintf("parts %d", n[1]))
				if err != nil || !strings.Contains(out, fmt.Sprintf("passed on %d ranks", n[1])) {
					t.Errorf("%d parts on %d processes: %v\n%s", n[1], n[0], err, out)
				}
			}
		})
	}
}

// A task that waits for its own rank too does not count as stalled while that computes.
func TestOwnRankComputes(t *testing.T) {
	for _, i := range Implementations {
		t.Run(i.Name, func(t *testing.T) {
			t.Parallel() // they only wait
			if out, err := mpirun(t, i, 3, "computes"); err != nil || strings.Contains(out, "no answer") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// A hosted rank that stalls the others is reported by the number of its process;
// one that fails ends its process, and with it the job.
func TestPartFailures(t *testing.T) {
	for _, i := range Implementations {
		t.Run(i.Name, func(t *testing.T) {
			t.Parallel() // they only wait
			for what, want := range map[string]string{
				"a part sleeps": "rank 1: no answer in time: 2s", "its process is stopped": "rank 1: no answer in time: 2s", "a part is broken": "rank 1: hosted rank 3: broken",
			} {
				begin := time.Now()
				out, err := mpirun(t, i, 3, what)
				if err == nil || !strings.Contains(out, want) || strings.Contains(out, "rank 0: no answer") || strings.Contains(out, "rank 2: no answer") {
					t.Errorf("%s: %v\n%s", what, err, out)
				}
				if d := time.Since(begin); d > commtest.ShortStall+45*time.Second {
					t.Errorf("%s: ended after %v", what, d)
				}
			}
		})
	}
}

// ended reports whether a launcher's exit code is the expected one of a rank. MPICH
// may return the code of a rank that it killed.
func ended(i Implementation, code int, want exit.Code) bool {
	return code == int(want) || mpitest.IsKilled(strings.ToLower(i.Name), code)
}

// A rank that stalls the others, directly or through another rank, is reported by
// those that notice, and the job ends with exit code 71 within the stall timeout.
func TestStall(t *testing.T) {
	for _, i := range Implementations {
		t.Run(i.Name, func(t *testing.T) {
			t.Parallel() // they only wait
			for what, want := range map[string]string{
				"sleeps": "rank 1: no answer in time: 2s", "is stopped": "rank 1: no answer in time: 2s", "sleeps while others wait for any message": "rank 1: no answer in time: 2s", "leaves": "rank 1: no answer in time: 2s: it has already finished",
				"loses a message": "no answer in time: 2s",
			} {
				begin := time.Now()
				out, err := mpirun(t, i, 3, what)
				var e *exec.ExitError
				if !errors.As(err, &e) || !ended(i, e.ExitCode(), exit.RankLost) || !strings.Contains(out, want) {
					t.Errorf("rank 1 %s: %v\n%s", what, err, out)
				}
				if strings.Contains(out, "rank 0: rank 2:") && want != "no answer in time: 2s" {
					t.Errorf("rank 1 %s: rank 2 is blamed\n%s", what, out)
				}
				if d := time.Since(begin); d < commtest.ShortStall/2 || d > commtest.ShortStall+45*time.Second {
					t.Errorf("rank 1 %s: ended after %v", what, d)
				}
			}
		})
	}
}

// The report of a rank that fails ends the waits of all others, directly or for another rank, long before the stall timeout.
func TestFailReachesWaits(t *testing.T) {
	for _, i := range Implementations {
		t.Run(i.Name, func(t *testing.T) {
			out, err := mpirun(t, i, 3, "fails")
			for _, want := range []string{"rank 0: rank 1: it failed: its disk is full", "rank 2: rank 1: it failed: its disk is full"} {
				if err == nil || !strings.Contains(out, want) {
					t.Errorf("no %q: %v\n%s", want, err, out)
				}
			}
		})
	}
}

// A killed rank ends the job at once, and the launcher reports it.
func TestKilled(t *testing.T) {
	for _, i := range Implementations {
		t.Run(i.Name, func(t *testing.T) {
			begin := time.Now()
			out, err := mpirun(t, i, 3, "is killed")
			var e *exec.ExitError
			if !errors.As(err, &e) || e.ExitCode() == int(exit.OK) || !strings.Contains(strings.ToLower(out), "killed") {
				t.Errorf("%v\n%s", err, out)
			}
			if d := time.Since(begin); d > 45*time.Second {
				t.Errorf("ended after %v", d)
			}
		})
	}
}

func TestLaunched(t *testing.T) {
	for _, k := range []struct {
		env        map[string]string
		name       string
		size, rank int
		apart      int
	}{
		{map[string]string{"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "1"}, "Open MPI", 4, 1, 0},
		{map[string]string{"OMPI_COMM_WORLD_SIZE": "4"}, "Open MPI", 4, -1, 0},
		{map[string]string{"PMI_SIZE": "3", "PMI_RANK": "0"}, "MPICH", 3, 0, 0},
		{map[string]string{"SLURM_NTASKS": "8", "PMIX_RANK": "2"}, "Open MPI", 8, 2, 0},
		{map[string]string{"SLURM_NTASKS": "8"}, "", 0, 0, 0},
		{map[string]string{"SLURM_NTASKS": "8", "SLURM_STEP_NUM_TASKS": "8"}, "", 0, 0, 8},
		{map[string]string{"SLURM_NTASKS": "8", "SLURM_STEP_NUM_TASKS": "1"}, "", 0, 0, 0},
		{map[string]string{"SLURM_NTASKS": "8", "SLURM_STEP_NUM_TASKS": "8", "PMI_SIZE": "8", "PMI_RANK": "7"}, "MPICH", 8, 7, 0},
		{map[string]string{"PMI_SIZE": "many"}, "", 0, 0, 0},
	} {
		env := func(name string) string { return k.env[name] }
		l, ok := Launched(env)
		if apart := UnjoinedTasks(env); apart != k.apart {
			t.Errorf("%v: %d tasks apart, want %d", k.env, apart, k.apart)
		}
		if ok != (k.size > 0) || l.Implementation.Name != k.name || l.Size != k.size || l.Rank != k.rank {
			t.Errorf("%v: %+v, %v", k.env, l, ok)
		}
	}
}
