package pass

import "github.com/ensemble-weather/ensemble/engine/graph"

// removeDead keeps the ancestors of the roots. It also keeps all inputs,
// parameters and states, which callers address by name.
//
// Source: Aho, Lam, Sethi and Ullman 2006, Compilers, 2nd ed., section 9.1.6.
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
