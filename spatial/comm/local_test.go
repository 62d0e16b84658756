package comm

import "testing"

// Equal seeds give equal runs; another seed gives another run.
func TestReplay(t *testing.T) {
	program := func(c *Comm) error {
		x := []float32{1, 2, 3, 4, 5}
		if err := AllReduce(c, x, Ring); err != nil {
			return err
		}
		return Barrier(c)
	}
	runs := map[uint64]bool{}
	for seed := range uint64(20) {
		first, err := run(4, Replay(seed), program)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if again, _ := run(4, Replay(seed), program); again != first {
				t.Errorf("seed %d gave another run", seed)
			}
		}
		runs[first] = true
	}
	if len(runs) < 20 {
		t.Errorf("20 seeds gave %d runs", len(runs))
	}
}

// A sender may change its buffer after the request is done, and a receiver has no
// data before.
func TestReplayPoisons(t *testing.T) {
	early := 0
	for seed := range uint64(20) {
		err := Run(2, Replay(seed), func(c *Comm) error {
			x := []float32{float32(c.Rank())}
			if c.Rank() == 0 {
				return c.Send(1, 0, x).Wait()
			}
			r := c.Recv(0, 0, x)
			if x[0] != x[0] {
				early++
			}
			return r.Wait()
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if early == 0 {
		t.Error("a receive buffer never showed NaN before the arrival")
	}
}
