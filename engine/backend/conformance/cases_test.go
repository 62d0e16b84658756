package conformance

import (
	"math"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/internal/float16"
)

// reference runs the reference kernel.
func reference(t *testing.T, o *graph.Op, c graph.Case, in [][]float64) ([]float64, graph.Shape) {
	t.Helper()
	out, s, err := evalReference(o, c, in)
	if err != nil {
		t.Fatal(err)
	}
	return out, s
}

const guard = 48 // elements before and after each buffer

// NaNs that nothing computes.
var sentinel = math.Float32frombits(0x7fc0dead)

const sentinel16 = 0x7fed

// half is a type of 16 bits: what rounding to it changes at most, of a value and of the
// smallest ones, and the nearest value.
type half struct {
	relative, least float64
	nearest         func(x float64) float64
	bits            func(x float64) uint16
	value           func(bits uint16) float64
}

var halves = map[graph.DType]half{
	graph.BFloat16: {0x1p-8, 0, nearest16, func(x float64) uint16 { return uint16(math.Float32bits(float32(x)) >> 16) },
		func(bits uint16) float64 { return float64(math.Float32frombits(uint32(bits) << 16)) }},
	graph.Float16: {0x1p-11, float16.SmallestNonzero / 2, float16.Round, float16.ToBits, float16.FromBits},
}

// nearest16 rounds to bfloat16: to nearest, ties to even. Overflow is not meant.
func nearest16(x float64) float64 {
	frac, exp := math.Frexp(x)
	return math.Ldexp(math.RoundToEven(math.Ldexp(frac, 8)), exp-8)
}

// guarded is a buffer between guard values, in the type of the backend.
type guarded struct {
	elem  graph.DType
	all16 []uint16
	all32 []float32
	all64 []float64
	n     int
}

func newGuarded(elem graph.DType, x []float64) *guarded {
	g := &guarded{elem: elem, n: len(x)}
	if h, ok := halves[elem]; ok {
		g.all16 = slices.Repeat([]uint16{sentinel16}, (len(x)+2*guard+1)/2*2) // whole words
		for i, v := range x {
			g.all16[guard+i] = h.bits(v)
		}
		return g
	}
	if elem == graph.Float64 {
		g.all64 = make([]float64, len(x)+2*guard)
		for i := range g.all64 {
			g.all64[i] = float64(sentinel)
		}
		copy(g.all64[guard:], x)
		return g
	}
	g.all32 = make([]float32, len(x)+2*guard)
	for i := range g.all32 {
		g.all32[i] = sentinel
	}
	for i, v := range x {
		g.all32[guard+i] = float32(v)
	}
	return g
}

func (g *guarded) tensor(s graph.Shape, l graph.Layout) backend.Tensor {
	t := backend.Tensor{Shape: s, Layout: l}
	switch {
	case g.all16 != nil:
		t.U16, t.DType = g.all16[guard:guard+g.n:guard+g.n], g.elem
	case g.all64 != nil:
		t.F64 = g.all64[guard : guard+g.n : guard+g.n]
	default:
		t.F32 = g.all32[guard : guard+g.n : guard+g.n]
	}
	return t
}

func (g *guarded) at(i int) float64 {
	switch {
	case g.all16 != nil:
		return halves[g.elem].value(g.all16[guard+i])
	case g.all64 != nil:
		return g.all64[guard+i]
	}
	return float64(g.all32[guard+i])
}

// intact reports whether the guards still stand.
func (g *guarded) intact() bool {
	ok := true
	for i := range guard {
		if g.all16 != nil {
			ok = ok && g.all16[i] == sentinel16 && g.all16[guard+g.n+i] == sentinel16
			continue
		}
		if g.all64 != nil {
			ok = ok && math.IsNaN(g.all64[i]) && math.IsNaN(g.all64[guard+g.n+i])
			continue
		}
		for _, v := range []float32{g.all32[i], g.all32[guard+g.n+i]} {
			ok = ok && math.Float32bits(v) == math.Float32bits(sentinel)
		}
	}
	return ok
}

// eachCase runs f for every case of every operation.
func eachCase(t *testing.T, f func(t *testing.T, o *graph.Op, c graph.Case)) {
	for _, o := range op.Table {
		if len(o.Cases) == 0 {
			t.Errorf("%s has no case", o.Name)
		}
		for _, c := range o.Cases {
			t.Run(o.Name+"/"+c.Name, func(t *testing.T) { f(t, o, c) })
		}
	}
}
