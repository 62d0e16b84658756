package obs

import (
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/pass"
)

// Calibration collects the normal equations of one convolution, that shall give with the inputs in the pruned network
// the results of the dense one:
//
//	G = Σ x xᵀ     C = Σ (y − ŷ) xᵀ
//
// over the patches x that its filter reads in the pruned network, the results y of the dense network, and those ŷ of the
// pruned one, before any activation. It is not safe for concurrent use.
//
// Memory: columns² values of 8 bytes, and the layer's results for one sample.
type Calibration struct {
	Filter string // parameter
	// MaxSide is the largest number of columns of a Hessian of all channels and taps. A layer with more has one of
	// its channels, averaged over the taps, which neglects that neighbouring points are alike, and no C.
	MaxSide int
	// OnlyInputs leaves out C, as for the dense network itself, whose results are the target.
	OnlyInputs bool
	refine     bool      // passes after the first
	layer      *inputs   // nil before a plan is compiled, or if not exactly one convolution uses the filter
	dense      []float32 // y of the present sample
}

// inputs are those of the convolution.
type inputs struct {
	bias       string       // parameter that is added to the result, a column of the Hessian; "" without one
	shape      graph.Shape  // of the filter
	gram       op.PatchGram // geometry of the patches
	sum        *mat.SymDense
	missing    []float64 // C, in the order of the filter
	missingAll []float64 // C of the bias
	positions  int       // patches of a sample
	samples    int
}

// Names of what a plan of Passes has in addition.
const (
	gramOutput        = "gram of the patches"
	resultOutput      = "results"
	targetInput       = "results of the dense network"
	missingOutput     = "missing results by patches"
	missingBiasOutput = "missing results"
)

// Passes returns the compiler passes for the plans of a calibration. They add one pass, which makes the terms of the
// normal equations outputs of the plan.
func (c *Calibration) Passes() []pass.Pass {
	list := slices.Clone(pass.List)
	at := slices.IndexFunc(list, func(p pass.Pass) bool { return p.Name == "find-zero-blocks" })
	return slices.Insert(list, at+1, pass.Pass{Name: "observe-patches", Run: c.observe, Purpose: "for calibration: compute the normal equations of a convolution"})
}

// observe is the additional pass. A filter that several convolutions use has no normal equations.
func (c *Calibration) observe(u *pass.Unit) error {
	g, at := u.Graph, -1
	need := g.Needed(g.Roots())
	for _, n := range g.Nodes {
		if n.Kind != graph.KindOp || !need[n.ID] || !n.Fuses(graph.FuseConv) {
			continue
		}
		filter := g.Nodes[g.AliasRoot(n.In[1])]
		if filter.Name != c.Filter || filter.Kind != graph.KindParam || !filter.Shape.Equal(g.Nodes[n.In[1]].Shape) {
			continue
		}
		if at >= 0 {
			return nil
		}
		at = n.ID
	}
	if at < 0 {
		return nil
	}
	conv := g.Nodes[at]
	bias, result := biasOf(g, at)
	l := &inputs{bias: bias, shape: g.Nodes[conv.In[1]].Shape}
	l.gram = op.PatchGram{Conv: conv.Attrs.(op.Conv), Taps: [3]int(l.shape[2:]), Ones: bias != ""}
	l.gram.Mask = ""
	if l.gram.Side(l.shape[1]) > c.MaxSide {
		l.bias, l.gram.Ones, l.gram.Channels = "", false, true
	}
	b := graph.Extend(g)
	x := b.ValueOf(conv.In[0])
	if !c.refine {
		b.Output(gramOutput, op.GramOfPatches(b, x, b.ValueOf(at), l.gram))
	}
	if !l.gram.Channels && !c.OnlyInputs {
		y := b.ValueOf(result)
		if c.refine {
			y = b.ValueOf(activationOf(g, result))
		}
		missing := op.Sub(b, b.Input(targetInput, y.Shape()), y)
		b.Output(resultOutput, y)
		b.Output(missingOutput, op.Conv3DGradFilter(b, x, missing, l.gram.Conv, l.shape))
		b.Output(missingBiasOutput, op.ChannelSum(b, missing))
	}
	if c.layer == nil { // else of a plan for another number of members
		l.sum = mat.NewSymDense(l.gram.Side(l.shape[1]), nil)
		l.missing, l.missingAll = make([]float64, l.shape.Size()), make([]float64, l.shape[0])
		l.positions = conv.Shape[0] * conv.Shape[2:].Size()
		c.layer = l
	}
	return b.Err()
}

// biasOf returns the name of the bias that is added to the result of a convolution, and the sum; "" and the convolution if
// there is none.
func biasOf(g *graph.Graph, conv int) (name string, result int) {
	for _, n := range g.Nodes {
		if n.Kind == graph.KindOp && n.Fuses(graph.FuseBias) && n.In[0] == conv && g.Nodes[n.In[1]].Kind == graph.KindParam {
			return g.Nodes[n.In[1]].Name, n.ID
		}
	}
	return "", conv
}

