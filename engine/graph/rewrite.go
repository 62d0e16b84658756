package graph

// Rewrite builds a copy of g node by node, in order. For every node, visit
// receives the node and its rewritten operands and returns the replacement. The
// zero Value keeps the node. keep, if not nil, drops the nodes for which it is
// false. No kept node may read a dropped one, unless visit replaces it.
//
// Errors: the first error of the builder.
func (g *Graph) Rewrite(keep func(n *Node) bool, visit func(b *Builder, n *Node, in []Value) Value) (*Graph, error) {
	b := &Builder{g: &Graph{Loss: -1, Seed: g.Seed, Notes: g.Notes}}
	for _, n := range g.Nodes { // streams of replacements are numbered after the existing ones
		if n.Kind == KindOp && n.Op.Random {
			b.random++
		}
	}
	to := make([]Value, len(g.Nodes))
	for i, n := range g.Nodes {
		if keep != nil && !keep(n) {
			continue
		}
		in := make([]Value, len(n.In))
		for j, id := range n.In {
			in[j] = to[id]
		}
		first := len(b.g.Nodes)
		b.at = n.At
		v := visit(b, n, in)
		if b.err != nil {
			return nil, b.err
		}
		for _, nd := range b.g.Nodes[first:] {
			nd.At = n.At
		}
		if !v.Valid() {
			v = b.copyNode(n, in)
		}
		to[i] = v
	}
	out := b.g
	for _, o := range g.Outputs {
		out.Outputs = append(out.Outputs, Output{o.Name, to[o.ID].id})
	}
	for _, a := range g.Assigns {
		out.Assigns = append(out.Assigns, Assign{to[a.State].id, to[a.Value].id})
	}
	for _, d := range g.Grads {
		out.Grads = append(out.Grads, Grad{to[d.Param].id, to[d.Value].id})
	}
	if g.Loss >= 0 {
		out.Loss = to[g.Loss].id
	}
	return out, nil
}

// copyNode appends a copy of n with the operands in.
func (b *Builder) copyNode(n *Node, in []Value) Value {
	c := *n
	c.In = make([]int, len(in))
	for j, v := range in {
		c.In[j] = v.id
	}
	return b.add(&c)
}

// Needed marks the ancestors of the roots: all nodes that they depend on, and
// the roots themselves.
func (g *Graph) Needed(roots []int) []bool {
	need := make([]bool, len(g.Nodes))
	for _, id := range roots {
		need[id] = true
	}
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		if need[i] {
			for _, id := range g.Nodes[i].In {
				need[id] = true
			}
		}
	}
	return need
}
