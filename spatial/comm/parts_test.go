package comm

import (
	"fmt"
	"testing"
)

// Scratch memory of collectives does not grow with the vector: at most two segments
// in each direction.
func TestRoomOfCollectives(t *testing.T) {
	const n = 3 << 20 // 24 segments

	for _, k := range []struct {
		name     string
		segments int
		run      func(c *Comm) error
	}{
		{"all-reduce", 2, func(c *Comm) error { return AllReduce(c, make([]float32, n), Auto) }},
		{"all-reduce by doubling", 2, func(c *Comm) error { return AllReduce(c, make([]float32, n), Doubling) }},
		{"gathering", 0, func(c *Comm) error { return AllGatherV(c, make([]float32, n), SplitEvenly(n, c.Size()), Auto) }},
		{"sum in parts", 4, func(c *Comm) error {
			x := Parts[float32]{make([]float32, n/2-7), make([]float32, n/2+7)}
			return ReduceScatterParts(c, x, SplitEvenly(n, c.Size()), Auto)
		}},
	} {
		for _, ranks := range []int{2, 3, 4} {
			err := Run(ranks, Parallel, func(c *Comm) error {
				if err := k.run(c); err != nil {
					return err
				}
				x, _ := c.scratch.values.([]float32)
				if bytes := Bytes(x[:cap(x)]); bytes > int64(k.segments)*segmentBytes {
					return fmt.Errorf("a room of %d bytes, want %d segments at most", bytes, k.segments)
				}
				return nil
			})
			if err != nil {
				t.Errorf("%s on %d ranks: %v", k.name, ranks, err)
			}
		}
	}
}
