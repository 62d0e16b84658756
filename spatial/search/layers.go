package search

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// Input in Edge.From denotes a field that enters the network. Each rank loads the
// part that it reads.
const Input = -1

// Network is the input of the search: layers in an order of execution, and the
// optimiser.
type Network struct {
	Layers     []Layer
	Parameters int64 // number of values
	Optimiser  Optimiser
}

// Layer is an operation on fields with the pointwise operations that follow it;
// they share one distribution. All counts are for the whole layer on one rank.
type Layer struct {
	Name   string
	Out    graph.Shape // [N C D H W]
	Joined bool        // a channel concatenation; every rank has all its channels
	From   []Edge
	// Work by pass. Forward, Backward and Filter are computed on shards of the
	// result, Data (the gradient of the operand that is read in windows) on shards
	// of the operand. Filter needs no halo of gradients, so it overlaps with the
	// exchange of that halo, which Data waits for.
	Forward, Backward, Filter, Data []Work
	// Number of gradient values that are summed over ranks once per step, during
	// the backward pass, and of gradients of parameters that are fields, which are
	// gathered.
	GradientValues, GatheredValues int64
	SavedBytes                     int64   // bytes of fields that are loaded or that the backward pass reads
	Sums, BackwardSums             []int64 // number of values of each sum over ranks within a pass
}

// Edge is a field that a layer reads.
type Edge struct {
	From   int         // index of the layer, or Input
	Shape  graph.Shape // of the field
	Joined bool        // as in Layer
	// Window is the window by axis; nil if the layer reads the points of its
	// result.
	Window []graph.WindowAxis
	// whether every channel of the result reads all channels of the operand
	MixesChannels bool
}

// result returns the field that the layer computes.
func (l *Layer) result() splitField { return splitField{l.Out, l.Joined} }

// operand returns the field that the layer reads.
func (e *Edge) operand() splitField { return splitField{e.Shape, e.Joined} }

// Times returns the network with k times the batch size. Work, fields and saved
// bytes scale with k; parameters, their gradients and the bytes of filters do not.
func (n Network) Times(k int) Network {
	larger := func(s graph.Shape) graph.Shape {
		s = s.Clone()
		s[0] *= k
		return s
	}
	n.Layers = slices.Clone(n.Layers)
	for i := range n.Layers {
		l := &n.Layers[i]
		l.Out, l.SavedBytes = larger(l.Out), int64(k)*l.SavedBytes
		l.From = slices.Clone(l.From)
		for j := range l.From {
			l.From[j].Shape = larger(l.From[j].Shape)
		}
		for _, work := range []*[]Work{&l.Forward, &l.Backward, &l.Filter, &l.Data} {
			*work = slices.Clone(*work)
			for j := range *work {
				(*work)[j].FLOPs *= int64(k)
				(*work)[j].Bytes *= int64(k)
			}
		}
	}
	return n
}

// Work is the cost of one operation.
type Work struct {
	FLOPs, Bytes int64 // proportional to the number of points
	Fixed        int64 // bytes that every rank moves, such as filters
	Conv         *Conv // nil for other operations
}

// Conv identifies a convolution in tables of measured times.
type Conv struct {
	Pass    string // "forward", "data" or "filter"
	In, Out int    // channels that the pass reads and writes
	Filter  [3]int // filter size in levels, latitudes and longitudes
}

// Layers derives the layers of a graph with a loss. The graph has no gradients yet.
//
// A layer starts at an operation with a window (convolution, pooling, upsampling)
// and at a channel concatenation. The pointwise operations that follow belong to
// it.
//
// Errors: a graph without loss or fields; operations without gradient.
func Layers(g *graph.Graph, o Optimiser) (Network, error) {
	if g.Loss < 0 {
		return Network{}, fmt.Errorf("the network has no loss, so there is no training step to plan")
	}
	l := &layerBuilder{g: g, needed: g.Needed(g.Roots()), layer: make([]int, len(g.Nodes)), kind: make([]placement, len(g.Nodes)),
		trained: make([]bool, len(g.Nodes)), kept: make([]bool, len(g.Nodes)), n: Network{Optimiser: o}, names: map[string]int{}}
	for _, n := range g.Nodes {
		if err := l.visit(n); err != nil {
			return Network{}, err
		}
	}
	if len(l.n.Layers) == 0 {
		return Network{}, fmt.Errorf("the network has no field [N C D H W] to split")
	}
	return l.n, nil
}

