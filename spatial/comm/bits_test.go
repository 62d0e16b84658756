package comm_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/comm/commtest"
)

// The program "bits of sums" passes on 1 to 8 ranks on any number of processes, with delays and in every order of
// messages.
func TestSumsKeepTheirBits(t *testing.T) {
	bits := commtest.Programs[slices.IndexFunc(commtest.Programs, func(p commtest.Program) bool { return p.Name == "bits of sums" })]
	for ranks := 1; ranks <= 8; ranks++ {
		for processes := 1; processes <= ranks; processes++ {
			mode := comm.Parallel.WithFaults(comm.Faults{Seed: uint64(ranks), Delay: 20 * time.Microsecond})
			if processes%2 == 0 {
				mode = comm.Replay(uint64(ranks + 11*processes))
			}
			if err := rankHost(processes, ranks, mode, bits.Run); err != nil {
				t.Fatalf("%d ranks on %d processes: %v", ranks, processes, err)
			}
		}
	}
}

// The values of these sums depend on the order of their sum: the ranks in reverse order give other bits.
func TestHardValuesDependOnOrder(t *testing.T) {
	for _, ranks := range []int{3, 8} {
		forward, backward := commtest.HardValues(0, 97), commtest.HardValues(ranks-1, 97)
		for r := 1; r < ranks; r++ {
			for i, v := range commtest.HardValues(r, 97) {
				forward[i] += v
			}
			for i, v := range commtest.HardValues(ranks-1-r, 97) {
				backward[i] += v
			}
		}
		differ := 0
		for i := range forward {
			if math.Float32bits(forward[i]) != math.Float32bits(backward[i]) {
				differ++
			}
		}
		if differ < 10 {
			t.Errorf("%d of 97 sums of %d ranks depend on the order", differ, ranks)
		}
	}
}

// BenchmarkAllReduce sums 64 MiB on each rank. The binary tree over the ranks (halving) moves the bytes of the ring;
// whole vectors (doubling) are what an order-fixed sum costs without pieces.
func BenchmarkAllReduce(b *testing.B) {
	for _, ranks := range []int{2, 4} {
		for _, a := range []comm.Algorithm{comm.Ring, comm.Halving, comm.Doubling} {
			b.Run(fmt.Sprintf("%v/%d", a, ranks), func(b *testing.B) {
				b.SetBytes(64 << 20)
				err := comm.Run(ranks, comm.Parallel, func(c *comm.Comm) error {
					x := make([]float32, 64<<20/4)
					if err := comm.Barrier(c); err != nil {
						return err
					}
					if c.Rank() == 0 {
						b.ResetTimer()
					}
					for range b.N {
						if err := comm.AllReduce(c, x, a); err != nil {
							return err
						}
					}
					return comm.Barrier(c)
				})
				if err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}
