package cluster_test

import (
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Messages within a node use the first network; those to other nodes share the
// node's port of the second.
func TestNodes(t *testing.T) {
	n := cluster.Nodes{PerNode: 2, IntraNode: cluster.AlphaBeta{Alpha: 100 * cluster.Nanosecond, Rate: 10_000_000_000},
		InterNode: cluster.AlphaBeta{Alpha: cluster.Microsecond, Rate: 1_000_000_000}}
	// Two ranks a node, 1000 bytes each: 200 ns inside, 2 µs between, one after the other.
	for _, c := range []struct {
		name string
		to   func(rank int) int
		want cluster.Time
	}{
		{"neighbours in a node", func(r int) int { return r ^ 1 }, 200 * cluster.Nanosecond},
		{"the other node", func(r int) int { return r ^ 2 }, 4 * cluster.Microsecond},
	} {
		result := run(t, 4, n, func(r *cluster.Rank) error {
			got := r.Recv(c.to(r.Rank()), 0, sized(1000))
			return comm.WaitAll(r.Send(c.to(r.Rank()), 0, sized(1000)), got)
		})
		if result.Time() != c.want {
			t.Errorf("%s: %v, want %v", c.name, result.Time(), c.want)
		}
	}
	for name, wrong := range map[string]cluster.Nodes{
		"no ranks":       {PerNode: 0, IntraNode: n.IntraNode, InterNode: n.InterNode},
		"no network":     {PerNode: 2, IntraNode: n.IntraNode},
		"two overheads":  {PerNode: 2, IntraNode: n.IntraNode, InterNode: cluster.LogGP{Overhead: 1, Rate: 1e9}},
		"too few places": {PerNode: 2, IntraNode: n.IntraNode, InterNode: cluster.Fluid{Wiring: flat(t, "crossbar:1")}},
	} {
		if _, err := cluster.Run(4, wrong, cluster.Options{}, func(*cluster.Rank) error { return nil }); exit.CodeOf(err) != exit.Usage {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Messages of a task progress while its rank computes, and its end wakes the
// waiting rank.
func TestTask(t *testing.T) {
	const n = 10_000_000 // bytes: 0.8 ms each way
	network := cluster.AlphaBeta{Alpha: cluster.Microsecond, Rate: fast}
	program := func(compute cluster.Time) cluster.Time {
		return run(t, 2, network, func(r *cluster.Rank) error {
			group, err := r.Group([]int{0, 1})
			if err != nil {
				return err
			}
			task := group.Go(nil, func(c *comm.Comm) error { return comm.AllReduce(c, sized(n), comm.Ring) })
			task = group.Go(task, func(c *comm.Comm) error { return comm.AllReduce(c, sized(n), comm.Ring) })
			r.Compute(compute)
			return task.Wait(r.Comm)
		}).Time()
	}
	sums := program(0)
	if got := program(sums / 2); got != sums {
		t.Errorf("%v with short computing, want %v", got, sums)
	}
	if got := program(2 * sums); got != 2*sums {
		t.Errorf("%v with long computing, want %v", got, 2*sums)
	}
}
