package pass

import (
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// fuse replaces relu(bias(conv3d(x, w), b)), and the same without relu, by one
// operation, where nothing else reads the results in between. The gradient of
// ReLU reads its result, so this holds in training too.
func fuse(u *Unit) error {
	conv, bias, relu := op.Find("conv3d"), op.Find("bias"), op.Find("relu")
	uses := u.Graph.Uses()
	nodes := u.Graph.Nodes
	single := func(id int, o *graph.Op) bool {
		return nodes[id].Kind == graph.KindOp && nodes[id].Op == o && uses[id] == 1
	}
	// inner is true for a bias that a following relu takes along.
	inner := make([]bool, len(nodes))
	for _, n := range nodes {
		if n.Kind == graph.KindOp && n.Op == relu && single(n.In[0], bias) && single(nodes[n.In[0]].In[0], conv) {
			inner[n.In[0]] = true
		}
	}
	operands := make([][]graph.Value, len(nodes))
	g, err := u.Graph.Rewrite(nil, func(b *graph.Builder, n *graph.Node, in []graph.Value) graph.Value {
		operands[n.ID] = in
		if n.Kind != graph.KindOp {
			return graph.Value{}
		}
		top := n
		if n.Op == relu && inner[n.In[0]] {
			n = nodes[n.In[0]]
		}
		if n.Op != bias || inner[n.ID] && top == n || !single(n.In[0], conv) {
			return graph.Value{}
		}
		c := nodes[n.In[0]]
		x, w, bi := operands[c.ID][0], operands[c.ID][1], operands[n.ID][1]
		return op.ConvFused(b, x, w, bi, c.Attrs.(op.Conv), top != n)
	})
	if err == nil {
		u.Graph = g
	}
	return err
}
