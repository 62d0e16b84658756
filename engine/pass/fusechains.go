package pass

import (
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// fuseChains fuses elementwise operations of one shape that lead to one result,
// if no other operation reads their intermediate results. Memory is then read
// and written once for all of them. The chain itself may read an intermediate
// result several times, and operands may be broadcast.
//
// From the last operation to the first, each one joins the chain of its readers
// if they all belong to one chain. So chains are as long as the limits of
// op.Chain permit. Fused operations are removed at once, including those of
// earlier passes, because they must not count when layouts are chosen.
func fuseChains(u *Unit) error {
	chains := findChains(u.Graph)
	operands := make([][]graph.Value, len(u.Graph.Nodes))
	g, err := u.Graph.Rewrite(nil, func(b *graph.Builder, n *graph.Node, in []graph.Value) graph.Value {
		operands[n.ID] = in
		c := chains[n.ID]
		if c == nil || c.last() != n.ID || len(c.links) < 2 {
			return graph.Value{}
		}
		at := map[int]int{} // number in the chain, by node ID
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

// chainNodes holds the nodes of a chain, in order, and its operands.
type chainNodes struct{ links, operands []int }

// last is the node of the result.
func (c *chainNodes) last() int { return c.links[len(c.links)-1] }

// findChains returns the chain of every elementwise operation, possibly of one
// link, and nil for other nodes.
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

// extendChain adds n to the chain of its readers. It does nothing unless all
// readers belong to one chain of the same shape, and the chain stays within its
// limits.
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
