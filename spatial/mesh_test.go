package spatial

import (
	"math/rand/v2"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// dist splits axes of a 5-D value evenly.
func dist(s graph.Shape, cuts map[int]MeshAxis) graph.Distribution {
	d := graph.Distribution{Axes: make([]graph.AxisPartition, len(s))}
	for axis, m := range cuts {
		d.Axes[axis] = graph.AxisPartition{MeshAxis: m.Name, Starts: even(s[axis], m.Size)}
	}
	return d
}

// The bytes that a rank sends in conversions of T bytes over p ranks: (p-1)/p² T from one split to another, (p-1)/p T to
// the whole value.
//
// Source: Yuan et al. 2021, arXiv:2110.15032, costs of conversions.
func TestShuffleBytes(t *testing.T) {
	s := graph.Shape{1, 64, 2, 352, 704}
	for _, c := range []struct{ ranks, split, whole int }{{4, 23_789_568, 95_158_272}, {8, 13_877_248, 111_017_984}, {32, 3_841_024, 122_912_768}} {
		a := MeshAxis{Name: "space", Size: c.ranks}
		lon := dist(s, map[int]MeshAxis{4: a})
		for _, to := range []struct {
			name string
			d    graph.Distribution
			want int
		}{{"latitudes", dist(s, map[int]MeshAxis{3: a}), c.split}, {"channels", dist(s, map[int]MeshAxis{1: a}), c.split}, {"all", graph.Distribution{}, c.whole}, {"longitudes", lon, 0}} {
			moves, err := shuffle(Mesh{a}, s, lon, to.d).Moves()
			if err != nil {
				t.Fatal(err)
			}
			sent := make([]int, c.ranks)
			for _, m := range moves {
				if m.From != m.To {
					sent[m.From] += 4 * m.At.Size()
				}
			}
			for rank, n := range sent {
				if n != to.want {
					t.Errorf("%d ranks, longitudes to %s: rank %d sends %d bytes, want %d", c.ranks, to.name, rank, n, to.want)
				}
			}
		}
	}
}

// After a redistribution between random distributions every rank has each element
// of its new shard once, from itself or from an owner.
func TestShuffleByBruteForce(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	mesh := Mesh{{Name: "data", Size: 2}, {Name: "lat", Size: 3}, {Name: "lon", Size: 2}}
	s := graph.Shape{2, 3, 4, 7, 6}
	random := func() graph.Distribution {
		cuts := map[int]MeshAxis{}
		axes := rng.Perm(5)
		for i, m := range mesh {
			if rng.IntN(3) > 0 && s[axes[i]] >= m.Size {
				cuts[axes[i]] = m
			}
		}
		return dist(s, cuts)
	}
	for range 300 {
		from, to := random(), random()
		moves, err := shuffle(mesh, s, from, to).Moves()
		if err != nil {
			t.Fatal(err)
		}
		for r := range mesh.Size() {
			have := map[[5]int]int{}
			count := func(b Box) {
				for i := range b.Size() {
					var at [5]int
					for k := 4; k >= 0; k-- {
						at[k] = b[k].Lo + i%b[k].Len()
						i /= b[k].Len()
					}
					have[at]++
				}
			}
			want := mesh.Owned(to, s, r)
			for _, m := range moves {
				if m.To != r {
					continue
				}
				if in := m.At.Intersect(mesh.Owned(from, s, m.From)); in.Size() != m.At.Size() {
					t.Fatalf("%v to %v: rank %d gives %v, which it has not", from, to, m.From, m.At)
				}
				count(m.Into)
				own := mesh.Owned(from, s, r)
				if m.From != r && m.At.Intersect(own).Size() == m.At.Size() {
					t.Fatalf("%v to %v: rank %d gets %v, which it has", from, to, r, m.At)
				}
			}
			if len(have) != want.Size() {
				t.Fatalf("%v to %v: rank %d gets %d of %d elements", from, to, r, len(have), want.Size())
			}
			for at, n := range have {
				if n != 1 {
					t.Fatalf("%v to %v: rank %d gets element %v %d times", from, to, r, at, n)
				}
			}
		}
	}
}

// A distribution names only axes of the mesh, and each at most once.
func TestShuffleRefuses(t *testing.T) {
	s, lon := graph.Shape{1, 1, 1, 8, 8}, MeshAxis{Name: "lon", Size: 2}
	for _, d := range []graph.Distribution{
		dist(s, map[int]MeshAxis{4: {Name: "lon", Size: 4}}),
		dist(s, map[int]MeshAxis{4: {Name: "lat", Size: 2}}),
		dist(s, map[int]MeshAxis{4: lon, 3: lon}),
	} {
		if _, err := shuffle(Mesh{lon}, s, d, graph.Distribution{}).Moves(); err == nil {
			t.Errorf("%v is accepted", d)
		}
	}
}

// shuffle returns the redistribution of a value of shape s from one distribution to
// another.
func shuffle(m Mesh, s graph.Shape, from, to graph.Distribution) Redistribution {
	return Redistribution{Mesh: m, Shape: s, From: from, Need: BoxesOf(m, func(r int) Box { return m.Owned(to, s, r) })}
}
