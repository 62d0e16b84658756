package pass

import (
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// fuseNorms makes one operation of batch normalisation and ReLU, and two sweeps
// of their gradient, one that sums and one that combines, where nothing else
// reads the results in between:
//
//	relu(channel_norm(x, …))                                channel_norm_fused
//	channel_norm_sums(x, …, dy)                             channel_norm_fused_sums
//	channel_norm_grad(dy, …) + channel_moments_grad(x, …)   channel_norm_fused_grad
//
// In the last two dy may be the gradient of that ReLU, and that of some channels
// of a larger value: the sweeps then read that value and the result of the ReLU.
func fuseNorms(u *Unit) error {
	f := &normFuser{g: u.Graph, uses: usesOfNeeded(u.Graph), operands: make([][]graph.Value, len(u.Graph.Nodes)), gates: map[int]bool{}}
	for _, n := range f.g.Nodes {
		if d, ok := f.gradient(n); ok && f.uses[d.dy] == 2 && f.isReLUGrad(d.dy) {
			f.gates[d.dy] = true // the two readers are those of the gradient
		}
	}
	g, err := u.Graph.Rewrite(nil, func(b *graph.Builder, n *graph.Node, in []graph.Value) graph.Value {
		f.operands[n.ID] = in
		if f.hasRole(n.ID, graph.FuseReLU) && f.usedOnce(n.In[0], graph.FuseNorm) {
			x := f.operands[n.In[0]]
			return op.NormFused(b, x[0], x[1], x[2], x[3], f.g.Nodes[n.In[0]].Attrs.(op.Eps))
		}
		if f.hasRole(n.ID, graph.FuseNormSums) && f.gates[n.In[2]] {
			dy, gate, a := f.source(n.In[2], n.Attrs.(op.Eps))
			return op.NormFusedSums(b, in[0], in[1], dy, gate, a)
		}
		if d, ok := f.gradient(n); ok {
			dy, gate, a := f.source(d.dy, d.eps)
			if !a.HasGate {
				dy = f.operands[d.norm][0]
			}
			gamma, sums := f.operands[d.moments][1], f.operands[d.moments][2]
			return op.NormFusedGrad(b, f.operands[d.through][0], f.operands[d.through][1], gamma, sums, dy, gate, a)
		}
		return graph.Value{}
	})
	if err == nil {
		u.Graph = g
	}
	return err
}

// usesOfNeeded is Graph.Uses without those by nodes on which nothing depends,
// which earlier passes left behind.
func usesOfNeeded(g *graph.Graph) []int {
	uses, needed := g.Uses(), g.Needed(g.Roots())
	for _, n := range g.Nodes {
		if !needed[n.ID] {
			for _, in := range n.In {
				uses[in]--
			}
		}
	}
	return uses
}

// normFuser holds what the rules look at: the graph, how often a value is used,
// the operands in the new graph, and the gradients of ReLU that the sweeps take
// along.
type normFuser struct {
	g        *graph.Graph
	uses     []int
	operands [][]graph.Value
	gates    map[int]bool
}

// hasRole tells whether node id is an operation with this part.
func (f *normFuser) hasRole(id int, part graph.Fuse) bool { return f.g.Nodes[id].Fuses(part) }

// isReLUGrad tells whether node id is the gradient of ReLU, nothing stretched.
func (f *normFuser) isReLUGrad(id int) bool {
	n := f.g.Nodes[id]
	return f.hasRole(id, graph.FuseReLUGrad) && f.g.Nodes[n.In[0]].Shape.Equal(n.Shape) && f.g.Nodes[n.In[1]].Shape.Equal(n.Shape)
}

// usedOnce is the same for values that are used only once.
func (f *normFuser) usedOnce(id int, part graph.Fuse) bool {
	return f.uses[id] == 1 && f.hasRole(id, part)
}

// normGradient names the nodes of the gradient of a batch normalisation: norm is
// channel_norm_grad, through channel_moments_grad, moments
// channel_norm_moments_grad, and dy what they start from.
type normGradient struct {
	norm, through, moments, dy int
	eps                        op.Eps
}

// gradient takes apart the sum n of the two ways from the result of a batch
// normalisation to its operand; ok is false if n is anything else.
func (f *normFuser) gradient(n *graph.Node) (d normGradient, ok bool) {
	if !f.hasRole(n.ID, graph.FuseAdd) {
		return d, false
	}
	for i := range n.In {
		d = normGradient{norm: n.In[i], through: n.In[1-i]}
		if f.usedOnce(d.norm, graph.FuseNormGrad) && f.usedOnce(d.through, graph.FuseMomentsGrad) {
			d.moments = f.g.Nodes[d.through].In[2]
			return d, f.agree(&d)
		}
	}
	return d, false
}

// agree tells whether the parts of a gradient belong to the same normalisation.
func (f *normFuser) agree(d *normGradient) bool {
	if !f.usedOnce(d.moments, graph.FuseNormMomentsGrad) {
		return false
	}
	norm, through, moments := f.g.Nodes[d.norm], f.g.Nodes[d.through], f.g.Nodes[d.moments]
	sums := f.g.Nodes[moments.In[2]]
	if !f.hasRole(sums.ID, graph.FuseNormSums) {
		return false
	}
	x, mom, gamma := through.In[0], through.In[1], norm.In[2]
	d.dy, d.eps = norm.In[0], norm.Attrs.(op.Eps)
	return norm.In[1] == mom && moments.In[0] == mom && moments.In[1] == gamma && moments.Attrs == norm.Attrs &&
		sums.In[0] == x && sums.In[1] == mom && sums.In[2] == d.dy && sums.Attrs == norm.Attrs
}

// source tells what the sweeps read instead of the gradient of ReLU dy, if they
// take it along: its own operand, or of what that is cut from, and the gate.
// Layouts may keep whole blocks of channels together, so the cut begins at one.
func (f *normFuser) source(dy int, eps op.Eps) (from, gate graph.Value, a op.NormGrad) {
	a.Eps = eps.Eps
	if !f.gates[dy] {
		return from, gate, a
	}
	a.HasGate = true
	gate, from = f.operands[dy][0], f.operands[dy][1]
	cut := f.g.Nodes[f.g.Nodes[dy].In[1]]
	if f.uses[cut.ID] == 1 && cut.Moves(graph.MoveSlice) && cut.Shape[0] == 1 {
		if r := cut.Attrs.(op.Range); r.Axis == 1 && r.Lo%graph.BlockSize == 0 {
			from, a.Lo = f.operands[cut.ID][0], r.Lo
		}
	}
	return from, gate, a
}
