package comm_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/comm/commtest"
)

// The conformance suite passes with delayed messages that overtake each other.
func TestDelays(t *testing.T) {
	late := 500 * time.Microsecond
	for _, p := range commtest.Programs {
		t.Run(p.Name, func(t *testing.T) {
			for seed := range uint64(2) {
				if err := comm.Run(4, comm.Parallel.WithFaults(comm.Faults{Seed: seed, Delay: late}), p.Run); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
		})
	}
}

// Delays change the order in which messages of two senders arrive.
func TestDelaysReorder(t *testing.T) {
	first := map[int]int{}
	for seed := range uint64(20) {
		err := comm.Run(3, comm.Parallel.WithFaults(comm.Faults{Seed: seed, Delay: 5 * time.Millisecond}), func(c *comm.Comm) error {
			if c.Rank() > 0 {
				return c.Send(0, 0, []byte{1}).Wait()
			}
			one, two := c.Recv(1, 0, make([]byte, 1)), c.Recv(2, 0, make([]byte, 1))
			for !one.Test() && !two.Test() {
				time.Sleep(50 * time.Microsecond)
			}
			if one.Test() {
				first[1]++
			} else {
				first[2]++
			}
			return comm.WaitAll(one, two)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if first[1] == 0 || first[2] == 0 {
		t.Errorf("the first message was that of rank %v", first)
	}
}

// A lost message ends the run with an error that names the waiting rank, also with
// delays and in a replay.
func TestLostMessage(t *testing.T) {
	lose := func(from, to, n int) bool { return from == 2 && to == 1 && n == 3 }
	for _, mode := range []comm.Mode{
		comm.Parallel.WithFaults(comm.Faults{Drop: lose}), comm.Replay(3).WithFaults(comm.Faults{Drop: lose}),
		comm.Parallel.WithFaults(comm.Faults{Drop: lose, Delay: time.Millisecond}),
	} {
		err := comm.Run(3, mode, func(c *comm.Comm) error {
			for range 4 {
				x := make([]float32, 30_000)
				if err := comm.AllReduce(c, x, comm.Ring); err != nil {
					return err
				}
				if err := comm.Barrier(c); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil || !strings.Contains(err.Error(), "rank 1 waits for a message from rank 2, tag") {
			t.Errorf("%v: %v", mode, err)
		}
	}
}
