package sbp_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	. "github.com/ensemble-weather/ensemble/spatial/sbp"
)

// tensor is a whole tensor of integers, whose sums are exact.
type tensor[T comm.Number] struct {
	shape graph.Shape
	data  []T
}

func random[T comm.Number](rng *rand.Rand, shape graph.Shape) tensor[T] {
	x := tensor[T]{shape, make([]T, shape.Size())}
	for i := range x.data {
		x.data[i] = T(rng.IntN(41) - 20)
	}
	return x
}

// each calls f with the index in the whole tensor of each element of a box.
func (x tensor[T]) each(box spatial.Box, f func(i int)) {
	var walk func(dim, at int)
	walk = func(dim, at int) {
		if dim == len(box) {
			f(at)
			return
		}
		for i := box[dim].Lo; i < box[dim].Hi; i++ {
			walk(dim+1, at*x.shape[dim]+i)
		}
	}
	walk(0, 0)
}

// cut returns the elements of a box.
func (x tensor[T]) cut(box spatial.Box) []T {
	var out []T
	x.each(box, func(i int) { out = append(out, x.data[i]) })
	return out
}

// along returns the coordinates of a rank on the axes of a mesh.
func along(m spatial.Mesh, rank int) []int {
	at := make([]int, len(m))
	for a, axis := range m {
		at[a] = m.Coordinate(rank, axis.Name)
	}
	return at
}

// partners returns the ranks whose summands form the part of a rank: those that
// differ from it only on axes with P.
func partners(m spatial.Mesh, s Signature, rank int) []int {
	var out []int
	own := along(m, rank)
	for r := range m.Size() {
		same := true
		for a, i := range along(m, r) {
			same = same && (s[a] == P || i == own[a])
		}
		if same {
			out = append(out, r)
		}
	}
	return out
}

