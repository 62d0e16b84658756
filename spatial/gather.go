package spatial

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/internal/bigmem"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// gatherAttrs holds the attributes of gather: the redistribution, and this rank in
// it.
type gatherAttrs struct {
	Redistribution
	Rank   int
	Tag    int
	Layout graph.Layout // of the messages, after the ranks have agreed
	Agreed bool         // whether Layout is fixed
}

// Bound returns graph.Plain if a box of any rank splits channels that are adjacent
// in memory in the layout inner. Otherwise it returns the layout that the ranks
// have agreed on.
func (a gatherAttrs) Bound(inner graph.Layout) (graph.Layout, bool) {
	own := BoxesOf(a.Mesh, func(r int) Box { return a.Mesh.Owned(a.From, a.Shape, r) })
	if a.rooms().splitChannels(inner, a.Shape) || own.splitChannels(inner, a.Shape) {
		return graph.Plain, true
	}
	return a.Layout, a.Agreed
}

// String formats the box that the rank receives and the distribution of the value.
func (a gatherAttrs) String() string { return fmt.Sprintf("%v of %v", a.room(a.Rank), a.From) }

// GoString identifies the exchange within a graph, for comparisons of operations: equal requests already share one.
func (a gatherAttrs) GoString() string { return fmt.Sprintf("exchange %d", a.Tag) }

// gather redistributes a value: every rank receives the box that it requires, which
// is its shard with a halo or its shard in another distribution.
//
// Shape: x the rank's shard → y the shape of its destination box.
// Missing: elements of y beyond the ends of the value are zero, the padding of
// convolutions.
// Window: none: the communication is explicit in the attributes.
// Gradient: none; it is inserted after add-gradients, for forward and backward
// values alike.
// Memory: the destination box, and one buffer for each message.
// Source: Dryden et al. 2019, arXiv:1903.06681, section III.
var gather = &graph.Op{
	Name:   "gather",
	Doc:    "The box of a distributed value that this rank requires: its shard with a halo, or another distribution. Zeros beyond the ends of the value.",
	Source: "Dryden et al. 2019, arXiv:1903.06681, section III",
	NoGrad: noGrad,
	Shape: func(in []graph.Shape, attrs any) (graph.Shape, error) {
		a := attrs.(gatherAttrs)
		own := a.Mesh.Owned(a.From, a.Shape, a.Rank)
		if len(in) != 1 || !in[0].Equal(own.Shape()) {
			return nil, fmt.Errorf("operands %v, want the shard %v: %w", in, own, graph.ErrShape)
		}
		return a.room(a.Rank).Shape(), nil
	},
	Window:    func([]graph.Shape, any) graph.Window { return graph.Window{} },
	FLOPs:     noFLOPs,
	Bytes:     func(_ []graph.Shape, out graph.Shape, _ any) int64 { return 8 * int64(out.Size()) },
	InPlace:   neverInPlace,
	Ordered:   true,
	AnyLayout: true,
}

// noGrad is the reason why communication operations have no gradient.
const noGrad = "inserted by the pass shard, which runs after add-gradients"

func noFLOPs([]graph.Shape, graph.Shape, any) int64 { return 0 }

func neverInPlace(int, any) bool { return false }

// Shape returns the size of a box along each axis.
func (b Box) Shape() graph.Shape {
	s := make(graph.Shape, len(b))
	for i, v := range b {
		s[i] = v.Len()
	}
	return s
}

// gatherKernel prepares gather on a rank of c.
func gatherKernel(c *comm.Comm, b *buffers, q backend.Request) (backend.Kernel, error) {
	return exchangeKernel(c, b, q, q.Attrs.(gatherAttrs), NewExchange)
}

// exchangeKernel prepares an exchange in host memory. The kernel starts the
// messages; its Finish waits for them before the first reader runs.
func exchangeKernel(c *comm.Comm, b *buffers, q backend.Request, a gatherAttrs, prepare func(*comm.Comm, int, Redistribution, int) (*Exchange, error)) (backend.Kernel, error) {
	parts, lanes := a.Redistribution, 1
	if q.Out.Layout == graph.Blocked {
		parts, lanes = parts.blocked(), graph.BlockSize
	}
	x, unit := bytesOf(q.In[0])
	y, _ := bytesOf(q.Out)
	e, err := prepare(c, a.Tag, parts, lanes*unit)
	if err != nil {
		return backend.Kernel{}, err
	}
	e.buffers = b
	return backend.Kernel{
		Name: "exchange",
		Run: func() error {
			e.Start(x)
			e.CopyLocal(y, x)
			return nil
		},
		Finish: func() error { return e.Finish(y) },
	}, nil
}

// blocked returns the redistribution in units of blocks of channels, for the
// blocked layout. Every boundary along the channels must be a multiple of
// graph.BlockSize or the last one. gatherAttrs.Bound guarantees that: it keeps
// other values in the plain layout.
func (p Redistribution) blocked() Redistribution {
	const size = graph.BlockSize
	up := func(n int) int { return (n + size - 1) / size }
	inBlocks := func(v Interval) Interval { return Interval{v.Lo / size, up(v.Hi)} }
	p.Need = p.Need.change(channels, inBlocks)
	if !p.Room.IsZero() {
		p.Room = p.Room.change(channels, inBlocks)
	}
	p.Shape = p.Shape.Clone()
	p.Shape[1] = up(p.Shape[1])
	if len(p.From.Axes) > 0 {
		cuts := append([]graph.AxisPartition{}, p.From.Axes...)
		starts := append([]int{}, cuts[1].Starts...)
		for i := range starts {
			starts[i] /= size
		}
		cuts[1].Starts = starts
		p.From.Axes = cuts
	}
	return p
}

// bytesOf returns the memory of a tensor as bytes, and the size of an element in
// bytes.
func bytesOf(t backend.Tensor) (memory []byte, unit int) {
	switch {
	case t.F64 != nil:
		return bigmem.Bytes(t.F64), 8
	case t.U16 != nil:
		return bigmem.Bytes(t.U16), 2
	}
	return bigmem.Bytes(t.F32), 4
}
