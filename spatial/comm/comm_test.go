package comm_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/comm/commtest"
)

// The conformance suite passes with parallel ranks, and in every order that a seed
// draws.
func TestPrograms(t *testing.T) { programs(t, 2) }

// programs runs the conformance tests on ranks in parallel, and in as many orders of messages as there are seeds.
func programs(t *testing.T, seeds int) {
	for _, p := range commtest.Programs {
		t.Run(p.Name, func(t *testing.T) {
			for _, n := range []int{1, 2, 3, 4, 5, 8} {
				if err := comm.Run(n, comm.Parallel, p.Run); err != nil {
					t.Fatalf("%d ranks: %v", n, err)
				}
				for seed := range uint64(seeds) {
					if err := comm.Run(n, comm.Replay(seed), p.Run); err != nil {
						t.Fatalf("%d ranks: %v", n, err)
					}
				}
			}
		})
	}
}

// A deadlock is an error that lists what each rank waits for.
func TestDeadlock(t *testing.T) {
	receiveFirst := func(c *comm.Comm) error {
		x := make([]float32, 1)
		if err := c.Recv(1-c.Rank(), 4, x).Wait(); err != nil {
			return err
		}
		return c.Send(1-c.Rank(), 4, x).Wait()
	}
	sendFirst := func(c *comm.Comm) error { // works only if sends are buffered
		x := make([]float32, 1)
		if err := c.Send(1-c.Rank(), 4, x).Wait(); err != nil {
			return err
		}
		return c.Recv(1-c.Rank(), 4, x).Wait()
	}
	for _, k := range []struct {
		name string
		mode comm.Mode
		f    func(*comm.Comm) error
		want string
	}{
		{"both receive", comm.Parallel, receiveFirst, "rank 0 waits for a message from rank 1, tag 4, rank 1 waits for a message from rank 0, tag 4"},
		{"both receive", comm.Replay(1), receiveFirst, "rank 0 waits for a message from rank 1"},
		{"both send", comm.Replay(2), sendFirst, "rank 0 waits for rank 1 to receive, tag 4, rank 1 waits for rank 0 to receive"},
	} {
		if err := comm.Run(2, k.mode, k.f); err == nil || !strings.Contains(err.Error(), k.want) {
			t.Errorf("%s, %v: %v, want %q", k.name, k.mode, err, k.want)
		}
	}
	if err := comm.Run(2, comm.Parallel, sendFirst); err != nil {
		t.Errorf("sends that are kept: %v", err)
	}
}

// A rank that fails ends the others; the error has its number.
func TestFailure(t *testing.T) {
	for _, mode := range []comm.Mode{comm.Parallel, comm.Replay(5)} {
		for name, f := range map[string]func() error{
			"rank 2: broken": func() error { return fmt.Errorf("broken") },
			"rank 2: panic":  func() error { panic("broken") },
		} {
			err := comm.Run(4, mode, func(c *comm.Comm) error {
				if c.Rank() == 2 {
					return f()
				}
				return comm.Barrier(c)
			})
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%v: %v, want %q", mode, err, name)
			}
		}
	}
}

// Messages of another length or type than the receive, and messages that are never
// received, are errors.
func TestWrongMessages(t *testing.T) {
	for _, k := range []struct {
		out, in comm.Slice
		want    string
	}{
		{[]float32{1, 2}, make([]float32, 3), "posted []float32 of 12 bytes from rank 0 with tag 1, got []float32 of 8 bytes"},
		{[]float32{1, 2}, make([]int64, 1), "posted []int64 of 8 bytes"},
		{[]float32{1, 2}, nil, "message from rank 0 to rank 1 with tag 1 was never received"},
	} {
		for _, mode := range []comm.Mode{comm.Parallel, comm.Replay(3)} {
			err := comm.Run(2, mode, func(c *comm.Comm) error {
				if c.Rank() == 0 {
					r := c.Send(1, 1, k.out)
					if k.in == nil {
						return nil
					}
					return r.Wait()
				}
				if k.in == nil {
					return nil
				}
				return c.Recv(0, 1, k.in).Wait()
			})
			if err == nil || !strings.Contains(err.Error(), k.want) {
				t.Errorf("%v: %v, want %q", mode, err, k.want)
			}
		}
	}
}

