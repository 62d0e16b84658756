package search

import (
	"github.com/ensemble-weather/ensemble/engine/graph"
)

// Positions of the axes of a field [N C D H W].
const (
	fieldAxes = 5
	channels  = 1
	levels    = 2
)

// AxisNames are the names of the axes of fields [N C D H W] in meshes.
var AxisNames = [fieldAxes]string{"data", "channel", "level", "lat", "lon"}

// Work is the cost of one operation of a rank, after the compiler has fused operations: elementwise chains count the
// bytes of their operands and result once.
type Work struct {
	FLOPs, Bytes int64
	Conv         *Conv // nil for other operations
}

// Conv identifies a convolution in tables of measured times.
type Conv struct {
	Pass    string // "forward", "data" or "filter"
	In, Out int    // channels that the pass reads and writes
	Filter  [3]int // filter size in levels, latitudes and longitudes
}

// workOf returns the FLOPs and bytes of an operation. Views move no bytes. An
// adjoint with stride 1 is defined on the operand with its halo; the FLOPs of
// points in the halo are subtracted.
func workOf(g *graph.Graph, n *graph.Node) Work {
	if n.Op.Alias {
		return Work{}
	}
	in := g.InShapes(n)
	w := n.Op.Window(in, n.Attrs)
	work := Work{FLOPs: n.Op.FLOPs(in, n.Shape, n.Attrs), Bytes: n.Op.Bytes(in, n.Shape, n.Attrs), Conv: convOf(n, in)}
	if w.Adjoint && len(w.Axes) == fieldAxes {
		for axis := levels + 1; axis < fieldAxes; axis++ {
			if dy := in[w.Operand][axis]; w.Axes[axis].Stride == 1 && w.Axes[axis].UpFactor < 2 && dy > n.Shape[axis] {
				work.FLOPs = work.FLOPs / int64(dy) * int64(n.Shape[axis])
			}
		}
	}
	return work
}

// convOf returns the convolution that an operation is, or is a gradient of; nil for
// others. In a forward pass the filter [Out In D H W] follows the parts of the field; the gradient with respect to the
// field reads it first; that with respect to the filter computes one.
func convOf(n *graph.Node, in []graph.Shape) *Conv {
	if n.Op.Conv == nil {
		return nil
	}
	var filter graph.Shape
	c := &Conv{}
	switch n.Op.Conv.Pass {
	case graph.ConvForward:
		c.Pass, filter = "forward", in[len(n.Op.Conv.Sources(len(in)))]
	case graph.ConvData:
		c.Pass, filter = "data", in[0]
	case graph.ConvFilter:
		c.Pass, filter = "filter", n.Shape
	default:
		return nil
	}
	if len(filter) != fieldAxes {
		return nil
	}
	c.In, c.Out, c.Filter = filter[1], filter[0], [3]int{filter[2], filter[3], filter[4]}
	if c.Pass == "data" { // of one part of a concatenated field
		c.In, c.Out = c.Out, n.Shape[channels]
	}
	return c
}
