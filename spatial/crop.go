package spatial

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
)

// cropAttrs holds the attributes of crop: a box of a value of shape Of.
type cropAttrs struct {
	Box Box
	Of  graph.Shape
}

// Bound requires the plain layout if the box splits channels that are adjacent in
// memory in the layout inner.
func (a cropAttrs) Bound(inner graph.Layout) (graph.Layout, bool) {
	return graph.Plain, a.Box.splitsChannels(inner, a.Of)
}

// splitsChannels reports whether a box of a value [N C D H W] splits a block of
// channels, or in the layout graph.Last the channels as a whole.
func (b Box) splitsChannels(inner graph.Layout, of graph.Shape) bool {
	return len(b) == 5 && b[channels].splitsChannels(inner, of)
}

// splitChannels reports whether the box of any rank splits channels, see Box.splitsChannels.
func (b Boxes) splitChannels(inner graph.Layout, of graph.Shape) bool {
	return len(b.axes) == 5 && slices.ContainsFunc(b.axes[channels].at, func(v Interval) bool { return v.splitsChannels(inner, of) })
}

// splitsChannels is Box.splitsChannels for an interval of the channels of a value of shape of.
func (v Interval) splitsChannels(inner graph.Layout, of graph.Shape) bool {
	together := graph.BlockSize
	if inner == graph.ChannelsLast {
		together = of[channels]
	}
	return v.Lo%together != 0 || v.Hi%together != 0 && v.Hi != of[channels]
}

// crop copies a box of a value that the rank holds. It does not communicate.
//
// Shape: x of shape Of → y of the shape of Box.
// Gradient: none; it is inserted after add-gradients.
// Cost: one copy, of contiguous runs.
var crop = &graph.Op{
	Name:   "crop",
	Doc:    "A box of a value that this rank holds.",
	Source: "elementary",
	NoGrad: noGrad,
	Shape: func(in []graph.Shape, attrs any) (graph.Shape, error) {
		a := attrs.(cropAttrs)
		for i, v := range a.Box {
			if len(in) != 1 || !in[0].Equal(a.Of) || len(in[0]) != len(a.Box) || v.Lo < 0 || v.Hi > in[0][i] || v.Len() == 0 {
				return nil, fmt.Errorf("%v of %v: %w", a.Box, in, graph.ErrShape)
			}
		}
		return a.Box.Shape(), nil
	},
	Window:    func([]graph.Shape, any) graph.Window { return graph.Window{} },
	FLOPs:     noFLOPs,
	Bytes:     func(_ []graph.Shape, out graph.Shape, _ any) int64 { return 8 * int64(out.Size()) },
	InPlace:   neverInPlace,
	AnyLayout: true,
	Ref: func(c graph.Call, attrs any) {
		at := 0
		part := subarray{attrs.(cropAttrs).Box, c.InShape[0]}
		part.eachRun(part.contiguousFrom(), func(i, n int) { at += copy(c.Out[at:], c.In[0][i:i+n]) })
	},
}

// cropKernel prepares crop for host memory. In the blocked layout an element is a
// block of channels.
func cropKernel(q backend.Request) (backend.Kernel, error) {
	part := subarray{append(Box{}, q.Attrs.(cropAttrs).Box...), q.In[0].Shape.Clone()}
	x, unit := bytesOf(q.In[0])
	y, _ := bytesOf(q.Out)
	if q.Out.Layout == graph.Blocked {
		const size = graph.BlockSize
		unit *= size
		part.shape[1] = (part.shape[1] + size - 1) / size
		part.box[1] = Interval{part.box[1].Lo / size, (part.box[1].Hi + size - 1) / size}
	}
	return backend.Kernel{Name: "copy", Run: func() error {
		at := 0
		part.eachRun(part.contiguousFrom(), func(i, n int) { at += copy(y[at:], x[i*unit:(i+n)*unit]) })
		return nil
	}}, nil
}