// placement states how ranks hold a value.
type placement int

const (
	// replicated: parameters, constants and values derived from these alone
	everywhere placement = iota
	field                // split like its layer
	sum                  // computed from fields, but not a field
)

// layerBuilder is the state of Layers.
type layerBuilder struct {
	g       *graph.Graph
	n       Network
	needed  []bool
	layer   []int // by node: the layer of a field or sum, or Input
	kind    []placement
	trained []bool // by node: depends on a parameter
	kept    []bool // by node: counted as saved for the backward pass
	names   map[string]int
}

// visit adds one node of the graph.
func (l *layerBuilder) visit(n *graph.Node) error {
	switch {
	case n.Kind == graph.KindParam:
		l.n.Parameters += int64(n.Shape.Size())
		l.trained[n.ID] = true
	case n.Kind == graph.KindInput && len(n.Shape) == 5:
		l.kind[n.ID], l.layer[n.ID] = field, Input
	case n.Kind == graph.KindOp && l.needed[n.ID]:
		return l.operation(n)
	}
	return nil
}

// operation assigns an operation to a layer. It starts a new layer if the operation
// has a window or concatenates fields. Otherwise the operation joins the latest
// layer among its operands, so that a pointwise operation on two layers belongs to
// the later one and reads the other as an Edge.
func (l *layerBuilder) operation(n *graph.Node) error {
	at, fields := Input, 0
	for _, id := range n.In {
		l.trained[n.ID] = l.trained[n.ID] || l.trained[id]
		if l.kind[id] == everywhere {
			continue
		}
		l.kind[n.ID] = sum
		at = max(at, l.layer[id])
		if l.kind[id] == field {
			fields++
		}
	}
	if l.kind[n.ID] == everywhere {
		return nil // counted by the operations that read it
	}
	if fields > 0 && len(n.Shape) == 5 {
		l.kind[n.ID] = field
	}
	w := n.Op.Window(l.g.InShapes(n), n.Attrs)
	windowed := len(w.Axes) == 5 && l.kind[n.ID] == field && slices.ContainsFunc(w.Axes, func(a graph.WindowAxis) bool { return a.Size > 1 || a.Stride > 1 || a.UpFactor > 1 })
	begins := windowed || n.Op.Conv != nil || n.Moves(graph.MoveConcat) && fields > 1
	if !begins && at == Input { // reads only inputs: belongs to the layer before it
		at = len(l.n.Layers) - 1
	}
	if begins || at == Input {
		at = len(l.n.Layers)
		v := Layer{Name: l.name(n), Out: fieldShape(n.Shape), Joined: isConcat(n)}
		l.n.Layers = append(l.n.Layers, v)
	}
	l.layer[n.ID] = at
	v := &l.n.Layers[at]
	for i, id := range n.In {
		if l.kind[id] == field && l.layer[id] == Input && !l.kept[id] { // once as loaded, once in the layout of convolutions
			l.kept[id] = true
			v.SavedBytes += 2 * 4 * int64(l.g.Nodes[id].Shape.Size())
		}
		if l.kind[id] != field || l.layer[id] == at {
			continue
		}
		e := Edge{From: l.layer[id], Shape: l.g.Nodes[id].Shape, Joined: isConcat(l.g.Nodes[id])}
		if begins && len(w.Axes) == fieldAxes && i == w.Operand {
			e.Window, e.MixesChannels = w.Axes, slices.Contains(w.FullAxes, channels)
		}
		if !slices.ContainsFunc(v.From, func(f Edge) bool {
			return f.From == e.From && f.Shape.Equal(e.Shape) && f.Joined == e.Joined && slices.Equal(f.Window, e.Window)
		}) {
			v.From = append(v.From, e)
		}
	}
	if fields == 0 {
		return nil // numbers, not fields
	}
	return l.count(v, n)
}

