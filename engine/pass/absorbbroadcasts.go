package pass

import (
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// absorbBroadcasts lets elementwise operations read the operand of a broadcast
// directly, if the shape of their result does not change. The gradient of a
// mean, for example, is one number, which need not be stored for every element.
func absorbBroadcasts(u *Unit) error {
	source := map[int]graph.Value{} // operand of a broadcast, by ID of its result in the new graph
	stretch := op.Find("broadcast")
	g, err := u.Graph.Rewrite(nil, func(b *graph.Builder, n *graph.Node, in []graph.Value) graph.Value {
		if n.Kind != graph.KindOp {
			return graph.Value{}
		}
		if n.Op == stretch {
			v := b.Node(n.Op, n.Attrs, in...)
			source[v.ID()] = in[0]
			return v
		}
		if n.Op.Scalar == nil {
			return graph.Value{}
		}
		changed := false
		for i := range in {
			from, ok := source[in[i].ID()]
			if !ok {
				continue
			}
			shapes := make([]graph.Shape, len(in))
			for j, v := range in {
				shapes[j] = v.Shape()
			}
			shapes[i] = from.Shape()
			if s, err := graph.Broadcast(shapes...); err == nil && s.Equal(n.Shape) {
				in[i], changed = from, true
			}
		}
		if !changed {
			return graph.Value{}
		}
		return b.Node(n.Op, n.Attrs, in...)
	})
	if err == nil {
		u.Graph = g
	}
	return err
}
