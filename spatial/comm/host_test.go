package comm_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/comm/commtest"
)

// rankHost runs hosted ranks on processes that are ranks of this process.
func rankHost(processes, parts int, mode comm.Mode, f func(c *comm.Comm) error) error {
	return comm.Run(processes, mode, func(c *comm.Comm) error { return comm.HostRanks(c, parts, f) })
}

// The conformance suite passes on hosted ranks, as many as processes or more, with
// messages that overtake each other and in every order that a seed draws.
func TestHostedPrograms(t *testing.T) { hostedPrograms(t, 2) }

// hostedPrograms runs the conformance tests on ranks in parallel, and in as many orders of messages as there are seeds.
func hostedPrograms(t *testing.T, seeds int) {
	for _, p := range commtest.Programs {
		t.Run(p.Name, func(t *testing.T) {
			for _, n := range [][2]int{{1, 1}, {1, 4}, {2, 2}, {2, 3}, {3, 4}, {2, 5}, {3, 8}} {
				if err := rankHost(n[0], n[1], comm.Parallel, p.Run); err != nil {
					t.Fatalf("%d parts on %d: %v", n[1], n[0], err)
				}
				for seed := range uint64(seeds) {
					if err := rankHost(n[0], n[1], comm.Replay(seed), p.Run); err != nil {
						t.Fatalf("%d parts on %d: %v", n[1], n[0], err)
					}
				}
			}
		})
	}
}

// Processes host consecutive ranges of ranks.
func TestProcess(t *testing.T) {
	for _, k := range []struct{ processes, parts int }{{1, 3}, {2, 3}, {3, 7}, {4, 4}} {
		err := rankHost(k.processes, k.parts, comm.Parallel, func(c *comm.Comm) error {
			if c.Size() != k.parts {
				return fmt.Errorf("%d parts", c.Size())
			}
			for part := range k.parts {
				// The largest r with r·parts/processes ≤ part.
				if want := ((part+1)*k.processes - 1) / k.parts; c.Process(part) != want {
					return fmt.Errorf("part %d is on process %d, want %d", part, c.Process(part), want)
				}
			}
			return nil
		})
		if err != nil {
			t.Errorf("%d parts on %d: %v", k.parts, k.processes, err)
		}
	}
	if err := rankHost(3, 2, comm.Parallel, comm.Barrier); err == nil || !strings.Contains(err.Error(), "hosting 2 ranks on 3 processes") {
		t.Errorf("too few parts: %v", err)
	}
}

// Ranks of a process share memory, those of others do not.
func TestShareInProcess(t *testing.T) {
	for _, mode := range []comm.Mode{comm.Parallel, comm.Replay(1), comm.Replay(2)} {
		err := rankHost(2, 5, mode, func(c *comm.Comm) error {
			for round := range 3 {
				first := c.Rank()
				for first > 0 && c.Process(first-1) == c.Process(c.Rank()) {
					first--
				}
				own := []int{10*c.Rank() + round}
				got, err := comm.ShareInProcess(c, first, own)
				if err != nil || got[0] != 10*first+round || (first == c.Rank()) != (&got[0] == &own[0]) {
					return fmt.Errorf("rank %d, round %d: value %v of rank %d, error %v", c.Rank(), round, got, first, err)
				}
				if _, err = comm.ShareInProcess(c, c.Size()-1, own); (err == nil) != (c.Process(c.Size()-1) == c.Process(c.Rank())) {
					return fmt.Errorf("rank %d: error %v for the last rank", c.Rank(), err)
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// A hosted rank that fails ends the other ranks of its process, which wait for each
// other, for other processes and in tasks, and then the other processes. The error
// has its number.
func TestHostedFailure(t *testing.T) {
	for _, mode := range []comm.Mode{comm.Parallel, comm.Replay(1), comm.Replay(2), comm.Replay(3)} {
		for name, broken := range map[string]func() error{
			"hosted rank 2: broken": func() error { return errors.New("broken") },
			"hosted rank 2: panic":  func() error { panic("broken") },
		} {
			err := rankHost(2, 6, mode, func(c *comm.Comm) error {
				x := make([]byte, 1)
				switch c.Rank() {
				case 0:
					return c.Recv(1, 0, x).Wait() // beside it
				case 1:
					return c.Recv(5, 0, x).Wait() // elsewhere
				case 2:
					return broken()
				case 3:
					return c.Go(nil, func(g *comm.Comm) error { return g.Recv(2, 0, x).Wait() }).Wait(c)
				}
				return c.Recv(2, 0, x).Wait()
			})
			if err == nil || !strings.Contains(err.Error(), "rank 0: "+name) {
				t.Errorf("%v: %v, want %q", mode, err, name)
			}
		}
	}
}
