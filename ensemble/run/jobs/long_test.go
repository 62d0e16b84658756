//go:build long

package jobs

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/ensemble/run/bench"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// TestLongTimedRuns checks determinism level D1 of a network of the published size, five stages of base 32,
// on two threads. Two samples of 32×64 points are as many points as one crop of 64².
func TestLongTimedRuns(t *testing.T) {
	sum := traintest.CheckKernelTimings(t, runtest.FiftySteps(t, "model.stages=5", "train.batch_size=2", "train.epochs=10"), 50)
	t.Logf("runs without timings, with them, and resumed without its table end with SHA-256 %s", sum)
}

// TestLongRankFailures: TestFault37 and TestFault38 with every signal on either rank.
func TestLongRankFailures(t *testing.T) {
	checkRankFailures(t, onLaunchers, []rankFailure{
		{syscall.SIGKILL, 0, 0, "illed"},
		{syscall.SIGKILL, 1, 0, "illed"},
		{syscall.SIGSTOP, 0, exit.RankLost, "error[E071]: rank 0 was lost"},
		{syscall.SIGSTOP, 1, exit.RankLost, "error[E071]: rank 1 was lost"},
		{syscall.SIGTERM, 0, exit.SaveAndStop, "error[E075]: "},
		{syscall.SIGTERM, 1, exit.SaveAndStop, "error[E075]: "},
	})
}

// TestLongParallelMatrix trains 50 steps of the U-Net of base 8 on 64² points with periodic longitudes: on
// every mesh of 1, 2, 3, 4 and 8 ranks of this process, on those that divide four levels, and on some of Open
// MPI and MPICH.
func TestLongParallelMatrix(t *testing.T) {
	const steps = 50
	of := bench.Case{Model: bench.BenchUNet3D, Base: 8, Crop: setup.Crop{Height: 64, Width: 64}, Batch: 2, Depth: 2, Threads: 1}
	deep := of
	deep.Depth = 4
	kept := map[string]*bench.ParallelCheck{}
	tell := func(r *bench.ParallelCheck) {
		for _, m := range r.Meshes {
			t.Logf("%s, %s (%s), depth %d, mesh %q: forward %.1e, gradient %.1e, losses %.1e (floor %.1e), parameters %.1e, %.2f MiB sent a step",
				r.Optimizer, setup.DescribeRanks(r.Processes, r.Ranks), r.Transport, r.Network.Depth, m.Mesh, m.Forward, m.Gradient, m.Loss, r.LossFloor, m.Parameters, float64(m.BytesSent)/(1<<20))
		}
	}
	for _, n := range []int{1, 2, 3, 4, 8} {
		r := checkWithin(t, bench.ParallelCheckOptions{Case: of, Ranks: n, Steps: steps})
		tell(r)
		for _, m := range r.Meshes {
			one := *r
			one.Meshes = []bench.ParallelMesh{m}
			kept[fmt.Sprint(n, m.Mesh)] = &one
		}
	}
	// Adam enlarges rounding: losses stay together for ten steps only, and then part by what
	// the smallest change of the parameters does as well.
	for _, n := range []int{2, 3} {
		r, err := bench.CheckParallel(context.Background(), bench.ParallelCheckOptions{Case: of, Ranks: n, Steps: steps, Optimizer: string(optim.Adam)})
		if err != nil {
			t.Fatal(err)
		}
		tell(r)
		for _, m := range r.Meshes {
			if first := bench.Largest(m.Losses[:10], r.Losses[:10]); !(first <= lossOfRanks && m.Loss <= 4*r.LossFloor && m.SameBits) {
				t.Errorf("Adam on %s: losses differ by %.1e in 10 steps, by %.1e in %d; floor %.1e", m.Mesh, first, m.Loss, steps, r.LossFloor)
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
		checkWithin(t, bench.ParallelCheckOptions{Case: single, Ranks: c.ranks, Mesh: c.mesh, Steps: 1})
		r, err := bench.CheckParallel(context.Background(), bench.ParallelCheckOptions{Case: deep, Ranks: c.ranks, Mesh: c.mesh, Steps: steps})
		if err != nil {
			t.Fatal(err)
		}
		tell(r)
		if m := r.Meshes[0]; !(m.Forward <= forwardOfCuts && m.Loss <= lossOfRanks && m.SameBits) {
			t.Errorf("%s of four levels: forward %.1e, losses %.1e", m.Mesh, m.Forward, m.Loss)
		}
	}
	for _, c := range []struct {
		ranks int
		mesh  string
	}{{2, "lon:2"}, {3, "lat:3"}, {4, "data:2 lon:2"}, {8, "data:2 lat:2 lon:2"}} {
		for _, ranks := range []int{c.ranks, (c.ranks + 1) / 2} { // all, and several parts on some
			all := checkLaunched(t, onLaunchers, ranks, bench.ParallelCheckOptions{Case: of, Mesh: c.mesh, Steps: steps})
			for _, r := range all {
				tell(r)
			}
			sameBits(t, append(all, kept[fmt.Sprint(c.ranks, c.mesh)]))
		}
	}
}

// TestLongSameBits runs TestSameBitsOnAnyProcesses with every number of processes, alone and in sequence, on
// meshes of all kinds, with even and uneven shards, and with sharded and unsharded optimiser state.
func TestLongSameBits(t *testing.T) {
	var all []traintest.ProcessCounts
	for _, mesh := range []string{"data:4", "lat:4", "lon:4", "data:2 lat:2", "level:2 lon:2", "lat:2 lon:2", "data:2 lon:3"} {
		for _, sharded := range []bool{false, true} {
			all = append(all, traintest.ProcessCounts{Mesh: mesh, Processes: [][]int{{1}, {2}, {3}, {4}, {4, 1}, {1, 3}, {2, 4, 3}},
				Overrides: []string{"train.optimizer=adam", "train.clip=0.05", "train.ema=0.5", fmt.Sprint("train.shard_optimizer=", sharded)}})
		}
	}
	all = append(all, traintest.ProcessCounts{Mesh: "lat:3", Processes: [][]int{{1}, {2, 1}, {1, 2}}, Overrides: []string{"train.optimizer=lamb", "train.accumulate=2"}})
	traintest.CheckProcessCounts(t, all)
}

// Failures of one rank under every launcher.
func TestLongOneRankFailsOneReport(t *testing.T) { checkOneReport(t, nil) }
