package pass

import "github.com/ensemble-weather/ensemble/engine/graph"

// chooseMode replaces operations by their inference form, such as running
// statistics for batch statistics, and dropout by the identity. It drops the
// assignments of states.
func chooseMode(u *Unit) error {
	if !u.Infer {
		return nil
	}
	g, err := u.Graph.Rewrite(nil, func(b *graph.Builder, n *graph.Node, in []graph.Value) graph.Value {
		if n.Kind == graph.KindOp && n.Op.Infer != nil {
			return n.Op.Infer(b, in, n.Attrs)
		}
		return graph.Value{}
	})
	if err != nil {
		return err
	}
	g.Assigns = nil
	u.Graph = g
	return nil
}
