package pass

import (
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// fuseChains makes one operation of elementwise operations of one shape that
// lead to one result, where nothing else reads the results in between: memory is
// read and written once for all of them. A result in between may be read several
// times by the same chain. Operands may be stretched.
//
// From the last operation to the first, each joins the chain of its readers if
// it has only one; so chains are as long as they can be within the bounds of
// op.Chain. What is fused away, here and by the passes before, is dropped: it
// must not count when layouts are chosen.
func fuseChains(u *Unit) error {
	chains := findChains(u.Graph)
	operands := make([][]graph.Value, len(u.Graph.Nodes))
	g, err := u.Graph.Rewrite(nil, func(b *graph.Builder, n *graph.Node, in []graph.Value) graph.Value {
		operands[n.ID] = in
		c := chains[n.ID]
		if c == nil || c.last() != n.ID || len(c.links) < 2 {
			return graph.Value{}
		}
		at := map[int]int{} // number in the chain, by node
		for _, id := range c.operands {
			at[id] = len(at)
		}
		for _, id := range c.links {
			at[id] = len(at)
		}
		a, values := op.Chain{Operands: len(c.operands)}, make([]graph.Value, len(c.operands))
		for _, id := range c.links {
			m := u.Graph.Nodes[id]
			l := op.Link{Op: m.Op, Attrs: m.Attrs}
			for i, from := range m.In {
				l.Args = append(l.Args, at[from])
				if at[from] < a.Operands {
					values[at[from]] = operands[id][i]
				}
			}
			a.Links = append(a.Links, l)
		}
		return op.ElementwiseChain(b, a, values...)
	})
	if err != nil {
		return err
	}
	u.Graph = g
	return removeDead(u)
}

// chainNodes names the nodes of a chain, in their order, and what they read.
type chainNodes struct{ links, operands []int }

// last is the node of the result.
func (c *chainNodes) last() int { return c.links[len(c.links)-1] }

// findChains gives for every elementwise operation the chain it belongs to,
// perhaps it alone, and nil for anything else.
func findChains(g *graph.Graph) []*chainNodes {
	chains := make([]*chainNodes, len(g.Nodes))
	needed, roots := g.Needed(g.Roots()), g.Roots()
	readers := make([][]int, len(g.Nodes))
	for _, n := range slices.Backward(g.Nodes) {
		if !needed[n.ID] || n.Kind != graph.KindOp {
			continue
		}
		if op.IsChainable(n.Op) {
			chains[n.ID] = &chainNodes{links: []int{n.ID}, operands: n.In}
			if !slices.Contains(roots, n.ID) {
				extendChain(g, chains, n, readers[n.ID])
			}
		}
		for _, id := range n.In {
			readers[id] = append(readers[id], n.ID)
		}
	}
	return chains
}

// extendChain puts n into the chain of its readers, if all of them are in one and
// it has the shape and the room.
func extendChain(g *graph.Graph, chains []*chainNodes, n *graph.Node, readers []int) {
	c := chains[readers[0]]
	if c == nil || len(c.links) == op.MaxChain || !g.Nodes[c.last()].Shape.Equal(n.Shape) {
		return
	}
	for _, r := range readers {
		if chains[r] != c {
			return
		}
	}
	operands := slices.DeleteFunc(append(slices.Clone(n.In), c.operands...), func(id int) bool { return id == n.ID })
	slices.Sort(operands)
	operands = slices.Compact(operands)
	if len(operands) > op.MaxChainOperands {
		return
	}
	c.links, c.operands = slices.Insert(c.links, 0, n.ID), operands
	chains[n.ID] = c
}
