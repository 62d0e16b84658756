package spatial

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/internal/bigmem"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// filled returns a rank's shard of the value whose elements are their own indices.
func filled(m Mesh, d graph.Distribution, s graph.Shape, rank int) []float32 {
	own := m.Owned(d, s, rank)
	c := relativeTo(Box{{0, s[0]}, {0, s[1]}, {0, s[2]}, {0, s[3]}, {0, s[4]}}, own)
	var x []float32
	c.eachRun(len(s)-1, func(i, n int) {
		for k := range n {
			x = append(x, float32(i+k))
		}
	})
	return x
}

// After a redistribution every rank has its new shard, also the second time, and
// has sent the predicted number of bytes; with parallel ranks and in any order of a
// replay.
func TestExchange(t *testing.T) {
	mesh := Mesh{{Name: "data", Size: 2}, {Name: "lat", Size: 1}, {Name: "lon", Size: 3}}
	s := graph.Shape{2, 3, 2, 5, 7}
	rng := rand.New(rand.NewPCG(5, 6))
	random := func() graph.Distribution {
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
		mode := comm.Parallel
		if trial%2 == 1 {
			mode = comm.Replay(trial)
		}
		err := comm.Run(mesh.Size(), mode, func(c *comm.Comm) error {
			e, err := NewExchange(c, 3, shuffle(mesh, s, from, to), 4)
			if err != nil {
				return err
			}
			x, want := filled(mesh, from, s, c.Rank()), filled(mesh, to, s, c.Rank())
			for range 2 {
				y := make([]float32, len(want))
				before := c.Traffic()
				if err := exchange(e, y, x); err != nil {
					return err
				}
				if sent := c.Traffic().Sub(before).Bytes; sent != e.BytesSent() {
					return fmt.Errorf("sent %d bytes, foreseen were %d", sent, e.BytesSent())
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

// windowBoxes returns the boxes that windows along latitude and longitude read, without and with padding.
func windowBoxes(m Mesh, d graph.Distribution, s graph.Shape, lat, lon graph.WindowAxis) (need, room Boxes) {
	return BoxesOf(m, func(r int) Box {
			b := m.Owned(d, s, r)
			b[3], b[4] = hull(InputsRead(lat, b[3], s[3])), hull(InputsRead(lon, b[4], s[4]))
			return b
		}), BoxesOf(m, func(r int) Box {
			b := m.Owned(d, s, r)
			b[3], b[4] = PaddedInputRange(lat, b[3]), PaddedInputRange(lon, b[4])
			return b
		})
}

// A halo of two cells on a globe that is split in both directions: elements across
// the date line and from diagonal neighbours are correct.
func TestHaloExchange(t *testing.T) {
	mesh := Mesh{{Name: "lat", Size: 2}, {Name: "lon", Size: 3}}
	s := graph.Shape{1, 2, 2, 6, 8}
	d := dist(s, map[int]MeshAxis{3: mesh[0], 4: mesh[1]})
	lat := graph.WindowAxis{Size: 5, Stride: 1, Dilation: 1, Pad: 2}
	lon := lat
	lon.Periodic = true
	parts := Redistribution{Mesh: mesh, Shape: s, From: d}
	parts.Need, parts.Room = windowBoxes(mesh, d, s, lat, lon)
	for seed := range uint64(10) {
		err := comm.Run(mesh.Size(), comm.Replay(seed), func(c *comm.Comm) error {
			e, err := NewExchange(c, 0, parts, 4)
			if err != nil {
				return err
			}
			b := parts.Room.Of(c.Rank())
			x, y := filled(mesh, d, s, c.Rank()), make([]float32, b.Size())
			for i := range y {
				y[i] = -1
			}
			if err := exchange(e, y, x); err != nil {
				return err
			}
			i := 0
			for ch := range s[1] {
				for level := range s[2] {
					for row := b[3].Lo; row < b[3].Hi; row++ {
						for col := b[4].Lo; col < b[4].Hi; col++ {
							want := float32(((ch*s[2]+level)*s[3]+row)*s[4] + (col+s[4])%s[4])
							if row < 0 || row >= s[3] {
								want = 0
							}
							if y[i] != want {
								return fmt.Errorf("row %d, column %d of %v: %v, want %v", row, col, b, y[i], want)
							}
							i++
						}
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// exchange is one exchange of float32.
func exchange(e *Exchange, y, x []float32) error {
	e.Start(bigmem.Bytes(x))
	e.CopyLocal(bigmem.Bytes(y), bigmem.Bytes(x))
	return e.Finish(bigmem.Bytes(y))
}
