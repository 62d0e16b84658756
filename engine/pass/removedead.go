package pass

import "github.com/ensemble-weather/ensemble/engine/graph"

// removeDead keeps the ancestors of the roots. It also keeps all inputs,
// parameters and states, which callers address by name.
func removeDead(u *Unit) error {
	need := u.Graph.Needed(u.Graph.Roots())
	g, err := u.Graph.Rewrite(
		func(n *graph.Node) bool {
			named := n.Kind == graph.KindInput || n.Kind == graph.KindParam || n.Kind == graph.KindState
			return need[n.ID] || named
		},
		func(*graph.Builder, *graph.Node, []graph.Value) graph.Value { return graph.Value{} })
	if err == nil {
		u.Graph = g
	}
	return err
}
