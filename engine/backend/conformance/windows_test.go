package conformance

import (
	"math"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// TestWindows puts NaN into one element of the operand that is read in windows
// and checks that only outputs change whose window holds it: what a shard must
// fetch from its neighbours follows from the window alone. Operations whose
// result has other axes, or another size along an axis point by point, move
// data and are cut by rules of their own.
func TestWindows(t *testing.T) {
	eachCase(t, func(t *testing.T, o *graph.Op, c graph.Case) {
		w := o.Window(c.In, c.Attrs)
		in := operands(o, c)
		_, s := reference(t, o, c, in)
		from := c.In[w.Operand]
		if len(s) != len(from) || len(w.Axes) == 0 && !sameAxes(w, from, s) {
			return
		}
		x := in[w.Operand]
		for _, at := range []int{0, len(x) / 3, len(x) / 2, len(x) - 1} {
			keep := x[at]
			x[at] = math.NaN()
			out := make([]float64, s.Size())
			o.Ref(graph.Call{In: in, InShape: c.In, Out: out, OutShape: s, Seed: seed, Step: step}, c.Attrs)
			x[at] = keep
			for k, v := range out {
				if math.IsNaN(v) && !reads(w, from, s, at, k) {
					t.Fatalf("output %d of %v depends on element %d of %v, outside of window %+v", k, s, at, from, w)
				}
			}
		}
	})
}

// sameAxes reports whether axes outside of Whole have the same sizes.
func sameAxes(w graph.Window, from, to graph.Shape) bool {
	for i := range to {
		if to[i] != from[i] && (i > 0 || w.Samples == 0) && !slices.Contains(w.FullAxes, i) {
			return false
		}
	}
	return true
}

// reads reports whether the window of output element k holds input element at.
func reads(w graph.Window, from, to graph.Shape, at, k int) bool {
	fs, ts := from.Strides(), to.Strides()
	for i := range to {
		in, out := at/fs[i]%from[i], k/ts[i]%to[i]
		switch {
		case slices.Contains(w.FullAxes, i):
		case i == 0 && w.Samples > 0:
			if in/(from[0]/w.Samples) != out/(to[0]/w.Samples) {
				return false
			}
		case len(w.Axes) == 0:
			if in != out {
				return false
			}
		case w.Adjoint:
			if !w.Axes[i].Reads(in, out, to[i]) {
				return false
			}
		case !w.Axes[i].Reads(out, in, from[i]):
			return false
		}
	}
	return true
}