// KeepResults keeps the layer's results for a sample, after a run with the weights of the dense network.
func (c *Calibration) KeepResults(p *engine.Plan) {
	c.dense = append(c.dense[:0], p.Output(resultOutput)...)
}

// SetTarget gives the results of KeepResults to the plan, before a run for the same sample with the weights of the
// pruned network.
func (c *Calibration) SetTarget(p *engine.Plan) { copy(p.Input(targetInput), c.dense) }

// ErrNotFinite reports a sample for which the inputs or results of a layer are not finite.
var ErrNotFinite = errors.New("the layer's values are not finite")

// Observe adds the terms of a sample, after that run.
//
// Errors: ErrNotFinite; the calibration is then of no use.
func (c *Calibration) Observe(p *engine.Plan) error {
	l := c.layer
	if l == nil {
		return nil
	}
	if x := p.Output(gramOutput); x != nil {
		l.addGram(x)
	}
	for i, v := range p.Output(missingOutput) {
		l.missing[i] += float64(v)
	}
	for i, v := range p.Output(missingBiasOutput) {
		l.missingAll[i] += float64(v)
	}
	// A sum of squares that is not finite spreads to the trace, that of a product to the sum.
	if sum := mat.Trace(l.sum) + floats.Sum(l.missing) + floats.Sum(l.missingAll); math.IsNaN(sum) || math.IsInf(sum, 0) {
		return ErrNotFinite
	}
	return nil
}

// Bias returns the name of the bias that is the last column of the problem; "" without one.
func (c *Calibration) Bias() string {
	if c.layer == nil {
		return ""
	}
	return c.layer.bias
}

// Problem returns the pruning of the filter with its bias, by blocks of outs × ins channels with all taps, for the
// Hessian
//
//	H = G/m + damping · g · I     g = trace(G)/(m n)
//
// of m patches of n values: errors are half the mean square of those of the results, and damping is relative to the mean square of
// the values. Its weights are those that reproduce the results of the dense network best, W + C/m H⁻¹: the damping is the
// cost of their distance from W.
// Hessians of channels have a row for each output and tap, the others for each output. The
// problem is nil if the filter has no Gram matrix.
//
// Shape: w [O C kD kH kW], bias [O] or nil.
// Errors: ErrSingular.
// Source: Zhang, Zou, He, Sun 2015, arXiv:1505.06798 (asymmetric reconstruction).
func (c *Calibration) Problem(w, bias []float32, outs, ins int, damping float64) (*Problem, error) {
	l := c.layer
	if l == nil {
		return nil, nil
	}
	n, m := l.sum.SymmetricDim(), float64(l.positions*l.samples)
	mean := mat.Trace(l.sum) / m / float64(n)
	if mean == 0 { // an input that is always 0
		mean = 1
	}
	h := mat.NewSymDense(n, nil)
	h.ScaleSym(1/m, l.sum)
	for i := range n {
		h.SetSym(i, i, h.At(i, i)+damping*mean)
	}
	p := &Problem{Hessian: h, Removable: n, BlockRows: outs, BlockCols: ins}
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
	gradient := mat.NewDense(rows, n, nil)
	l.visit(func(r, c, i int) {
		p.Weights.Set(r, c, float64(w[i]))
		gradient.Set(r, c, l.missing[i]/m)
	})
	if l.bias != "" {
		for o, v := range bias {
			p.Weights.Set(o, n-1, float64(v))
			gradient.Set(o, n-1, l.missingAll[o]/m)
		}
	}
	return p, p.step(gradient)
}

// Write writes the weights of a problem to the filter and the bias.
func (c *Calibration) Write(p *Problem, w, bias []float32) {
	c.layer.visit(func(r, c, i int) { w[i] = float32(p.Weights.At(r, c)) })
	if c.layer.bias != "" {
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

// addGram adds the Gram matrix of a sample.
func (l *inputs) addGram(x []float32) {
	l.samples++
	at := 0
	for i := range l.sum.SymmetricDim() {
		for j := range i + 1 {
			l.sum.SetSym(i, j, l.sum.At(i, j)+float64(x[at]))
			at++
		}
	}
}

// activationOf returns the ReLU of a result if nothing else reads it, else the result.
func activationOf(g *graph.Graph, result int) int {
	readers, only := 0, result
	for _, n := range g.Nodes {
		if slices.Contains(n.In, result) {
			readers++
			if n.Fuses(graph.FuseReLU) {
				only = n.ID
			}
		}
	}
	if readers == 1 {
		return only
	}
	return result
}

// Refine begins another pass over the samples, after Write: then C is of the results behind the ReLU that follows, and G stays.
// The fit is a step that decreases the convex error whose gradient is (relu(ŷ) − relu(y)) x, since its curvature is at
// most G.
//
// Source: Auer, Herbster, Warmuth 1996, Exponentially many local minima for single neurons (matching loss).
func (c *Calibration) Refine() {
	c.refine = true
	clear(c.layer.missing)
	clear(c.layer.missingAll)
}