func box(t *testing.T, m spatial.Mesh, shape graph.Shape, s Signature, rank int) spatial.Box {
	t.Helper()
	b, err := Part(m, shape, s, rank)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// twin returns the rank with the same content as a rank and coordinate 0 on axes
// with B.
func twin(m spatial.Mesh, s Signature, rank int) int {
	first := 0
	for a, i := range along(m, rank) {
		if s[a] == B {
			i = 0
		}
		first = first*m[a].Size + i
	}
	return first
}

// held returns what each rank holds of a tensor. Summands are random; the first
// partner has the rest.
func held[T comm.Number](t *testing.T, rng *rand.Rand, m spatial.Mesh, x tensor[T], s Signature) [][]T {
	t.Helper()
	out := make([][]T, m.Size())
	for r := range out {
		if twin(m, s, r) != r {
			continue
		}
		b := box(t, m, x.shape, s, r)
		first := partners(m, s, r)[0]
		if first == r {
			out[r] = x.cut(b)
			continue
		}
		out[r] = random[T](rng, b.Shape()).data
		for i, v := range out[r] {
			out[first][i] -= v
		}
	}
	for r := range out {
		out[r] = slices.Clone(out[twin(m, s, r)])
	}
	return out
}

// compare fails with the rank that does not hold its part of a tensor.
func compare[T comm.Number](t *testing.T, what string, m spatial.Mesh, x tensor[T], s Signature, got [][]T) {
	t.Helper()
	for r := range m.Size() {
		want := x.cut(box(t, m, x.shape, s, r))
		sum := make([]T, len(want))
		for _, p := range partners(m, s, r) {
			if len(got[p]) != len(want) {
				t.Errorf("%s: rank %d has %d elements, want %d", what, p, len(got[p]), len(want))
				return
			}
			for i, v := range got[p] {
				sum[i] += v
			}
		}
		if !slices.Equal(sum, want) {
			t.Errorf("%s: rank %d has %v, want %v", what, r, sum, want)
			return
		}
	}
}

// converted returns what ranks hold after a path, and the bytes that each sent.
func converted[T comm.Number](t *testing.T, p Path, mode comm.Mode, x [][]T) (y [][]T, sent []int64) {
	t.Helper()
	y, sent = make([][]T, len(x)), make([]int64, len(x))
	err := comm.Run(len(x), mode, func(c *comm.Comm) error {
		r := c.Rank()
		before := slices.Clone(x[r])
		var err error
		if y[r], err = Convert(c, p, x[r]); err != nil {
			return err
		}
		if !slices.Equal(before, x[r]) {
			return fmt.Errorf("the operand was overwritten")
		}
		sent[r] = c.Traffic().Bytes
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return y, sent
}

// signatures returns all signatures of 2-D tensors on a mesh.
func signatures(axes int) []Signature {
	out := []Signature{{}}
	for range axes {
		var longer []Signature
		for _, s := range out {
			for _, l := range letters {
				longer = append(longer, append(slices.Clone(s), l))
			}
		}
		out = longer
	}
	return out
}

// semantics converts between all pairs of signatures: the tensor is unchanged, and
// ranks send the predicted bytes.
func semantics[T comm.Number](t *testing.T, unit int, m spatial.Mesh, shape graph.Shape, merge bool) {
	rng := rand.New(rand.NewPCG(uint64(unit), uint64(m.Size())))
	k := &Converter{Mesh: m, Link: Link{Beta: 1}, Merge: merge, Unit: unit}
	for i, from := range signatures(len(m)) {
		for j, to := range signatures(len(m)) {
			what := fmt.Sprintf("%v to %v on %v", from, to, m)
			x := random[T](rng, shape)
			p := path(t, k, shape, from, to)
			mode := comm.Parallel
			if (i+j)%5 == 0 {
				mode = comm.Replay(uint64(i + j))
			}
			y, sent := converted(t, p, mode, held(t, rng, m, x, from))
			compare(t, what, m, x, to, y)
			var total int64
			for _, n := range sent {
				total += n
			}
			if total != p.Cost.Total {
				t.Errorf("%s: %d bytes were sent, want %d", what, total, p.Cost.Total)
			}
			// The busiest may be another one in each step, and in each half of an all-reduce.
			exact := len(p.Steps) == 1 && !(slices.Contains(from, P) && slices.Contains(to, B))
			if most := slices.Max(sent); most > p.Cost.Sent || exact && most != p.Cost.Sent {
				t.Errorf("%s: a rank sent %d bytes, want %d", what, most, p.Cost.Sent)
			}
		}
	}
}

func TestSemantics(t *testing.T) {
	for _, p := range []int{1, 2, 3, 4} {
		semantics[float32](t, 4, mesh(p), graph.Shape{7, 5}, false)
		semantics[float64](t, 8, mesh(p), graph.Shape{3, 7}, false) // 3 over 4: one rank has none
		semantics[float32](t, 4, mesh(p), graph.Shape{12, 24}, false)
	}
	for _, merge := range []bool{false, true} {
		semantics[float32](t, 4, mesh(2, 2), graph.Shape{7, 5}, merge)
		semantics[float64](t, 8, mesh(2, 3), graph.Shape{7, 6}, merge)
		semantics[float32](t, 4, mesh(3, 1), graph.Shape{7, 5}, merge)
	}
}

// On one axis with even parts each rank sends the bytes of the package's table.
func TestEachRankSends(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	shape := graph.Shape{12, 24}
	for _, p := range []int{1, 2, 3, 4} {
		m := mesh(p)
		for _, from := range letters {
			for _, to := range letters {
				x := random[float32](rng, shape)
				_, sent := converted(t, path(t, &Converter{Mesh: m}, shape, Signature{from}, Signature{to}), comm.Parallel, held(t, rng, m, x, Signature{from}))
				want := table(from, to, p, 4*12*24).Sent
				for r, n := range sent {
					if n != want {
						t.Errorf("%v to %v: rank %d of %d sent %d bytes, want %d", from, to, r, p, n, want)
					}
				}
			}
		}
	}
}

// Conversions there and back leave every rank with what it had.
func TestRoundTrips(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	shape := graph.Shape{7, 5}
	for _, p := range []int{1, 2, 3, 4} {
		m := mesh(p)
		for _, trip := range [][]Signature{
			{{S(0)}, {S(1)}, {S(0)}}, {{B}, {S(0)}, {B}}, {{B}, {P}, {B}}, {{S(1)}, {P}, {S(1)}},
		} {
			x := random[float64](rng, shape)
			start := held(t, rng, m, x, trip[0])
			y := start
			for i := range len(trip) - 1 {
				y, _ = converted(t, path(t, &Converter{Mesh: m}, shape, trip[i], trip[i+1]), comm.Parallel, y)
			}
			for r := range y {
				if !slices.Equal(y[r], start[r]) {
					t.Errorf("%v: rank %d of %d has %v, want %v", trip, r, p, y[r], start[r])
				}
			}
		}
	}
}
