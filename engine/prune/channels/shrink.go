package channels

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// Selection lists, for each parameter and state that loses channels, the remaining indices of each
// axis; nil for an axis that is complete. Tensors that are not listed are complete.
type Selection map[string][][]int

// Take selects the remaining values of a tensor, and returns them with their shape. It applies to a
// parameter or state, and to tensors of the same shape such as moments and averages.
func (c Selection) Take(name string, shape []int, v []float32) ([]float32, []int) {
	keep, ok := c[name]
	if !ok {
		return v, shape
	}
	return graph.SelectIndices(v, shape, keep), graph.SelectShape(shape, keep)
}

// Shrink builds the smaller network that has only the channels in kept, and lists the remaining
// indices of parameters and states.
//
// The result is a dense network. It computes what the original network computes if all filters that
// read a removed channel are 0 there. The initial values of parameters are the corresponding parts
// of the original ones.
//
// Errors: lists that do not match the network.
func (c *Network) Shrink(kept []Kept) (*graph.Graph, Selection, error) {
	removed, err := c.removedSets(kept)
	if err != nil {
		return nil, nil, err
	}
	return c.shrink(removed)
}

// shrink is Shrink with the sets to remove. It rewrites every node with its smaller shape. As a
// check, it compares the shape that the rule of each operation gives with the expected one.
func (c *Network) shrink(removed map[int]bool) (*graph.Graph, Selection, error) {
	cut := Selection{}
	// Indices that remain, by node and axis; nil where all remain.
	left := make([][][]int, len(c.g.Nodes))
	for _, n := range c.g.Nodes {
		keep, err := c.keptIndices(n, removed)
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
				return b.Fail(n.Op.Name, fmt.Errorf("shape %v after removal of channels, want %v: %w", v.Shape(), shape, graph.ErrShape))
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
			return b.ParamOf(n.Role, n.Name, shape, start)
		} else {
			return b.State(n.Name, shape, start)
		}
	})
	return g, cut, err
}

// keptIndices lists the remaining indices of each axis of a value; nil if all remain.
//
// Errors: an axis that would become empty.
func (c *Network) keptIndices(n *graph.Node, removed map[int]bool) (keep [][]int, err error) {
	for axis, d := range n.Shape {
		var some []int
		for i := range d {
			if !removed[c.ties.set(n.ID, axis, i)] {
				some = append(some, i)
			}
		}
		if len(some) == 0 {
			return nil, fmt.Errorf("axis %d of %s %v (%s) would be empty", axis, n.Label(), n.Shape, n.At)
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

// shrunkAttrs returns the attributes of an operation on the smaller values. Only attributes that
// contain sizes or indices change, such as those of slices, reshapes and reductions.
func (c *Network) shrunkAttrs(n *graph.Node, left [][][]int, shape graph.Shape) any {
	// before counts the remaining indices of an axis below index.
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
