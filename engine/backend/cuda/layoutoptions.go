package cuda

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// layoutRule tells which operands of an operation and whether its result have their
// channels last; ok is false if the request is not served so.
type layoutRule func(attrs any, in []graph.Shape, out graph.Shape) (way backend.LayoutOption, ok bool)

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

// InnerLayout is the layout with the channels last.
func (*Backend) InnerLayout() graph.Layout { return graph.ChannelsLast }

// CanStore is true of float32, bfloat16 and float16.
func (*Backend) CanStore(d graph.DType) bool {
	return d == graph.Float32 || d == graph.BFloat16 || d == graph.Float16
}

// LayoutOptions lists the plain way, and that with channels last if there is one.
func (b *Backend) LayoutOptions(o *graph.Op, attrs any, in []graph.Shape, out graph.Shape) []backend.LayoutOption {
	plain := backend.LayoutOption{In: make([]graph.Layout, len(in))}
	plain.Cost = moveCost(plain, in, out)
	if isWindowed(o, in, attrs) {
		plain.Cost += float64(o.FLOPs(in, out, attrs)) / plainRate
	}
	ways := []backend.LayoutOption{plain}
	rule := channelsLastRules[o.Name]
	if _, chain := attrs.(op.Chain); rule == nil && (o.Scalar != nil || chain) {
		rule = func(attrs any, in []graph.Shape, out graph.Shape) (backend.LayoutOption, bool) {
			return chainLayouts(o, attrs, in, out)
		}
	}
	if rule == nil {
		return ways
	}
	w, ok := rule(attrs, in, out)
	if !ok {
		return ways
	}
	w.Cost = moveCost(w, in, out)
	if isWindowed(o, in, attrs) {
		w.Cost += float64(o.FLOPs(in, out, attrs)) / matrixRate
	}
	return append(ways, w)
}

// isWindowed tells whether an operation reads a neighbourhood or all of a channel: such are
// bound by arithmetic.
func isWindowed(o *graph.Op, in []graph.Shape, attrs any) bool {
	w := o.Window(in, attrs)
	return w.Axes != nil || w.FullAxes != nil
}

// moveCost is the time to move operands and the result through the memory once, with the lanes
// that their layouts add: fields of few channels, as losses have, are better plain.
func moveCost(w backend.LayoutOption, in []graph.Shape, out graph.Shape) float64 {
	n := w.Out.Elems(out)
	for i, s := range in {
		n += w.In[i].Elems(s)
	}
	return startTime + elem*float64(n)/memoryRate
}

// Measure leaves the estimates.
func (*Backend) Measure(*graph.Op, any, []graph.Shape, graph.Shape, []backend.LayoutOption) error {
	return nil
}

// ReorderCost is the time to read and write a value.
func (*Backend) ReorderCost(s graph.Shape, to graph.Layout) (float64, error) {
	from := graph.Plain
	if to == graph.Plain {
		from = graph.ChannelsLast
	}
	return moveCost(backend.LayoutOption{In: []graph.Layout{from}, Out: to}, []graph.Shape{s}, s), nil
}

// channelsLast is the way of the first n operands with channels last, the others plain, and the
// result so if result is true.
func channelsLast(n int, in []graph.Shape, out graph.Shape, result bool) (backend.LayoutOption, bool) {
	w := backend.LayoutOption{In: make([]graph.Layout, len(in))}
	ok := !result || len(out) == 5
	for i := range n {
		w.In[i] = graph.ChannelsLast
		ok = ok && len(in[i]) == 5
	}
	if result {
		w.Out = graph.ChannelsLast
	}
	return w, ok
}

// chainLayouts serves elementwise operations on fields: operands of the shape of the result
// have their channels last, those that are stretched are plain.
func chainLayouts(o *graph.Op, attrs any, in []graph.Shape, out graph.Shape) (backend.LayoutOption, bool) {
	w := backend.LayoutOption{In: make([]graph.Layout, len(in)), Out: graph.ChannelsLast}
	if _, ok := chainOf(o, attrs, len(in)); !ok || len(out) != 5 {
		return w, false
	}
	for i, s := range in {
		if s.Equal(out) {
			w.In[i] = graph.ChannelsLast
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
