package pass

import (
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// fuse makes one operation of a convolution and what surrounds it, where
// nothing else reads the results in between:
//
//	relu(bias(conv3d(x, w), b)), and without relu     conv3d_fused
//	conv3d and its gradients of concat(x₁, x₂)        the same with parts
//	relu_grad(z, slice(conv3d_grad_data(…)) + y)      conv3d_fused_grad_data,
//	                                                  also without gate, slice or sum
//
// The gradient of ReLU reads its result, so this holds in training too.
func fuse(u *Unit) error {
	f := &fuser{g: u.Graph, uses: u.Graph.Uses(), operands: make([][]graph.Value, len(u.Graph.Nodes))}
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

// fuser holds what the rules look at: the graph, how often a value is used, the
// operands in the new graph, and which operations a later one takes along.
type fuser struct {
	g        *graph.Graph
	uses     []int
	operands [][]graph.Value
	absorbed []bool
}

// hasRole tells whether node id is an operation with this part.
func (f *fuser) hasRole(id int, part graph.Fuse) bool { return f.g.Nodes[id].Fuses(part) }

// usedOnce is the same for values that are used only once.
func (f *fuser) usedOnce(id int, part graph.Fuse) bool { return f.uses[id] == 1 && f.hasRole(id, part) }

// findAbsorbed marks the operations that a later one takes along.
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
			if f.gradient(n.In[1]) != nil {
				f.absorbed[n.In[1]] = true
			}
		case graph.FuseAdd:
			if i := f.addend(n); i >= 0 {
				f.absorbed[n.In[i]] = true
			}
		}
	}
}

// forward is the rule of the convolution with bias and perhaps ReLU.
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

// parts are the values that operand i of node id joins along the channels, or
// the operand itself. Kernels take up to two.
func (f *fuser) parts(id, i int) []graph.Value {
	x := f.g.Nodes[f.g.Nodes[id].In[i]]
	if op.IsChannelConcat(x) && len(x.In) == 2 {
		return f.operands[x.ID]
	}
	return f.operands[id][i : i+1]
}

// gradient is the gradient of the data that node id computes and that a single
// later operation may take along: conv3d_grad_data itself or a slice of it,
// perhaps with an addend. It is nil for anything else.
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

// fusedGradient is conv3d_grad_data with what surrounds it: conv is its node,
// plus the node and operand that is added.
type fusedGradient struct {
	conv   int
	addend [2]int
	attrs  op.FusedConvGrad
}

// slice is the gradient that node id computes, if it is conv3d_grad_data or a
// slice of its channels and all that reads it are slices of channels.
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

// addend is the operand of a sum that is a gradient which can take the other
// along, the later one if both are; −1 if none is.
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

// gradData is the rule of the gradient of the data.
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

// gradFilter is the rule of the gradient of a filter whose source is joined.
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
