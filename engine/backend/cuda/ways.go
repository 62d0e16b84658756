package cuda

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// wayRule tells which operands of an operation and whether its result have their
// channels last; ok is false if the request is not served so.
type wayRule func(attrs any, in []graph.Shape, out graph.Shape) (way backend.Way, ok bool)

// Rates by which ways are weighed: of the matrix units and of the plain ones, in useful
// operations a second, of the memory in bytes a second, and the time that a kernel takes
// to start, in seconds. What counts is their proportion, which is much the same on all
// devices with matrix units.
const (
	matrixRate = 3e14
	plainRate  = 2e13
	memoryRate = 2e12
	startTime  = 3e-6
)

// Inner is the layout with the channels last.
func (*Backend) Inner() graph.Layout { return graph.Last }

// Stores is true of float32, bfloat16 and float16.
func (*Backend) Stores(d graph.DType) bool {
	return d == graph.Float32 || d == graph.BFloat16 || d == graph.Float16
}

// Ways lists the plain way, and that with channels last if there is one.
func (b *Backend) Ways(o *graph.Op, attrs any, in []graph.Shape, out graph.Shape) []backend.Way {
	plain := backend.Way{In: make([]graph.Layout, len(in))}
	plain.Cost = moving(plain, in, out)
	if windowed(o, in, attrs) {
		plain.Cost += float64(o.FLOPs(in, out, attrs)) / plainRate
	}
	ways := []backend.Way{plain}
	rule := lasts[o.Name]
	if _, chain := attrs.(op.Chain); rule == nil && (o.Scalar != nil || chain) {
		rule = func(attrs any, in []graph.Shape, out graph.Shape) (backend.Way, bool) {
			return chainWay(o, attrs, in, out)
		}
	}
	if rule == nil {
		return ways
	}
	w, ok := rule(attrs, in, out)
	if !ok {
		return ways
	}
	w.Cost = moving(w, in, out)
	if windowed(o, in, attrs) {
		w.Cost += float64(o.FLOPs(in, out, attrs)) / matrixRate
	}
	return append(ways, w)
}

// windowed tells whether an operation reads a neighbourhood or all of a channel: such are
// bound by arithmetic.
func windowed(o *graph.Op, in []graph.Shape, attrs any) bool {
	w := o.Window(in, attrs)
	return w.Axes != nil || w.Whole != nil
}

// moving is the time to move operands and the result through the memory once, with the lanes
// that their layouts add: fields of few channels, as losses have, are better plain.
func moving(w backend.Way, in []graph.Shape, out graph.Shape) float64 {
	n := w.Out.Elems(out)
	for i, s := range in {
		n += w.In[i].Elems(s)
	}
	return startTime + elem*float64(n)/memoryRate
}

// Measure leaves the estimates.
func (*Backend) Measure(*graph.Op, any, []graph.Shape, graph.Shape, []backend.Way) error { return nil }

// ReorderCost is the time to read and write a value.
func (*Backend) ReorderCost(s graph.Shape, to graph.Layout) (float64, error) {
	from := graph.Plain
	if to == graph.Plain {
		from = graph.Last
	}
	return moving(backend.Way{In: []graph.Layout{from}, Out: to}, []graph.Shape{s}, s), nil
}

// lastWay is the way of the first n operands with channels last, the others plain, and the
// result so if result is true.
func lastWay(n int, in []graph.Shape, out graph.Shape, result bool) (backend.Way, bool) {
	w := backend.Way{In: make([]graph.Layout, len(in))}
	ok := !result || len(out) == 5
	for i := range n {
		w.In[i] = graph.Last
		ok = ok && len(in[i]) == 5
	}
	if result {
		w.Out = graph.Last
	}
	return w, ok
}

// chainWay serves elementwise operations on fields: operands of the shape of the result
// have their channels last, those that are stretched are plain.
func chainWay(o *graph.Op, attrs any, in []graph.Shape, out graph.Shape) (backend.Way, bool) {
	w := backend.Way{In: make([]graph.Layout, len(in)), Out: graph.Last}
	if _, ok := chainOf(o, attrs, len(in)); !ok || len(out) != 5 {
		return w, false
	}
	for i, s := range in {
		if s.Equal(out) {
			w.In[i] = graph.Last
		}
	}
	return w, true
}

// chainOf is the chain of an elementwise operation: its own, or the operation as its only
// link; ok is false if a link has no formula.
func chainOf(o *graph.Op, attrs any, operands int) (c op.Chain, ok bool) {
	if c, ok = attrs.(op.Chain); !ok {
		if o.Scalar == nil {
			return c, false
		}
		args := make([]int, operands)
		for i := range args {
			args[i] = i
		}
		c = op.Chain{Operands: operands, Links: []op.Link{{Op: o, Attrs: attrs, Args: args}}}
	}
	for _, l := range c.Links {
		if formulas[l.Op.Name] == "" {
			return c, false
		}
	}
	return c, true
}
