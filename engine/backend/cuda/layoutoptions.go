package cuda

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// layoutRule returns the option of an operation in which fields have their channels
// last. ok is false if the operation does not support it.
type layoutRule func(attrs any, in []graph.Shape, out graph.Shape) (way backend.LayoutOption, ok bool)

// Rates for estimating costs. Only their ratios matter; these are similar on all GPUs
// with tensor cores.
const (
	matrixRate = 3e14 // FLOP/s of tensor cores, counted as direct convolution
	plainRate  = 2e13 // FLOP/s of CUDA cores
	memoryRate = 2e12 // bytes per second of device memory
	startTime  = 3e-6 // seconds to launch a kernel
)

// InnerLayout returns the channels-last layout.
func (*Backend) InnerLayout() graph.Layout { return graph.ChannelsLast }

// CanStore reports whether d is float32, bfloat16 or float16.
func (*Backend) CanStore(d graph.DType) bool {
	return d == graph.Float32 || d == graph.BFloat16 || d == graph.Float16
}

// LayoutOptions returns the plain option and, if supported, the channels-last one, with
// estimated costs in seconds.
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

// isWindowed reports whether an operation reads neighbouring grid points or whole
// channels. Such operations are bound by arithmetic.
func isWindowed(o *graph.Op, in []graph.Shape, attrs any) bool {
	w := o.Window(in, attrs)
	return w.Axes != nil || w.FullAxes != nil
}

// moveCost estimates the seconds to read the operands and write the result once,
// padding channels included. Fields of few channels, as in losses, are therefore
// cheaper in the plain layout.
func moveCost(w backend.LayoutOption, in []graph.Shape, out graph.Shape) float64 {
	n := w.Out.Elems(out)
	for i, s := range in {
		n += w.In[i].Elems(s)
	}
	return startTime + elem*float64(n)/memoryRate
}

// Measure keeps the estimates.
func (*Backend) Measure(*graph.Op, any, []graph.Shape, graph.Shape, []backend.LayoutOption) error {
	return nil
}

// ReorderCost estimates the seconds to convert a value to a layout.
func (*Backend) ReorderCost(s graph.Shape, to graph.Layout) (float64, error) {
	from := graph.Plain
	if to == graph.Plain {
		from = graph.ChannelsLast
	}
	return moveCost(backend.LayoutOption{In: []graph.Layout{from}, Out: to}, []graph.Shape{s}, s), nil
}

// channelsLast returns the option in which the first n operands have their channels
// last and, if result is true, the result too; other operands are plain. ok is false if
// one of these is not a field [N C D H W].
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

// chainLayouts is the rule of elementwise operations: operands of the shape of the
// result have their channels last, broadcast ones are plain.
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

// chainOf returns the chain of an elementwise operation: its own, or one with the
// operation as its only link. ok is false if a link has no scalar formula.
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
