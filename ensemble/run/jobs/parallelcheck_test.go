package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/ensemble/run/bench"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Bounds of what ranks may change in float32. Cuts in space move the tiles of Winograd's
// products, and with them the rounding of a prediction.
const (
	forwardOfSamples = 1e-6 // a cut along samples
	forwardOfCuts    = 1e-5
	gradientOfRanks  = 1e-5
	lossOfRanks      = 1e-4
)

// checkParallelErrors fails for what a check of ranks must not show.
func checkParallelErrors(t *testing.T, r *bench.ParallelCheck) {
	t.Helper()
	if len(r.Meshes) == 0 || len(r.Losses) != r.Steps {
		t.Fatalf("%d meshes, losses %v of %d steps", len(r.Meshes), r.Losses, r.Steps)
	}
	for _, v := range r.Losses {
		if !(v > 0) || math.IsInf(v, 0) {
			t.Errorf("losses of one rank: %v", r.Losses)
			break
		}
	}
	for _, m := range r.Meshes {
		forward := forwardOfCuts
		if strings.HasPrefix(m.Mesh, "data:") && !strings.Contains(m.Mesh, " ") || m.Mesh == "" {
			forward = forwardOfSamples
		}
		if !(m.Forward <= forward && m.Gradient <= gradientOfRanks && m.Loss <= lossOfRanks) || len(m.Losses) != r.Steps {
			t.Errorf("%v on %s (%s): %+v", r.Network, m.Mesh, r.Transport, m)
		}
		if !m.SameBits || !r.SameBits {
			t.Errorf("%s, %d ranks (%s): other bits than all ranks in one process", m.Mesh, r.Ranks, r.Transport)
		}
		if r.Ranks > 1 && m.BytesSent == 0 {
			t.Errorf("%s: nothing was sent", m.Mesh)
		}
	}
}

// checkWithin checks ranks of this process; without a device the test is skipped.
func checkWithin(t *testing.T, o bench.ParallelCheckOptions) *bench.ParallelCheck {
	t.Helper()
	r, err := bench.CheckParallel(context.Background(), o)
	if exit.CodeOf(err) == exit.NoDevice {
		t.Skip("skipped: no device: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	checkParallelErrors(t, r)
	return r
}

// checkLine starts the line with the result of a check on rank 0.
const checkLine = "check "

// printCheck runs one rank under a launcher.
func printCheck(o bench.ParallelCheckOptions) error {
	r, err := bench.CheckParallel(context.Background(), o)
	if err != nil || team.IsNonRoot() {
		return err
	}
	text, err := json.Marshal(r)
	fmt.Fprintf(os.Stdout, "%s%s\n", checkLine, text)
	return err
}

// checkLaunched checks ranks of launchers.
func checkLaunched(t *testing.T, on launchers, ranks int, o bench.ParallelCheckOptions) (all []*bench.ParallelCheck) {
	t.Helper()
	launchJob(t, on, ranks, job{Check: &o}, func(out string, code exit.Code) {
		if code != exit.OK {
			t.Error(out)
			return
		}
		for line := range strings.Lines(out) {
			if text, ok := strings.CutPrefix(line, checkLine); ok {
				r := new(bench.ParallelCheck)
				if err := json.Unmarshal([]byte(text), r); err != nil {
					t.Fatal(err)
				}
				checkParallelErrors(t, r)
				all = append(all, r)
			}
		}
	})
	return all
}

// Training on meshes of 2, 3 and 4 parts, with even and uneven shards, agrees with training on one. Repeated
// on fewer ranks, and under a launcher, it gives the same bits.
func TestParallelMatrix(t *testing.T) { checkParallelMatrix(t, onALauncher) }

// checkParallelMatrix compares ranks of launchers and of this process.
func checkParallelMatrix(t *testing.T, on launchers) {
	of := bench.Case{Model: bench.BenchUNet3D, Base: 4, Crop: setup.Crop{Height: 32, Width: 32}, Batch: 2, Depth: 2, Threads: 1}
	checkWithin(t, bench.ParallelCheckOptions{Case: of, Ranks: 3, Mesh: "lon:3", Steps: 2})
	for _, c := range []struct {
		ranks []int // of launchers, and of this process
		mesh  string
	}{{[]int{2, 2, 2}, "lat:2"}, {[]int{2, 4, 3}, "data:2 lon:2"}} {
		o := bench.ParallelCheckOptions{Case: of, Mesh: c.mesh, Steps: 2}
		all := checkLaunched(t, on, c.ranks[0], o)
		for _, n := range c.ranks[1:] {
			o.Ranks = n
			all = append(all, checkWithin(t, o))
		}
		sameBits(t, all)
		for i, r := range all[max(0, len(all)-2):] {
			if r.Processes != c.ranks[1+i] || r.Ranks < r.Processes {
				t.Errorf("%s on %d processes: %d, with %d ranks", c.mesh, c.ranks[1+i], r.Processes, r.Ranks)
			}
		}
	}
}

// The smallest change of the parameters changes losses at least as much as rounding, and less than the
// tolerance of ranks. The check reports different bits.
func TestLossFloor(t *testing.T) {
	of := bench.Case{Model: bench.BenchUNet3D, Base: 8, Crop: setup.Crop{Height: 64, Width: 64}, Batch: 2, Depth: 2, Threads: 1}
	r := checkWithin(t, bench.ParallelCheckOptions{Case: of, Ranks: 1, Mesh: "data:2", Steps: 10, Optimizer: string(optim.Adam)})
	if !(r.LossFloor > 1e-9 && r.LossFloor < lossOfRanks) {
		t.Errorf("loss floor %g", r.LossFloor)
	}
}

// sameBits fails if checks of one mesh end with different parameters.
func sameBits(t *testing.T, all []*bench.ParallelCheck) {
	t.Helper()
	for _, r := range all[1:] {
		if r.Meshes[0].Checksum != all[0].Meshes[0].Checksum || r.Checksum != all[0].Checksum {
			t.Errorf("%s: parameters %s over %s, %s over %s", r.Meshes[0].Mesh, r.Meshes[0].Checksum[:8], r.Transport, all[0].Meshes[0].Checksum[:8], all[0].Transport)
		}
	}
}
