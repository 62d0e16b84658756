package obs

import (
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/pass"
)

// Calibration collects the Gram matrices of the inputs of convolutions. It is not safe for concurrent use.
//
// Memory: columns² values of 8 bytes for each layer.
type Calibration struct {
	// MaxSide is the largest number of columns of a Hessian of all channels and taps. Layers with more have one of
	// their channels, averaged over the taps, which neglects that neighbouring points are alike.
	MaxSide int
	layers  []*inputs
}

// inputs are those of one convolution.
type inputs struct {
	filter string        // parameter
	node   int           // convolution
	bias   string        // parameter that is added to the result, a column of the Hessian; "" without one
	shape  graph.Shape   // of the filter
	gram   op.PatchGram  // geometry of the patches
	sum    *mat.SymDense // sum of the Gram matrices
}

// outputName names the output with the Gram matrix.
func (l *inputs) outputName() string { return "gram of " + l.filter }

// Passes returns the compiler passes for the plans of a calibration. They add one pass, which makes the Gram matrices
// of the patches that convolutions read outputs of the plan.
func (c *Calibration) Passes() []pass.Pass {
	list := slices.Clone(pass.List)
	at := slices.IndexFunc(list, func(p pass.Pass) bool { return p.Name == "find-zero-blocks" })
	return slices.Insert(list, at+1, pass.Pass{Name: "observe-patches", Run: c.observe, Purpose: "for calibration: compute the Gram matrices of the inputs of convolutions"})
}

// observe is the additional pass. A filter that several convolutions use has no Gram matrix.
func (c *Calibration) observe(u *pass.Unit) error {
	before := c.layers // of plans for other numbers of members
	c.layers = nil
	g, uses := u.Graph, map[string]int{}
	need := g.Needed(g.Roots())
	for _, n := range g.Nodes {
		if n.Kind != graph.KindOp || !need[n.ID] || !n.Fuses(graph.FuseConv) {
			continue
		}
		filter, shape := g.Nodes[g.AliasRoot(n.In[1])], g.Nodes[n.In[1]].Shape
		if uses[filter.Name]++; filter.Kind != graph.KindParam || !filter.Shape.Equal(shape) {
			continue
		}
		l := &inputs{filter: filter.Name, node: n.ID, bias: biasOf(g, n.ID), shape: shape}
		l.gram = op.PatchGram{Conv: n.Attrs.(op.Conv), Taps: [3]int(shape[2:]), Ones: l.bias != ""}
		l.gram.Mask = ""
		if l.gram.Side(shape[1]) > c.MaxSide {
			l.bias, l.gram.Ones, l.gram.Channels = "", false, true
		}
		l.sum = mat.NewSymDense(l.gram.Side(shape[1]), nil)
		c.layers = append(c.layers, l)
	}
	c.layers = slices.DeleteFunc(c.layers, func(l *inputs) bool { return uses[l.filter] > 1 })
	b := graph.Extend(g)
	for _, l := range c.layers {
		if i := slices.IndexFunc(before, func(k *inputs) bool { return k.filter == l.filter }); i >= 0 {
			l.sum = before[i].sum
		}
		b.Output(l.outputName(), op.GramOfPatches(b, b.ValueOf(g.Nodes[l.node].In[0]), b.ValueOf(l.node), l.gram))
	}
	return b.Err()
}

// biasOf returns the name of the bias that is added to the result of a convolution; "" if there is none.
func biasOf(g *graph.Graph, conv int) string {
	for _, n := range g.Nodes {
		if n.Kind == graph.KindOp && n.Fuses(graph.FuseBias) && n.In[0] == conv && g.Nodes[n.In[1]].Kind == graph.KindParam {
			return g.Nodes[n.In[1]].Name
		}
	}
	return ""
}

// Observe adds the inputs of one sample, after a run of a plan of Passes.
func (c *Calibration) Observe(p *engine.Plan) {
	for _, l := range c.layers {
		at, x := 0, p.Output(l.outputName())
		for i := range l.sum.SymmetricDim() {
			for j := range i + 1 {
				l.sum.SetSym(i, j, l.sum.At(i, j)+float64(x[at]))
				at++
			}
		}
	}
}

// layer returns the inputs of a filter; nil without any.
func (c *Calibration) layer(filter string) *inputs {
	i := slices.IndexFunc(c.layers, func(l *inputs) bool { return l.filter == filter })
	if i < 0 {
		return nil
	}
	return c.layers[i]
}

// Bias returns the name of the bias that is the last column of the problem of a filter; "" without one.
func (c *Calibration) Bias(filter string) string {
	if l := c.layer(filter); l != nil {
		return l.bias
	}
	return ""
}

// Problem returns the pruning of a filter with its bias, by blocks of outs × ins channels with all taps, for the
// Hessian
//
//	H = G/g + damping · I     G = Σ x xᵀ     g = trace(G)/n
//
// of the patches x of n values: the damping is relative to their mean square. Hessians of channels have a row for each output and tap, the others for each output. ok is
// false if the filter has no Gram matrix.
//
// Shape: w [O C kD kH kW], bias [O] or nil.
func (c *Calibration) Problem(filter string, w, bias []float32, outs, ins int, damping float64) (p *Problem, ok bool) {
	l := c.layer(filter)
	if l == nil {
		return nil, false
	}
	n := l.sum.SymmetricDim()
	mean := mat.Trace(l.sum) / float64(n)
	if mean == 0 { // an input that is always 0
		mean = 1
	}
	h := mat.NewSymDense(n, nil)
	h.ScaleSym(1/mean, l.sum)
	for i := range n {
		h.SetSym(i, i, h.At(i, i)+damping)
	}
	p = &Problem{Hessian: h, Removable: n, BlockRows: outs, BlockCols: ins}
	taps := l.shape[2:].Size()
	switch {
	case l.gram.Channels:
		p.BlockRows *= taps
	case l.bias != "":
		p.Removable--
		fallthrough
	default:
		p.BlockCols *= taps
	}
	rows := len(w) / p.Removable
	p.Weights = mat.NewDense(rows, n, nil)
	l.visit(func(r, c, i int) { p.Weights.Set(r, c, float64(w[i])) })
	if l.bias != "" {
		for o, v := range bias {
			p.Weights.Set(o, n-1, float64(v))
		}
	}
	return p, true
}

// Write writes the weights of a problem to the filter and the bias.
func (c *Calibration) Write(filter string, p *Problem, w, bias []float32) {
	l := c.layer(filter)
	l.visit(func(r, c, i int) { w[i] = float32(p.Weights.At(r, c)) })
	if l.bias != "" {
		for o := range bias {
			bias[o] = float32(p.Weights.At(o, p.Removable))
		}
	}
}

// visit calls f for each weight, with its row and column in the problem and its index in the filter.
func (l *inputs) visit(f func(r, c, i int)) {
	channels, taps := l.shape[1], l.shape[2:].Size()
	for i := range l.shape.Size() {
		o, c, t := i/taps/channels, i/taps%channels, i%taps
		if l.gram.Channels {
			f(o*taps+t, c, i)
		} else {
			f(o, c*taps+t, i)
		}
	}
}
