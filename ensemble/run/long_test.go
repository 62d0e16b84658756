//go:build long

package run

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// TestLongTimedRuns: determinism of level D1 of a network of the published size, five
// stages of base 32, on two threads. Two starts of 32×64 are as many points as one
// crop of 64².
func TestLongTimedRuns(t *testing.T) {
	sum := checkTimedRuns(t, fifty(t, "model.stages=5", "train.batch_size=2", "train.epochs=10"))
	t.Logf("runs without timings, with them, and resumed without its table end with SHA-256 %s", sum)
}

// TestLongRankFailures: TestRankFailures with every signal on either rank.
func TestLongRankFailures(t *testing.T) {
	checkRankFailures(t, []rankFailure{
		{syscall.SIGKILL, 0, 0, "illed"},
		{syscall.SIGKILL, 1, 0, "illed"},
		{syscall.SIGSTOP, 0, exit.RankLost, "error[E071]: rank 0 was lost"},
		{syscall.SIGSTOP, 1, exit.RankLost, "error[E071]: rank 1 was lost"},
		{syscall.SIGTERM, 0, exit.SaveAndStop, "error[E075]: another rank was told to stop"},
		{syscall.SIGTERM, 1, exit.SaveAndStop, "error[E075]: interrupted by signal terminated"},
	})
}

// TestLongParallelMatrix: 50 steps of the U-Net of base 8 on 64² points, whose longitudes wrap
// around, on every mesh of 1, 2, 3, 4 and 8 ranks of this process, on those that cut four
// levels, and on some of Open MPI and MPICH.
func TestLongParallelMatrix(t *testing.T) {
	const steps = 50
	of := BenchCase{Model: BenchUNet3D, Base: 8, Crop: Crop{64, 64}, Batch: 2, Depth: 2, Threads: 1}
	deep := of
	deep.Depth = 4
	kept := map[string]*ParallelCheck{}
	tell := func(r *ParallelCheck) {
		for _, m := range r.Meshes {
			t.Logf("%s, %d ranks (%s), depth %d, mesh %q: forward %.1e, gradient %.1e, losses %.1e, parameters %.1e, %.2f MiB sent a step",
				r.Optimizer, r.Ranks, r.Transport, r.Network.Depth, m.Mesh, m.Forward, m.Gradient, m.Loss, m.Parameters, float64(m.BytesSent)/(1<<20))
		}
	}
	for _, n := range []int{1, 2, 3, 4, 8} {
		r := checkWithin(t, ParallelCheckOptions{Case: of, Ranks: n, Steps: steps})
		tell(r)
		for _, m := range r.Meshes {
			one := *r
			one.Meshes = []ParallelMesh{m}
			kept[fmt.Sprint(n, m.Mesh)] = &one
		}
	}
	// Adam enlarges rounding: its losses stay together for ten steps only.
	for _, n := range []int{2, 3} {
		r, err := CheckParallel(context.Background(), ParallelCheckOptions{Case: of, Ranks: n, Steps: steps, Optimizer: optim.Adam})
		if err != nil {
			t.Fatal(err)
		}
		tell(r)
		for _, m := range r.Meshes {
			if first := largest(m.Losses[:10], r.Losses[:10]); !(first <= lossOfRanks && m.Loss <= 20*lossOfRanks) {
				t.Errorf("Adam on %s: losses differ by %.1e in 10 steps, by %.1e in %d", m.Mesh, first, m.Loss, steps)
			}
		}
	}
	for _, c := range []struct {
		ranks int
		mesh  string
	}{{3, "level:3"}, {4, "level:4"}, {8, "level:4 lon:2"}} {
		// Of one sample: in a draw of two there is nearly always a value that rounding puts on
		// the other side of a ReLU.
		single := deep
		single.Batch = 1
		checkWithin(t, ParallelCheckOptions{Case: single, Ranks: c.ranks, Mesh: c.mesh, Steps: 1})
		r, err := CheckParallel(context.Background(), ParallelCheckOptions{Case: deep, Ranks: c.ranks, Mesh: c.mesh, Steps: steps})
		if err != nil {
			t.Fatal(err)
		}
		tell(r)
		if m := r.Meshes[0]; !(m.Forward <= forwardOfCuts && m.Loss <= lossOfRanks) {
			t.Errorf("%s of four levels: forward %.1e, losses %.1e", m.Mesh, m.Forward, m.Loss)
		}
	}
	for _, c := range []struct {
		ranks int
		mesh  string
	}{{2, "lon:2"}, {3, "lat:3"}, {4, "data:2 lon:2"}, {8, "data:2 lat:2 lon:2"}} {
		all := checkLaunched(t, c.ranks, ParallelCheckOptions{Case: of, Mesh: c.mesh, Steps: steps})
		for _, r := range all {
			tell(r)
		}
		sameBits(t, append(all, kept[fmt.Sprint(c.ranks, c.mesh)]))
	}
}
