package spatial

import (
	"slices"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Parameters after three steps have the same bits on any number of processes that host the ranks of a mesh, with
// delayed messages and in other orders of them, with and without a sharded optimiser.
func TestStepsOnAnyProcesses(t *testing.T) {
	n := unet("U-Net", graph.Shape{2, 3, 2, 8, 16}, 1, true)
	for _, m := range []Mesh{
		{{Name: "lon", Size: 3}}, {{Name: "data", Size: 2}, {Name: "lat", Size: 2}}, {{Name: "data", Size: 2}, {Name: "lat", Size: 2}, {Name: "lon", Size: 2}},
	} {
		var want outcome
		for i, processes := range []int{m.Size(), 1, 2, m.Size() - 1} {
			r := training{mesh: m, steps: 3, size: smallBuckets, optimizer: &optim.Options{Kind: optim.Adam, Clip: 0.5}, sharded: i%2 == 1}
			mode := comm.Parallel.WithFaults(comm.Faults{Seed: uint64(i), Delay: 100 * time.Microsecond})
			if i == 3 {
				mode = comm.Replay(7)
			}
			var got outcome
			err := comm.Run(processes, mode, func(c *comm.Comm) error {
				return comm.HostRanks(c, m.Size(), func(c *comm.Comm) error {
					out, err := r.on(c, n)
					if c.Rank() == 0 {
						got = outcome{params: slices.Clone(out.params)}
					}
					return err
				})
			})
			if err != nil {
				t.Fatalf("%v on %d processes: %v", m, processes, err)
			}
			if i == 0 {
				want = got
			} else if !slices.Equal(got.params, want.params) {
				t.Errorf("%v: other bits on %d processes than on %d", m, processes, m.Size())
			}
		}
	}
}