// The algorithms send the numbers of messages and bytes of their formulas.
func TestTraffic(t *testing.T) {
	const n = 8 * 7 * 5 * 3 * 2 // divides by all numbers of ranks
	for _, k := range []struct {
		a     comm.Algorithm
		ranks []int
		bytes func(p int) int
		count func(p int) int
	}{
		{comm.Ring, []int{2, 3, 4, 5, 8}, func(p int) int { return 2 * (p - 1) * 4 * n / p }, func(p int) int { return 2 * (p - 1) }},
		{comm.Halving, []int{2, 4, 8}, func(p int) int { return 2 * (p - 1) * 4 * n / p }, func(p int) int { return 2 * log2(p) }},
		{comm.Doubling, []int{2, 4, 8}, func(p int) int { return log2(p) * 4 * n }, log2},
	} {
		for _, p := range k.ranks {
			err := comm.Run(p, comm.Parallel, func(c *comm.Comm) error {
				before := c.Traffic()
				if err := comm.AllReduce(c, make([]float32, n), k.a); err != nil {
					return err
				}
				want := comm.Traffic{Messages: int64(k.count(p)), Bytes: int64(k.bytes(p))}
				if got := c.Traffic().Sub(before); got != want {
					return fmt.Errorf("sent %+v, want %+v", got, want)
				}
				return nil
			})
			if err != nil {
				t.Errorf("%v on %d ranks: %v", k.a, p, err)
			}
		}
	}
}

// SizeOnly values cause the same messages as numbers.
func TestSizeOnly(t *testing.T) {
	const n = 1001 // cut unevenly
	for _, p := range []int{2, 3, 4, 8} {
		for _, a := range []comm.Algorithm{comm.Ring, comm.Doubling, comm.Halving} {
			for _, mode := range []comm.Mode{comm.Parallel, comm.Replay(1)} {
				err := comm.Run(p, mode, func(c *comm.Comm) error {
					if err := comm.AllReduce(c, make([]float32, n), a); err != nil {
						return err
					}
					real := c.Traffic()
					if err := comm.AllReduce(c, make([]comm.SizeOnly, n), a); err != nil {
						return err
					}
					if got := c.Traffic().Sub(real); got != real || got.Bytes == 0 {
						return fmt.Errorf("sent %+v without values, %+v with them", got, real)
					}
					return nil
				})
				if err != nil {
					t.Errorf("%v on %d ranks, %v: %v", a, p, mode, err)
				}
			}
		}
	}
	err := comm.Run(2, comm.Parallel, func(c *comm.Comm) error {
		if c.Rank() == 0 {
			return c.Send(1, 0, make([]comm.SizeOnly, 3)).Wait()
		}
		return c.Recv(0, 0, make([]comm.SizeOnly, 2)).Wait()
	})
	if err == nil || !strings.Contains(err.Error(), "of 8 bytes from rank 0 with tag 0, got []comm.SizeOnly of 12 bytes") {
		t.Errorf("another size: %v", err)
	}
}

func log2(p int) int {
	k := 0
	for 1<<k < p {
		k++
	}
	return k
}

// Halving sums along a binary tree over the ranks: neighbours first, then
// neighbouring sums.
func TestHalvingIsTheTree(t *testing.T) {
	for _, p := range []int{2, 4, 8, 16, 32} {
		value := func(rank, i int) float32 { return 1 / float32(3*i+7*rank+1) }
		var tree func(lo, hi, i int) float32
		tree = func(lo, hi, i int) float32 {
			if hi-lo == 1 {
				return value(lo, i)
			}
			return tree(lo, (lo+hi)/2, i) + tree((lo+hi)/2, hi, i)
		}
		err := comm.Run(p, comm.Parallel, func(c *comm.Comm) error {
			x := make([]float32, 40)
			for i := range x {
				x[i] = value(c.Rank(), i)
			}
			if err := comm.AllReduce(c, x, comm.Halving); err != nil {
				return err
			}
			for i, got := range x {
				if want := tree(0, p, i); got != want {
					return fmt.Errorf("value %d: %v by halving, %v by the tree", i, got, want)
				}
			}
			return nil
		})
		if err != nil {
			t.Errorf("%d ranks: %v", p, err)
		}
	}
}
