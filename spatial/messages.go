package spatial

import "github.com/ensemble-weather/ensemble/engine/graph"

// Exchanged tells which parts of a value ranks give each other for an operation of
// Sharded.Local, and the tag of their messages, the same on all ranks; ok is false for
// operations without.
func Exchanged(n *graph.Node) (p Parts, tag int, ok bool) {
	a, ok := n.Attrs.(gathered)
	return a.Parts, a.Tag, ok && n.Op == gather
}

// Summed names the axes of the mesh over whose ranks an operation of Sharded.Local adds up
// its operand; ok is false for others.
func Summed(n *graph.Node) (mesh []string, ok bool) {
	a, ok := n.Attrs.(along)
	return a.Mesh, ok && n.Op == sumRanks
}

// Joined names the axes of the mesh over whose ranks an operation of Sharded.Local gathers
// moments to join them; ok is false for others.
func Joined(n *graph.Node) (mesh []string, ok bool) {
	a, ok := n.Attrs.(counted)
	return a.Mesh, ok && n.Op == joinMoments
}
