package pass

import (
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// foldNorms folds batch normalisation with stored statistics into the preceding
// convolution. The normalisation must be the only reader of the convolution,
// possibly through a bias or a concatenation of convolutions along the
// channels:
//
//	s = gamma/√(variance + eps)    filter ← s·filter    bias ← s·(bias − mean) + beta
//
// A ReLU after a concatenation moves before it, so that the convolutions can
// absorb it. Filters are scaled in every run, since parameters may change
// between runs. So nothing is folded if the filters are larger than the field.
//
// Source: Jacob et al. 2018, arXiv:1712.05877, section 3.2.
func foldNorms(u *Unit) error {
	if !u.Infer {
		return nil
	}
	f := &normFolder{normFuser{g: u.Graph, uses: usesOfNeeded(u.Graph), operands: make([][]graph.Value, len(u.Graph.Nodes))}}
	g, err := u.Graph.Rewrite(nil, func(b *graph.Builder, n *graph.Node, in []graph.Value) graph.Value {
		f.operands[n.ID] = in
		if f.hasRole(n.ID, graph.FuseReLU) && f.usedOnce(n.In[0], graph.FuseNorm) {
			return f.fold(b, f.g.Nodes[n.In[0]], true)
		}
		if f.hasRole(n.ID, graph.FuseNorm) && f.uses[n.ID] > 0 {
			return f.fold(b, n, false)
		}
		return graph.Value{}
	})
	if err == nil {
		u.Graph = g
	}
	return err
}

// normFolder finds the convolutions before a normalisation.
type normFolder struct{ normFuser }

// convolution is a conv3d node, with the node of its bias or −1.
type convolution struct{ conv, bias int }

// convolutions lists the convolutions whose concatenated results are node id.
// It is nil for other nodes, and if another operation reads one of the results.
func (f *normFolder) convolutions(id int) []convolution {
	switch n := f.g.Nodes[id]; {
	case f.usedOnce(id, graph.FuseConv):
		return []convolution{{id, -1}}
	case f.usedOnce(id, graph.FuseBias) && f.usedOnce(n.In[0], graph.FuseConv):
		return []convolution{{n.In[0], id}}
	case f.uses[id] == 1 && op.IsChannelConcat(n):
		var all []convolution
		for _, in := range n.In {
			c := f.convolutions(in)
			if c == nil {
				return nil
			}
			all = append(all, c...)
		}
		return all
	}
	return nil
}

// fold builds the replacement of the normalisation n, and of the ReLU after it
// if relu is true. It returns the zero Value if n must stay: if it uses batch
// statistics, if its operand is not a convolution, or if scaling the filters
// would cost more than normalising the field. For a concatenation each
// convolution gets its slice of gamma, beta and the statistics.
func (f *normFolder) fold(b *graph.Builder, n *graph.Node, relu bool) graph.Value {
	parts, stored := f.convolutions(n.In[0]), f.g.Nodes[n.In[1]]
	if !stored.Moves(graph.MoveConcat) || len(stored.In) != 2 {
		return graph.Value{}
	}
	// The moments must be a concatenation of two stored values: batch
	// statistics are computed by an operation.
	filters := 0
	for _, p := range parts {
		filters += f.operands[p.conv][1].Shape().Size()
	}
	if len(parts) == 0 || filters > n.Shape.Size() {
		return graph.Value{}
	}
	channels := graph.Shape{n.Shape[1]}
	mean, variance := op.Reshape(b, f.operands[stored.ID][0], channels), op.Reshape(b, f.operands[stored.ID][1], channels)
	gamma, beta := f.operands[n.ID][2], f.operands[n.ID][3]
	// Each convolution normalises its own channels at … at+k of the
	// concatenation.
	var out []graph.Value
	at := 0
	for _, p := range parts {
		x, w := f.operands[p.conv][0], f.operands[p.conv][1]
		k := w.Dim(0)
		of := func(v graph.Value) graph.Value {
			if len(parts) == 1 {
				return v
			}
			return op.Slice(b, v, 0, at, at+k)
		}
		s := op.Div(b, of(gamma), op.Sqrt(b, op.AddScalar(b, of(variance), n.Attrs.(op.Eps).Eps)))
		// The new bias is s·(bias − mean) + beta. A convolution without bias
		// has bias 0.
		shift := op.Scale(b, of(mean), -1)
		if p.bias >= 0 {
			shift = op.Sub(b, f.operands[p.bias][1], of(mean))
		}
		perFilter := graph.Shape{k, 1, 1, 1, 1}
		y := op.Conv3D(b, x, op.Mul(b, w, op.Reshape(b, s, perFilter)), f.g.Nodes[p.conv].Attrs.(op.Conv))
		y = op.Bias(b, y, op.Add(b, op.Mul(b, shift, s), of(beta)))
		if relu {
			y = op.ReLU(b, y)
		}
		out = append(out, y)
		at += k
	}
	if len(out) == 1 {
		return out[0]
	}
	return op.Concat(b, 1, out...)
}
