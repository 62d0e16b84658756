package spatial

import (
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Messages have the layout of the value that travels, so the ranks must choose the same
// one, though their parts, and with them costs, differ: rank 0 chooses, and the others
// are bound to that before they choose the rest.

// broadcastLayouts tells the other ranks the layouts that rank 0 has chosen.
func broadcastLayouts(c *comm.Comm) pass.Pass {
	return pass.Pass{Name: "broadcast-layouts", Purpose: "send the layouts of exchanges to the other ranks", Run: func(u *pass.Unit) error {
		var inner []int64 // tags
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

// receiveLayouts binds a rank to the layouts of rank 0.
func receiveLayouts(c *comm.Comm) pass.Pass {
	return pass.Pass{Name: "receive-layouts", Purpose: "receive the layouts of exchanges that rank 0 chose", Run: func(u *pass.Unit) error {
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

func gatherNodes(g *graph.Graph) (out []*graph.Node) {
	for _, n := range g.Nodes {
		if n.Kind == graph.KindOp && n.Op == gather {
			out = append(out, n)
		}
	}
	return out
}
