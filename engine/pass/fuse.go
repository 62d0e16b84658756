package pass

import (
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// fuse fuses a convolution with adjacent operations, if no other operation
// reads the intermediate results:
//
//	relu(bias(conv3d(x, w), b)), and without relu     conv3d_fused
//	conv3d and its gradients of concat(x₁, x₂)        the same, with parts
//	relu_grad(z, slice(conv3d_grad_data(…)) + y)      conv3d_fused_grad_data,
//	                                                  also without gate, slice or sum
//
// The gradient of ReLU reads the result of ReLU, not its operand, so the
// patterns also hold in training. The gradient of a ReLU after batch
// normalisation stays for fuse-norms, whose sweeps need not read that result.
func fuse(u *Unit) error {
	f := &fuser{g: u.Graph, uses: u.Graph.Uses(), operands: make([][]graph.Value, len(u.Graph.Nodes)), ofNorms: newNormFuser(u.Graph).gates}
	f.findAbsorbed()
	g, err := u.Graph.Rewrite(nil, func(b *graph.Builder, n *graph.Node, in []graph.Value) graph.Value {
		f.operands[n.ID] = in
		if n.Kind != graph.KindOp || f.absorbed[n.ID] {
			return graph.Value{}
		}
		for _, rule := range []func(*graph.Builder, *graph.Node) graph.Value{f.forward, f.gradData, f.gradFilter} {
			if v := rule(b, n); v.Valid() || b.Err() != nil {
				return v
			}
		}
		return graph.Value{}
	})
	if err == nil {
		u.Graph = g
	}
	return err
}

// fuser holds the graph, the use counts, the operands in the new graph, and the
// operations that a later one absorbs.
type fuser struct {
	g        *graph.Graph        // the graph before the pass
	uses     []int               // number of uses, by node
	operands [][]graph.Value     // operands in the new graph, by node of the old one
	absorbed []bool              // nodes that a later operation absorbs
	ofNorms  map[int]*graph.Node // gradients of ReLU that fuse-norms absorbs
}

// hasRole reports whether node id is an operation with this role.
func (f *fuser) hasRole(id int, part graph.Fuse) bool { return f.g.Nodes[id].Fuses(part) }

// usedOnce reports the same for a value with a single use.
func (f *fuser) usedOnce(id int, part graph.Fuse) bool { return f.uses[id] == 1 && f.hasRole(id, part) }

// findAbsorbed marks the operations that a later one absorbs: a bias followed
// by ReLU, a gradient of the data followed by the gradient of ReLU, and one
// operand of a sum. The rewrite then skips marked operations, and their readers
// build the fused operation.
func (f *fuser) findAbsorbed() {
	f.absorbed = make([]bool, len(f.g.Nodes))
	for _, n := range f.g.Nodes {
		if n.Kind != graph.KindOp {
			continue
		}
		switch n.Op.Fuses {
		case graph.FuseReLU:
			if f.usedOnce(n.In[0], graph.FuseBias) && f.usedOnce(f.g.Nodes[n.In[0]].In[0], graph.FuseConv) {
				f.absorbed[n.In[0]] = true
			}
		case graph.FuseReLUGrad:
			if f.ofNorms[n.ID] == nil && f.gradient(n.In[1]) != nil {
				f.absorbed[n.In[1]] = true
			}
		case graph.FuseAdd:
			if i := f.addend(n); i >= 0 {
				f.absorbed[n.In[i]] = true
			}
		}
	}
}

// forward is the rule for a convolution with bias and optional ReLU. A bias
// without a following ReLU is fused too; a bias that a ReLU absorbs is
// rewritten with the ReLU.
func (f *fuser) forward(b *graph.Builder, n *graph.Node) graph.Value {
	relu := f.hasRole(n.ID, graph.FuseReLU) && f.absorbed[n.In[0]]
	if relu {
		n = f.g.Nodes[n.In[0]]
	}
	if !f.hasRole(n.ID, graph.FuseBias) || !f.usedOnce(n.In[0], graph.FuseConv) {
		return graph.Value{}
	}
	c := f.g.Nodes[n.In[0]]
	return op.ConvFused(b, f.parts(c.ID, 0), f.operands[c.ID][1], f.operands[n.ID][1], c.Attrs.(op.Conv), relu)
}

// parts are the values that operand i of node id concatenates along the
// channels, or the operand itself. Kernels support up to two parts.
func (f *fuser) parts(id, i int) []graph.Value {
	x := f.g.Nodes[f.g.Nodes[id].In[i]]
	if op.IsChannelConcat(x) && len(x.In) == 2 {
		return f.operands[x.ID]
	}
	return f.operands[id][i : i+1]
}

// gradient matches the gradient with respect to the data that node id computes
// and that one later operation may absorb: conv3d_grad_data or a slice of it,
// with an optional addend. It is nil for other nodes.
func (f *fuser) gradient(id int) *fusedGradient {
	if f.uses[id] != 1 {
		return nil
	}
	if f.hasRole(id, graph.FuseAdd) {
		n := f.g.Nodes[id]
		if i := f.addend(n); i >= 0 {
			d := f.gradient(n.In[i])
			d.addend = [2]int{id, 1 - i}
			return d
		}
		return nil
	}
	return f.slice(id)
}

// fusedGradient is conv3d_grad_data with adjacent operations. conv is its node;
// plus is the node and the operand number of the addend.
type fusedGradient struct {
	conv   int
	addend [2]int
	attrs  op.FusedConvGrad
}

// slice matches conv3d_grad_data, or a slice of its channels. A slice matches
// only if all readers of the gradient are slices of channels. They are the
// parts of a concatenation, such as a skip connection. Each part is then
// computed by a convolution of its own, and the whole gradient is never stored.
func (f *fuser) slice(id int) *fusedGradient {
	n := f.g.Nodes[id]
	if f.hasRole(id, graph.FuseConvData) {
		return &fusedGradient{conv: id, attrs: op.FusedConvGrad{ConvGrad: n.Attrs.(op.ConvGrad)}}
	}
	if !n.Moves(graph.MoveSlice) || !f.hasRole(n.In[0], graph.FuseConvData) {
		return nil
	}
	slices := 0
	for _, r := range f.g.Nodes {
		for _, in := range r.In {
			if in == n.In[0] && r.Moves(graph.MoveSlice) && r.Attrs.(op.Range).Axis == 1 {
				slices++
			}
		}
	}
	if slices != f.uses[n.In[0]] {
		return nil
	}
	a, r := f.g.Nodes[n.In[0]].Attrs.(op.ConvGrad), n.Attrs.(op.Range)
	a.To = n.Shape
	return &fusedGradient{conv: n.In[0], attrs: op.FusedConvGrad{ConvGrad: a, Lo: r.Lo}}
}

// addend is the operand of a sum that is a gradient which can absorb the other
// operand. If both can, it is the later one, since its addend is then computed
// before it. −1 means that none can.
func (f *fuser) addend(n *graph.Node) int {
	best := -1
	for i, id := range n.In {
		if !f.g.Nodes[n.In[1-i]].Shape.Equal(n.Shape) || f.hasRole(id, graph.FuseAdd) || f.gradient(id) == nil {
			continue
		}
		if best < 0 || id > n.In[best] {
			best = i
		}
	}
	return best
}

// gradData is the rule for the gradient with respect to the data.
func (f *fuser) gradData(b *graph.Builder, n *graph.Node) graph.Value {
	d, gate := (*fusedGradient)(nil), graph.Value{}
	switch {
	case f.hasRole(n.ID, graph.FuseReLUGrad):
		if f.absorbed[n.In[1]] {
			d = f.gradient(n.In[1])
			gate, d.attrs.HasGate = f.operands[n.ID][0], true
		}
	case f.hasRole(n.ID, graph.FuseAdd):
		if i := f.addend(n); i >= 0 {
			d = f.gradient(n.In[i])
			d.addend = [2]int{n.ID, 1 - i}
		}
	case n.Moves(graph.MoveSlice):
		d = f.slice(n.ID)
	}
	if d == nil {
		return graph.Value{}
	}
	var plus graph.Value
	if d.addend != [2]int{} {
		plus, d.attrs.HasAddend = f.operands[d.addend[0]][d.addend[1]], true
	}
	in := f.operands[d.conv]
	return op.ConvFusedGradData(b, in[0], in[1], plus, gate, d.attrs)
}

// gradFilter is the rule for the gradient with respect to a filter whose source
// is a concatenation.
func (f *fuser) gradFilter(b *graph.Builder, n *graph.Node) graph.Value {
	if !f.hasRole(n.ID, graph.FuseConvFilter) {
		return graph.Value{}
	}
	x := f.parts(n.ID, 0)
	if len(x) == 1 {
		return graph.Value{}
	}
	return op.ConvFusedGradFilter(b, x, f.operands[n.ID][1], n.Attrs.(op.ConvGrad))
}
