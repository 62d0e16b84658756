package pass

import (
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// fuseNorms fuses batch normalisation with ReLU, and their gradient into two
// sweeps, one for sums and one for the result, if no other operation reads the
// intermediate results:
//
//	relu(channel_norm(x, …))                                channel_norm_fused
//	channel_norm_sums(x, …, dy)                             channel_norm_fused_sums
//	channel_norm_grad(dy, …) + channel_moments_grad(x, …)   channel_norm_fused_grad
//
// In the gradients dy may be the gradient of that ReLU, possibly of some
// channels of a larger value. The sweeps then read the larger value, and compute
// again from x where the ReLU was positive.
func fuseNorms(u *Unit) error {
	f := newNormFuser(u.Graph)
	g, err := u.Graph.Rewrite(nil, func(b *graph.Builder, n *graph.Node, in []graph.Value) graph.Value {
		f.operands[n.ID] = in
		if f.hasRole(n.ID, graph.FuseReLU) && f.usedOnce(n.In[0], graph.FuseNorm) {
			x := f.operands[n.In[0]]
			return op.NormFused(b, x[0], x[1], x[2], x[3], f.g.Nodes[n.In[0]].Attrs.(op.Eps))
		}
		if f.hasRole(n.ID, graph.FuseNormSums) && f.gates[n.In[2]] != nil {
			dy, norm, a := f.source(n.In[2], n.Attrs.(op.Eps))
			return op.NormFusedSums(b, a, in[0], in[1], dy, norm[2:]...)
		}
		if d, ok := f.gradient(n); ok {
			dy, norm, a := f.source(d.dy, d.eps)
			var beta graph.Value
			if a.ReLU {
				beta = norm[3]
			} else {
				dy = f.operands[d.norm][0]
			}
			gamma, sums := f.operands[d.moments][1], f.operands[d.moments][2]
			return op.NormFusedGrad(b, f.operands[d.through][0], f.operands[d.through][1], gamma, sums, dy, beta, a)
		}
		return graph.Value{}
	})
	if err == nil {
		u.Graph = g
	}
	return err
}

// newNormFuser finds the gradients of ReLU that the sweeps of a graph absorb.
func newNormFuser(g *graph.Graph) *normFuser {
	f := &normFuser{g: g, uses: usesOfNeeded(g), operands: make([][]graph.Value, len(g.Nodes)), gates: map[int]*graph.Node{}}
	for _, n := range g.Nodes {
		if d, ok := f.gradient(n); ok && f.uses[d.dy] == 2 { // the two readers are those of the gradient
			f.gates[d.dy] = f.normBehind(d)
		}
	}
	return f
}

// usesOfNeeded is Graph.Uses without uses by dead nodes, which earlier passes
// left.
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

// normFuser holds the graph, the use counts, the operands in the new graph, and
// the gradients of ReLU that the sweeps absorb.
type normFuser struct {
	g        *graph.Graph    // the graph before the pass
	uses     []int           // number of uses by live nodes, by node
	operands [][]graph.Value // operands in the new graph, by node of the old one
	// gates are the normalisations before the gradients of ReLU that the sweeps
	// absorb, by the nodes of these gradients.
	gates map[int]*graph.Node
}

// hasRole reports whether node id is an operation with this role.
func (f *normFuser) hasRole(id int, part graph.Fuse) bool { return f.g.Nodes[id].Fuses(part) }

// normBehind returns the normalisation of the gradient d if its result goes
// through ReLU, and dy is the gradient of that, without broadcasting; else nil.
func (f *normFuser) normBehind(d normGradient) *graph.Node {
	n := f.g.Nodes[d.dy]
	if !f.hasRole(d.dy, graph.FuseReLUGrad) || !f.g.Nodes[n.In[1]].Shape.Equal(n.Shape) || !f.hasRole(n.In[0], graph.FuseReLU) {
		return nil
	}
	norm := f.g.Nodes[f.g.Nodes[n.In[0]].In[0]]
	through := f.g.Nodes[d.through]
	if !f.hasRole(norm.ID, graph.FuseNorm) || norm.In[0] != through.In[0] || norm.In[1] != through.In[1] || norm.Attrs != d.eps {
		return nil
	}
	return norm
}

// usedOnce reports the same for a value with a single use.
func (f *normFuser) usedOnce(id int, part graph.Fuse) bool {
	return f.uses[id] == 1 && f.hasRole(id, part)
}

// normGradient names the nodes of the gradient of a batch normalisation: norm
// is channel_norm_grad, through is channel_moments_grad, moments is
// channel_norm_moments_grad, and dy is the gradient of the result.
type normGradient struct {
	norm, through, moments, dy int
	eps                        op.Eps
}

// gradient matches the sum n of the two paths from the result of a batch
// normalisation to its operand: through the normalised values at fixed moments,
// and through the moments of the batch. The sum may have them in either order.
// ok is false if n is another operation.
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

// agree reports whether the parts of a gradient belong to the same
// normalisation: they share x, moments, gamma, dy and eps. It sets the
// remaining fields of d.
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

// source returns the operands of the sweeps that replace the gradient of ReLU
// dy, if they absorb it: its own operand, or the value that it is a slice of,
// and the operands of the normalisation before the ReLU. The slice must start at
// a whole block of channels, since layouts may store blocks contiguously.
func (f *normFuser) source(dy int, eps op.Eps) (from graph.Value, norm []graph.Value, a op.NormGrad) {
	a.Eps = eps.Eps
	if f.gates[dy] == nil {
		return from, nil, a
	}
	a.ReLU = true
	from, norm = f.operands[dy][1], f.operands[f.gates[dy].ID]
	cut := f.g.Nodes[f.g.Nodes[dy].In[1]]
	if f.uses[cut.ID] == 1 && cut.Moves(graph.MoveSlice) && cut.Shape[0] == 1 {
		if r := cut.Attrs.(op.Range); r.Axis == 1 && r.Lo%graph.BlockSize == 0 {
			from, a.Lo = f.operands[cut.ID][0], r.Lo
		}
	}
	return from, norm, a
}
