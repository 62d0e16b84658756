package spatial

import "github.com/ensemble-weather/ensemble/engine/graph"

// RedistributionOf tells which parts of a value ranks give each other for an operation of
// Sharded.Local, and the tag of their messages, the same on all ranks; ok is false for
// operations without.
func RedistributionOf(n *graph.Node) (p Redistribution, tag int, ok bool) {
	a, ok := n.Attrs.(gatherAttrs)
	return a.Redistribution, a.Tag, ok && n.Op == gather
}

// SumAxes names the axes of the mesh over whose ranks an operation of Sharded.Local adds up
// its operand; ok is false for others.
func SumAxes(n *graph.Node) (mesh []string, ok bool) {
	a, ok := n.Attrs.(meshAxes)
	return a.Mesh, ok && n.Op == sumRanks
}

// JoinMomentsAxes names the axes of the mesh over whose ranks an operation of Sharded.Local gathers
// moments to join them; ok is false for others.
func JoinMomentsAxes(n *graph.Node) (mesh []string, ok bool) {
	a, ok := n.Attrs.(joinMomentsAttrs)
	return a.Mesh, ok && n.Op == joinMoments
}