// isConcat reports whether a value is a concatenation of fields along the channels.
func isConcat(n *graph.Node) bool {
	return op.IsChannelConcat(n) && len(n.Shape) == fieldAxes
}

// fieldShape returns the shape of a layer's field; a result that is not a field
// counts as one point.
func fieldShape(s graph.Shape) graph.Shape {
	if len(s) == 5 {
		return s
	}
	return graph.Shape{1, 1, 1, 1, 1}
}

// name returns a unique name of a layer: that of its first parameter, or the
// operation with the size of its result.
func (l *layerBuilder) name(n *graph.Node) string {
	name := n.Op.Name
	if len(n.Shape) == 5 {
		name = fmt.Sprintf("%s %dx%d", n.Op.Name, n.Shape[3], n.Shape[4])
	}
	for _, id := range n.In {
		if p := l.g.Nodes[id]; p.Kind == graph.KindParam {
			name, _, _ = strings.Cut(p.Name, ".weight")
			break
		}
	}
	l.names[name]++
	if k := l.names[name]; k > 1 {
		name = fmt.Sprintf("%s (%d)", name, k)
	}
	return name
}

// count adds the costs of an operation and its gradients to a layer.
func (l *layerBuilder) count(v *Layer, n *graph.Node) error {
	w := n.Op.Window(l.g.InShapes(n), n.Attrs)
	v.Forward = append(v.Forward, l.work(l.g, n, n))
	if len(w.FullAxes) > 0 && w.Additive {
		v.Sums = append(v.Sums, int64(n.Shape.Size()))
	}
	if n.Op.Split == graph.SplitMoments {
		v.Sums = append(v.Sums, int64(n.Shape.Size()))
	}
	if !l.trained[n.ID] {
		return nil
	}
	return l.backward(v, n)
}

// Names of inputs in a graph that holds the gradients of one operation; operands
// also have a number.
const (
	operand = "operand "
	result  = "result"
)

// backward adds the costs of an operation's gradients. It builds a graph of these
// gradients alone and counts its operations by the window that they read:
//
//	Against > 0              gradient of filters: Layer.Filter
//	Adjoint, with 5 axes     gradient of the operand: Layer.Data
//	others                   Layer.Backward
//
// Gradients of parameters are summed over ranks once per step. Gradients of
// parameters that are fields stay sharded and are gathered.
func (l *layerBuilder) backward(v *Layer, n *graph.Node) error {
	if n.Op.Grad == nil {
		return fmt.Errorf("%s has no gradient: %s", n.Op.Name, n.Op.NoGrad)
	}
	b := graph.New(0)
	in := make([]graph.Value, len(n.In))
	for i, id := range n.In {
		in[i] = b.Input(operand+strconv.Itoa(i), l.g.Nodes[id].Shape)
	}
	out := b.Input(result, n.Shape)
	grads := n.Op.Grad(b, in, out, b.Input("dy", n.Shape), n.Attrs)
	var roots []int
	parameter := map[int]placement{} // of gradients of parameters, by node
	for i, d := range grads {
		p := l.g.Nodes[n.In[i]]
		if !d.Valid() || !l.trained[p.ID] {
			continue
		}
		roots = append(roots, d.ID())
		b.Output(fmt.Sprintf("d%d", i), d)
		if l.kind[p.ID] == everywhere {
			parameter[d.ID()] = sum
			if l.hasPoints(p.Shape) {
				parameter[d.ID()] = field
			}
		}
	}
	if len(roots) == 0 {
		return nil
	}
	g, err := b.Build()
	if err != nil {
		return err
	}
	uses := g.Uses()
	for id, need := range g.Needed(roots) {
		m := g.Nodes[id]
		if need && m.Kind == graph.KindInput {
			l.countSaved(m.Name, n)
		}
		if !need || m.Kind != graph.KindOp {
			continue
		}
		w := m.Op.Window(g.InShapes(m), m.Attrs)
		work := l.work(g, m, n)
		switch {
		case w.CorrelateWith > 0:
			v.Filter = append(v.Filter, work)
		case w.Adjoint && len(w.Axes) == fieldAxes:
			v.Data = append(v.Data, work)
		default:
			v.Backward = append(v.Backward, work)
		}
		size := int64(m.Shape.Size())
		switch kind, ok := parameter[id]; {
		case ok && kind == field:
			v.GatheredValues += size
		case ok && uses[id] == 1:
			v.GradientValues += size
		case len(w.FullAxes) > 0 && w.Additive:
			v.BackwardSums = append(v.BackwardSums, size)
		}
	}
	return nil
}

