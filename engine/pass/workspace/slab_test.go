package workspace

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// A field is [channel row column]; rows are what is cut.
type field struct {
	c, h, w int
	x       []float64
}

func newField(c, h, w int) field { return field{c, h, w, make([]float64, c*h*w)} }

func (f field) at(c, j, i int) *float64 { return &f.x[(c*f.h+j)*f.w+i] }

// rows copies rows [first, end), with low and high rows of zeros around them.
func (f field) rows(first, end, low, high int) field {
	g := newField(f.c, low+end-first+high, f.w)
	for c := range f.c {
		for j := first; j < end; j++ {
			copy(g.x[(c*g.h+low+j-first)*f.w:][:f.w], f.x[(c*f.h+j)*f.w:][:f.w])
		}
	}
	return g
}

// put writes the rows of a piece into f from row first on.
func (f field) put(first int, piece field) {
	for c := range f.c {
		copy(f.x[(c*f.h+first)*f.w:], piece.x[c*piece.h*piece.w:][:piece.h*piece.w])
	}
}

// each visits the products of a convolution with a filter [o c kh 3], with pad
// zeros beyond the first row and one column of zeros on both sides. The order
// of the products of an output does not depend on its position.
func each(a graph.WindowAxis, x, y field, visit func(out, in, tap int)) {
	for o := range y.c {
		for j := range y.h {
			for i := range y.w {
				for c := range x.c {
					for t := range a.Size {
						for u := range 3 {
							jj, ii := j*a.Stride-a.Pad+t*a.Dilation, i+u-1
							if jj >= 0 && jj < x.h && ii >= 0 && ii < x.w {
								visit((o*y.h+j)*y.w+i, (c*x.h+jj)*x.w+ii, ((o*x.c+c)*a.Size+t)*3+u)
							}
						}
					}
				}
			}
		}
	}
}

func noise(rng *rand.Rand, x []float64) {
	for i := range x {
		x[i] = rng.NormFloat64()
	}
}

// slabCases are windows, heights and divisions with boundaries on odd and even
// rows, and slabs smaller than the window.
func slabCases(t *testing.T, visit func(t *testing.T, a graph.WindowAxis, in, out int, heights []int, rows int)) {
	for _, a := range []graph.WindowAxis{
		{Size: 3, Stride: 1, Dilation: 1, Pad: 1},
		{Size: 1, Stride: 1, Dilation: 1},
		{Size: 5, Stride: 1, Dilation: 1, Pad: 2},
		{Size: 3, Stride: 1, Dilation: 2, Pad: 2},
		{Size: 3, Stride: 2, Dilation: 1, Pad: 1},
		{Size: 2, Stride: 2, Dilation: 1},
		{Size: 3, Stride: 1, Dilation: 1},
		{Size: 3, Stride: 3, Dilation: 2, Pad: 1},
	} {
		for _, in := range []int{9, 12} {
			out := (in+2*a.Pad-(a.Size-1)*a.Dilation-1)/a.Stride + 1
			for _, c := range []struct {
				heights []int
				rows    int
			}{{[]int{out}, 1}, {slices.Repeat([]int{1}, out), 1}, {[]int{out - 1, 1}, 1}, {slices.Repeat([]int{1}, (out+1)/2), 2}} {
				t.Run(fmt.Sprintf("%+v of %d in %v times %d", a, in, c.heights, c.rows), func(t *testing.T) {
					visit(t, a, in, out, c.heights, c.rows)
				})
			}
		}
	}
}

// divided returns a configuration with pieces of the given sizes.
func divided(sizes []int) (c Config) {
	for _, s := range sizes {
		c.Pieces = append(c.Pieces, Piece{Micro{Size: s, Algorithm: "direct"}, 1})
	}
	return c
}

// TestForward verifies that a direct convolution in slabs gives the bits of the
// undivided one, for random fields and for a single 1 in each row, poles
// included.
func TestForward(t *testing.T) {
	slabCases(t, func(t *testing.T, a graph.WindowAxis, in, out int, heights []int, rows int) {
		slabs := must[[]Slab](t)(Slabs(divided(heights), a, false, in, out, rows))
		rng := rand.New(rand.NewPCG(10, 5))
		w := make([]float64, 2*3*a.Size*3)
		noise(rng, w)
		conv := func(a graph.WindowAxis, x field, h int) field {
			y := newField(2, h, x.w)
			each(a, x, y, func(o, i, tap int) { y.x[o] += x.x[i] * w[tap] })
			return y
		}
		for one := -1; one < in; one++ {
			x := newField(3, in, 4)
			if one < 0 {
				noise(rng, x.x)
			} else {
				*x.at(1, one, 2) = 1
			}
			whole, got := conv(a, x, out), newField(2, out, 4)
			for _, s := range slabs {
				cut := a
				cut.Pad = 0 // padding at the edges of the slab, PadLow and PadHigh
				got.put(s.First, conv(cut, x.rows(s.InFirst, s.InEnd, s.PadLow, s.PadHigh), s.End-s.First))
			}
			if !slices.Equal(got.x, whole.x) {
				t.Fatalf("a 1 in row %d (−1: noise): slabs %+v differ from the whole", one, slabs)
			}
		}
	})
}

