package comm_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// The binomial tree has one path from its root to every rank. Along the dissemination graph
// every rank is reached from each one within ⌈log₂P⌉ messages.
func TestPeers(t *testing.T) {
	for p := 1; p <= 17; p++ {
		after, children := make([][]int, p), make([][]int, p)
		for root := range p {
			parents := make([]int, p)
			err := comm.Run(p, comm.Parallel, func(c *comm.Comm) error {
				var before []int
				after[c.Rank()], before = c.Dissemination()
				for k, r := range after[c.Rank()] {
					if d := (r - c.Rank() + p) % p; d != 1<<k || (c.Rank()-before[k]+p)%p != d {
						return fmt.Errorf("ranks %d after and %d before %d", r, before[k], c.Rank())
					}
				}
				parents[c.Rank()], children[c.Rank()] = c.BinomialTree(root)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			for rank := range p {
				if parent := parents[rank]; (parent < 0) != (rank == root) || parent >= 0 && !slices.Contains(children[parent], rank) {
					t.Errorf("%d ranks, root %d: %d receives from %d, which sends to others", p, root, rank, parent)
				}
			}
			if got := depths(root, children); slices.Contains(got, -1) || slices.Max(got) > log2(p) {
				t.Errorf("%d ranks, root %d: tree of depths %v", p, root, got)
			}
			if got := depths(root, after); slices.Contains(got, -1) || slices.Max(got) > log2(p) {
				t.Errorf("%d ranks, from %d: dissemination of depths %v", p, root, got)
			}
		}
	}
}

// depths returns the number of messages from a rank to each one; −1 for ranks that are not
// reached.
func depths(from int, to [][]int) []int {
	depth := slices.Repeat([]int{-1}, len(to))
	depth[from] = 0
	for queue := []int{from}; len(queue) > 0; queue = queue[1:] {
		for _, r := range to[queue[0]] {
			if depth[r] < 0 {
				depth[r] = depth[queue[0]] + 1
				queue = append(queue, r)
			}
		}
	}
	return depth
}