// countSaved counts the memory of a value that the gradient of an operation reads,
// given its name in the gradient graph. Concatenations are read in parts.
func (l *layerBuilder) countSaved(name string, of *graph.Node) {
	n := of
	if i, err := strconv.Atoi(strings.TrimPrefix(name, operand)); err == nil {
		n = l.g.Nodes[of.In[i]]
	} else if name != result {
		return
	}
	if l.kind[n.ID] != field || l.layer[n.ID] == Input || l.kept[n.ID] {
		return
	}
	l.kept[n.ID] = true
	if isConcat(n) {
		for i := range n.In {
			l.countSaved(operand+strconv.Itoa(i), n)
		}
		return
	}
	l.n.Layers[l.layer[n.ID]].SavedBytes += 4 * int64(n.Shape.Size())
}

// hasPoints reports whether a parameter has the points of a field.
func (l *layerBuilder) hasPoints(s graph.Shape) bool {
	return len(s) == 5 && s[3] > 1 && s[4] > 1 && s[0] == 1
}

// work returns the cost of operation n of graph g; of is the operation of the
// network that it belongs to. Every rank reads the whole filters.
func (l *layerBuilder) work(g *graph.Graph, n, of *graph.Node) Work {
	w := workOf(g, n)
	w.Conv = convOf(n, of, l.g)
	if w.Conv == nil {
		return w
	}
	for _, s := range g.InShapes(n) {
		if s.Equal(l.g.Nodes[of.In[1]].Shape) {
			w.Fixed = 4 * int64(s.Size())
		}
	}
	w.Bytes = max(0, w.Bytes-w.Fixed)
	return w
}

// workOf returns the FLOPs and bytes of an operation. Pointwise operations count as
// fused with the producers of their operands, and concatenations and slices as read
// in parts, so they move no bytes. An adjoint with stride 1 is defined on the
// operand with its halo; the FLOPs of points in the halo are subtracted.
func workOf(g *graph.Graph, n *graph.Node) Work {
	in := g.InShapes(n)
	w := n.Op.Window(in, n.Attrs)
	work := Work{FLOPs: n.Op.FLOPs(in, n.Shape, n.Attrs)}
	if w.Adjoint && len(w.Axes) == 5 { // the adjoint is not computed for points in the halo
		for axis := 3; axis < 5; axis++ {
			if dy := in[w.Operand][axis]; w.Axes[axis].Stride == 1 && w.Axes[axis].UpFactor < 2 && dy > n.Shape[axis] {
				work.FLOPs = work.FLOPs / int64(dy) * int64(n.Shape[axis])
			}
		}
	}
	if len(w.Axes) > 0 || len(w.FullAxes) > 0 || w.CorrelateWith > 0 {
		work.Bytes = n.Op.Bytes(in, n.Shape, n.Attrs)
	}
	return work
}

// convOf returns the convolution that an operation is, or is a gradient of; nil for
// others.
func convOf(n, of *graph.Node, g *graph.Graph) *Conv {
	passes := map[graph.Fuse]string{graph.FuseConv: "forward", graph.FuseConvData: "data", graph.FuseConvFilter: "filter"}
	pass, ok := passes[n.Op.Fuses]
	if !ok || !of.Fuses(graph.FuseConv) {
		return nil
	}
	f := g.Nodes[of.In[1]].Shape
	c := &Conv{Pass: pass, In: f[1], Out: f[0], Filter: [3]int{f[2], f[3], f[4]}}
	if pass == "data" {
		c.In, c.Out = c.Out, c.In
	}
	return c
}
