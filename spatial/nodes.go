package spatial

import "github.com/ensemble-weather/ensemble/engine/graph"

// RedistributionOf returns the redistribution of a gather node of Sharded.Local and
// the tag of its messages, which is the same on all ranks; ok is false for other
// nodes.
func RedistributionOf(n *graph.Node) (p Redistribution, tag int, ok bool) {
	a, ok := n.Attrs.(gatherAttrs)
	return a.Redistribution, a.Tag, ok && n.Op == gather
}

// SumAxes returns the mesh axes over which a sum_ranks node of Sharded.Local sums;
// ok is false for other nodes.
func SumAxes(n *graph.Node) (mesh []string, ok bool) {
	a, ok := n.Attrs.(meshAxes)
	return a.Mesh, ok && n.Op == sumRanks
}

// JoinMomentsAxes returns the mesh axes over which a join_moments node of
// Sharded.Local gathers moments; ok is false for other nodes.
func JoinMomentsAxes(n *graph.Node) (mesh []string, ok bool) {
	a, ok := n.Attrs.(joinMomentsAttrs)
	return a.Mesh, ok && n.Op == joinMoments
}

// IsDeferredSum reports whether a node is a gradient whose sum over ranks runs during the backward pass
// (RankStep.Sums).
func IsDeferredSum(n *graph.Node) bool { return n.Op == sumRanksDeferred }

// IsHalo reports whether a redistribution keeps the distribution: every axis of the value that is split stays split
// along the same mesh axis, and ranks receive only what surrounds their own part.
func (p Redistribution) IsHalo() bool {
	for i, need := range p.Need.axes {
		if name := p.cut(i).MeshAxis; name != "" && (need.along == everyRank || p.Mesh[need.along].Name != name) {
			return false
		}
	}
	return true
}
