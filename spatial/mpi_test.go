//go:build cgo && linux

package spatial

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/mpitest"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/comm/mpi"
)

// rankVariable makes this test binary a rank of an MPI job; its value selects the program.
const rankVariable = "ENSEMBLE_SPATIAL_TEST"

func TestMain(m *testing.M) { mpitest.Main(m, rankVariable, asRank) }

// overMPI is the training whose weights must not depend on the transport.
var overMPI = training{mesh: Mesh{{Name: "data", Size: 3}}, steps: 3, size: smallBuckets, sharded: true,
	optimizer: &optim.Options{Kind: optim.LAMB, Decay: 0.01, Clip: 0.5, EMA: 0.9}}

// sum identifies weights and their average.
func (o outcome) sum() string {
	h := sha256.New()
	for _, x := range [][]float32{o.params, o.average} {
		if err := binary.Write(h, binary.LittleEndian, x); err != nil {
			panic(err)
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

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
	if what == "lose" {
		const lost = 2
		err := runAndLose(c, lost)
		var other *comm.RankError
		if errors.As(err, &other) {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(int(exit.RankLost))
		}
		if c.Rank() == lost {
			time.Sleep(time.Minute) // it is silent
		}
		return err
	}
	out, err := overMPI.on(c, wide())
	if err != nil {
		return err
	}
	if c.Rank() == 0 {
		fmt.Println("weights", out.sum())
	}
	return w.Close()
}

// onLaunchers runs three ranks of this test binary under every installed launcher.
func onLaunchers(t *testing.T, what string, then func(t *testing.T, code exit.Code, out string)) {
	for _, launcher := range mpitest.Launchers {
		t.Run(launcher, func(t *testing.T) {
			path := mpitest.Path(t, launcher)
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			defer cancel()
			out, err := mpitest.Command(ctx, t, path, 3, rankVariable+"="+what).CombinedOutput()
			code := exit.OK
			var failed *exec.ExitError
			if errors.As(err, &failed) {
				code = exit.Code(failed.ExitCode())
			} else if err != nil {
				t.Fatal(err)
			}
			then(t, code, string(out))
		})
	}
}

// With MPI the sums run during the backward pass as between goroutines: the weights
// have the same bits.
func TestShardsOverMPI(t *testing.T) {
	want := "weights " + overMPI.inProcess(t, wide(), comm.Parallel).sum()
	onLaunchers(t, "train", func(t *testing.T, code exit.Code, out string) {
		if code != exit.OK || !strings.Contains(out, want) {
			t.Errorf("exit %d, want %q:\n%s", code, want, out)
		}
	})
}

// A rank that does not answer during a sum ends the job with exit code 71. (MPICH
// may return the code of a rank that it killed.)
func TestLostDuringASumOverMPI(t *testing.T) {
	onLaunchers(t, "lose", func(t *testing.T, code exit.Code, out string) {
		if code != exit.RankLost && !mpitest.IsKilled(t.Name(), int(code)) || !strings.Contains(out, "summing gradients: ") || !strings.Contains(out, "rank 2: no answer in time") {
			t.Errorf("exit %d, want %d:\n%s", code, exit.RankLost, out)
		}
	})
}
