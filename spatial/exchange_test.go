package spatial

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// filled is a rank's part of the value whose elements are their own numbers.
func filled(m Mesh, d graph.Dist, s graph.Shape, rank int) []float32 {
	own := m.Owned(d, s, rank)
	c := within(Box{{0, s[0]}, {0, s[1]}, {0, s[2]}, {0, s[3]}, {0, s[4]}}, own)
	var x []float32
	c.rows(func(i, n int) {
		for k := range n {
			x = append(x, float32(i+k))
		}
	})
	return x
}

// On ranks that run freely and in any order of a replay, every rank has its new part
// after a shuffle, also the second time, and sent as many bytes as were foreseen.
func TestExchange(t *testing.T) {
	mesh := Mesh{{"data", 2}, {"lat", 1}, {"lon", 3}}
	s := graph.Shape{2, 3, 2, 5, 7}
	rng := rand.New(rand.NewPCG(5, 6))
	random := func() graph.Dist {
		cuts := map[int]MeshAxis{}
		axes := rng.Perm(5)
		for i, m := range mesh {
			if rng.IntN(4) > 0 && s[axes[i]] >= m.Size {
				cuts[axes[i]] = m
			}
		}
		return dist(s, cuts)
	}
	for trial := range uint64(40) {
		from, to := random(), random()
		mode := comm.Free
		if trial%2 == 1 {
			mode = comm.Replay(trial)
		}
		err := comm.Run(mesh.Size(), mode, func(c *comm.Comm) error {
			e, err := NewShuffle(c, 3, mesh, s, from, to)
			if err != nil {
				return err
			}
			x, want := filled(mesh, from, s, c.Rank()), filled(mesh, to, s, c.Rank())
			for range 2 {
				y := make([]float32, len(want))
				before := c.Traffic()
				e.Start(x)
				if err := e.Finish(y, x); err != nil {
					return err
				}
				if sent := c.Traffic().Sub(before).Bytes; sent != e.Sent() {
					return fmt.Errorf("sent %d bytes, foreseen were %d", sent, e.Sent())
				}
				for i := range y {
					if y[i] != want[i] {
						return fmt.Errorf("element %d is %v, want %v", i, y[i], want[i])
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatalf("%v to %v: %v", from, to, err)
		}
	}
}
