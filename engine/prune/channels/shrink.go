package channels

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// Selection says what is left of the parameters and states of a network, by name: of each axis the
// indices, or nil for all. What is not there is left whole.
type Selection map[string][][]int

// Take is what is left of the values of a parameter or state, or of what has its shape (a
// moment of an optimiser, an average), with its new shape.
func (c Selection) Take(name string, shape []int, v []float32) ([]float32, []int) {
	keep, ok := c[name]
	if !ok {
		return v, shape
	}
	return graph.SelectIndices(v, shape, keep), graph.SelectShape(shape, keep)
}

// Shrink makes the smaller network in which the channels are left that kept lists, and says what is
// left of its parameters and states. It is a dense network: channels that went are nowhere in it.
// Its results are those of the network in which all that reads them multiplies them by zero.
//
// Parameters start as the parts of the larger network's do.
//
// Errors: lists that do not fit the network.
func (c *Network) Shrink(kept []Kept) (*graph.Graph, Selection, error) {
	gone, err := c.removedSets(kept)
	if err != nil {
		return nil, nil, err
	}
	return c.shrink(gone)
}

func (c *Network) shrink(gone map[int]bool) (*graph.Graph, Selection, error) {
	cut := Selection{}
	left := make([][][]int, len(c.g.Nodes))
	for _, n := range c.g.Nodes {
		keep, err := c.keptIndices(n, gone)
		if err != nil {
			return nil, nil, err
		}
		left[n.ID] = keep
	}
	g, err := c.g.Rewrite(nil, func(b *graph.Builder, n *graph.Node, in []graph.Value) graph.Value {
		keep := left[n.ID]
		shape := graph.Shape(graph.SelectShape(n.Shape, keep))
		switch n.Kind {
		case graph.KindOp:
			v := b.Node(n.Op, c.shrunkAttrs(n, left, shape), in...)
			if v.Valid() && !v.Shape().Equal(shape) {
				return b.Fail(n.Op.Name, fmt.Errorf("%v without the channels that went, want %v: %w", v.Shape(), shape, graph.ErrShape))
			}
			return v
		case graph.KindConst:
			if keep == nil {
				return graph.Value{}
			}
			return b.Const(n.Name, shape, graph.SelectIndices(n.Data, n.Shape, keep))
		}
		if keep == nil {
			return graph.Value{}
		}
		cut[n.Name] = keep
		if start := n.Init.Select(n.Shape, keep); n.Kind == graph.KindParam {
			return b.Param(n.Name, shape, start)
		} else {
			return b.State(n.Name, shape, start)
		}
	})
	return g, cut, err
}

// keptIndices are the indices of the axes of a value that are left; nil if all are.
func (c *Network) keptIndices(n *graph.Node, gone map[int]bool) (keep [][]int, err error) {
	for axis, d := range n.Shape {
		var some []int
		for i := range d {
			if !gone[c.ties.set(n.ID, axis, i)] {
				some = append(some, i)
			}
		}
		if len(some) == 0 {
			return nil, fmt.Errorf("nothing is left of axis %d of %s %v (%s)", axis, n.Label(), n.Shape, n.At)
		}
		if len(some) < d {
			if keep == nil {
				keep = make([][]int, len(n.Shape))
			}
			keep[axis] = some
		}
	}
	return keep, nil
}

// shrunkAttrs are the attributes of an operation on smaller values.
func (c *Network) shrunkAttrs(n *graph.Node, left [][][]int, shape graph.Shape) any {
	// before is how many of the first indices of an axis are left.
	before := func(v, axis, index int) int {
		if keep := left[operation{n: n}.id(v)]; keep != nil && keep[axis] != nil {
			at, _ := slices.BinarySearch(keep[axis], index)
			return at
		}
		return index
	}
	if n.Op.PrunedAttrs == nil {
		return n.Attrs
	}
	return n.Op.PrunedAttrs(n.Attrs, graph.PrunedShape{Shape: shape, CountBefore: before})
}
