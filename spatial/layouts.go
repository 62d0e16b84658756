package spatial

import (
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// A message has the memory layout of the value that it carries, so sender and
// receiver must choose the same layout. Each rank chooses layouts by cost, and the
// shards and thus the costs differ. Rank 0 therefore chooses first and broadcasts
// its choice for every gather. The other ranks keep these layouts fixed and choose
// the rest.

// broadcastLayouts returns the pass of rank 0 that broadcasts the layouts it has
// chosen for gathers. The message is a list of tags; gathers outside the list use
// graph.Plain.
func broadcastLayouts(c *comm.Comm) pass.Pass {
	return pass.Pass{Name: "broadcast-layouts", Purpose: "broadcast the layouts that rank 0 has chosen for exchanges", Run: func(u *pass.Unit) error {
		var inner []int64 // tags of gathers whose channels are not in the plain layout
		for _, n := range gatherNodes(u.Graph) {
			if n.Layout != graph.Plain {
				inner = append(inner, int64(n.Attrs.(gatherAttrs).Tag))
			}
		}
		if err := comm.Broadcast(c, 0, []int64{int64(len(inner))}); err != nil {
			return err
		}
		return comm.Broadcast(c, 0, inner)
	}}
}

// receiveLayouts returns the pass of the other ranks, which receives the layouts of
// rank 0 and binds the gathers to them. It runs before choose-layouts.
func receiveLayouts(c *comm.Comm) pass.Pass {
	return pass.Pass{Name: "receive-layouts", Purpose: "receive the layouts that rank 0 has chosen for exchanges", Run: func(u *pass.Unit) error {
		count := []int64{0}
		if err := comm.Broadcast(c, 0, count); err != nil {
			return err
		}
		inner := make([]int64, count[0])
		if err := comm.Broadcast(c, 0, inner); err != nil {
			return err
		}
		for _, n := range gatherNodes(u.Graph) {
			a := n.Attrs.(gatherAttrs)
			if a.Agreed = true; slices.Contains(inner, int64(a.Tag)) {
				a.Layout = u.Layouts.InnerLayout()
			}
			n.Attrs = a
		}
		return nil
	}}
}

// gatherNodes returns the gather nodes of a graph in the order of execution.
func gatherNodes(g *graph.Graph) (out []*graph.Node) {
	for _, n := range g.Nodes {
		if n.Kind == graph.KindOp && n.Op == gather {
			out = append(out, n)
		}
	}
	return out
}
