//go:build cgo && linux

package mpi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/dl"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/comm/commtest"
)

// part is the variable that makes this test binary a rank: the programs of
// commtest, or one that stalls.
const part = "ENSEMBLE_MPI_TEST"

func TestMain(m *testing.M) {
	if what := os.Getenv(part); what != "" {
		if err := rank(what); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(int(exit.CodeOf(err)))
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func rank(what string) error {
	l, ok := Launched(os.Getenv)
	if !ok {
		return errors.New("no launcher is seen")
	}
	stall := time.Minute
	if what == "stall" {
		stall = time.Second
	}
	w, err := Join(l, stall)
	if err != nil {
		return err
	}
	c := comm.New(w)
	if what == "stall" {
		if c.Rank() == 1 {
			time.Sleep(time.Minute)
		}
		err := comm.Barrier(c)
		fmt.Fprintf(os.Stderr, "rank %d: %v\n", c.Rank(), err)
		var other *comm.RankError
		if errors.As(err, &other) && errors.Is(err, ErrStalled) {
			w.Abort(exit.RankLost)
		}
		return err
	}
	for _, p := range commtest.Programs {
		if err := p.Run(c); err != nil {
			err = fmt.Errorf("%s: rank %d of %d: %w", p.Name, c.Rank(), c.Size(), err)
			fmt.Fprintln(os.Stderr, err)
			w.Abort(exit.Bug)
			return err
		}
	}
	if c.Rank() == 0 {
		fmt.Printf("passed on %d ranks\n", c.Size())
	}
	return w.Close()
}

// mpirun runs this test binary on n ranks; the test is skipped where the launcher
// or its library is missing.
func mpirun(t *testing.T, i Implementation, n int, what string) (string, error) {
	t.Helper()
	launcher := map[string]string{"Open MPI": "mpirun.openmpi", "MPICH": "mpirun.mpich"}[i.Name]
	path, err := exec.LookPath(launcher)
	if err != nil {
		t.Skipf("skipped: %v; install the packages openmpi-bin and mpich", err)
	}
	if _, err := Probe(i); errors.Is(err, dl.ErrNotFound) {
		t.Skipf("skipped: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "-n", fmt.Sprint(n), os.Args[0])
	cmd.Env = append(os.Environ(), part+"="+what, "GOMAXPROCS=2",
		"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "OMPI_MCA_rmaps_base_oversubscribe=1", "OMPI_MCA_mpi_yield_when_idle=1", "OMPI_MCA_hwloc_base_binding_policy=none")
	out, err := cmd.CombinedOutput()
	return string(out), err
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

// A rank that does not answer is named, and ends the job with 71 within the stall
// timeout.
func TestStall(t *testing.T) {
	for _, i := range Implementations {
		t.Run(i.Name, func(t *testing.T) {
			begin := time.Now()
			out, err := mpirun(t, i, 2, "stall")
			var e *exec.ExitError
			if !errors.As(err, &e) || e.ExitCode() != int(exit.RankLost) || !strings.Contains(out, "rank 0: barrier: rank 1: no answer in time") {
				t.Errorf("%v\n%s", err, out)
			}
			if d := time.Since(begin); d > 30*time.Second {
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
	}{
		{map[string]string{"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "1"}, "Open MPI", 4, 1},
		{map[string]string{"OMPI_COMM_WORLD_SIZE": "4"}, "Open MPI", 4, -1},
		{map[string]string{"PMI_SIZE": "3", "PMI_RANK": "0"}, "MPICH", 3, 0},
		{map[string]string{"SLURM_NTASKS": "8", "PMIX_RANK": "2"}, "Open MPI", 8, 2},
		{map[string]string{"SLURM_NTASKS": "8"}, "", 0, 0},
		{map[string]string{"PMI_SIZE": "many"}, "", 0, 0},
	} {
		l, ok := Launched(func(name string) string { return k.env[name] })
		if ok != (k.size > 0) || l.Implementation.Name != k.name || l.Size != k.size || l.Rank != k.rank {
			t.Errorf("%v: %+v, %v", k.env, l, ok)
		}
	}
}