// TestDataGradient verifies that each slab of the data gradient needs exactly
// the rows of y that it names. At stride 1 it is the convolution of these rows,
// padded by the zeros that it names, with the reversed filter.
func TestDataGradient(t *testing.T) {
	slabCases(t, func(t *testing.T, a graph.WindowAxis, in, out int, _ []int, rows int) {
		heights := slices.Repeat([]int{1}, (in+rows-1)/rows) // of x
		rng := rand.New(rand.NewPCG(10, 6))
		w, turned := make([]float64, 2*3*a.Size*3), make([]float64, 2*3*a.Size*3)
		noise(rng, w)
		for o := range 2 {
			for c := range 3 {
				for t := range a.Size * 3 {
					turned[(c*2+o)*a.Size*3+a.Size*3-1-t] = w[(o*3+c)*a.Size*3+t]
				}
			}
		}
		gradient := func(y field) field {
			x := newField(3, in, 4)
			each(a, x, y, func(o, i, tap int) { x.x[i] += y.x[o] * w[tap] })
			return x
		}
		for one := -1; one < out; one++ {
			y := newField(2, out, 4)
			if one < 0 {
				noise(rng, y.x)
			} else {
				*y.at(1, one, 2) = 1
			}
			whole, got, turn := gradient(y), newField(3, in, 4), newField(3, in, 4)
			for _, s := range must[[]Slab](t)(Slabs(divided(heights), a, true, out, in, rows)) {
				// rows that the slab does not name contribute nothing
				got.put(s.First, gradient(y.rows(s.InFirst, s.InEnd, s.InFirst, out-s.InEnd)).rows(s.First, s.End, 0, 0))
				for _, j := range []int{s.InFirst, s.InEnd - 1} { // the gaps of dilation may end at a pole
					reads := func(o int) bool { return a.Reads(j, o, in) }
					if a.Dilation == 1 && s.InFirst < s.InEnd && !slices.ContainsFunc(upto(s.First, s.End), reads) {
						t.Fatalf("slab %+v reads row %d of y, which it does not need", s, j)
					}
				}
				if a.Stride == 1 {
					cut, piece := a, newField(3, s.End-s.First, 4)
					cut.Pad = 0
					from := y.rows(s.InFirst, s.InEnd, s.PadLow, s.PadHigh)
					if want := s.End - s.First + (a.Size-1)*a.Dilation; from.h != want {
						t.Fatalf("slab %+v has %d rows of y, want %d", s, from.h, want)
					}
					each(cut, from, piece, func(o, i, tap int) { piece.x[o] += from.x[i] * turned[tap] })
					turn.put(s.First, piece)
				}
			}
			if !slices.Equal(got.x, whole.x) {
				t.Fatalf("a 1 in row %d (−1: noise): the slabs differ from the whole", one)
			}
			const tolerance = 1e-13 // at most 30 products of order 1 to 10, in another order of summation
			for i, v := range turn.x {
				if a.Stride == 1 && math.Abs(v-whole.x[i]) > tolerance {
					t.Fatalf("a 1 in row %d (−1: noise): %g with the filter turned round, want %g", one, v, whole.x[i])
				}
			}
		}
	})
}

// upto lists first … end−1.
func upto(first, end int) (s []int) {
	for i := first; i < end; i++ {
		s = append(s, i)
	}
	return s
}

// TestFilterGradient verifies that the sum over slabs differs from the whole by
// rounding only.
func TestFilterGradient(t *testing.T) {
	slabCases(t, func(t *testing.T, a graph.WindowAxis, in, out int, heights []int, rows int) {
		rng := rand.New(rand.NewPCG(10, 7))
		x, y := newField(3, in, 4), newField(2, out, 4)
		noise(rng, x.x)
		noise(rng, y.x)
		gradient := func(a graph.WindowAxis, x, y field, w []float64) {
			each(a, x, y, func(o, i, tap int) { w[tap] += y.x[o] * x.x[i] })
		}
		whole, got := make([]float64, 2*3*a.Size*3), make([]float64, 2*3*a.Size*3)
		gradient(a, x, y, whole)
		for _, s := range must[[]Slab](t)(Slabs(divided(heights), a, false, in, out, rows)) {
			cut := a
			cut.Pad = 0
			gradient(cut, x.rows(s.InFirst, s.InEnd, s.PadLow, s.PadHigh), y.rows(s.First, s.End, 0, 0), got)
		}
		var diff, norm float64
		for i, v := range whole {
			diff += (got[i] - v) * (got[i] - v)
			norm += v * v
		}
		const tolerance = 1e-14 // sums of 48 products in float64: a few units of 2⁻⁵³
		if e := math.Sqrt(diff / norm); e > tolerance {
			t.Errorf("relative L2 difference %g, want at most %g", e, tolerance)
		}
	})
}

// TestSlabs checks the rows of a 3-row window at poles and boundaries.
func TestSlabs(t *testing.T) {
	a := graph.WindowAxis{Size: 3, Stride: 1, Dilation: 1, Pad: 1}
	c := Config{Pieces: []Piece{{Micro{Size: 22, Algorithm: "tile"}, 2}, {Micro{Size: 3, Algorithm: "direct"}, 1}}}
	got := must[[]Slab](t)(Slabs(c, a, false, 93, 93, 2))
	want := []Slab{{"tile", 0, 44, 0, 45, 1, 0}, {"tile", 44, 88, 43, 89, 0, 0}, {"direct", 88, 93, 87, 93, 0, 1}}
	if !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for name, err := range map[string]error{
		"too short":   second(Slabs(c, a, false, 95, 95, 2)),
		"too long":    second(Slabs(c, a, false, 88, 88, 2)),
		"no rows":     second(Slabs(c, a, false, 93, 93, 0)),
		"periodic":    second(Slabs(c, graph.WindowAxis{Size: 3, Stride: 1, Dilation: 1, Pad: 1, Periodic: true}, false, 93, 93, 2)),
		"scaled up":   second(Slabs(c, graph.WindowAxis{Size: 3, Stride: 1, Dilation: 1, Pad: 1, UpFactor: 2}, false, 93, 93, 2)),
		"zero window": second(Slabs(c, graph.WindowAxis{}, false, 93, 93, 2)),
	} {
		if !errors.Is(err, errSlab) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
