package pass

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// quantise converts the convolutions of a prediction with scales (Unit.Int8) to
// int8. A result is stored as int8 if all its readers use it with the same
// scales, possibly through pooling and upsampling, which then work on int8
// values. Other sources are quantised where they are read.
//
// Errors: exit.Usage for training, for names without a convolution, and for
// scales that do not fit their convolution.
// Source: Jacob et al. 2018, arXiv:1712.05877.
func quantise(u *Unit) error {
	if len(u.Int8) == 0 {
		return nil
	}
	if !u.Infer {
		return &exit.Error{Code: exit.Usage, What: "training in int8 is not supported", Why: "int8 operations have no gradients",
			Fix: "train in float32 and quantise afterwards"}
	}
	z := &quantiser{g: u.Graph, scales: map[int]*op.Int8Scales{}, formats: map[int][]readFormat{}, built: map[int]graph.Value{}, cache: map[string]graph.Value{}}
	z.direct, _ = u.Layouts.(backend.DirectInt8)
	if err := z.find(u); err != nil {
		return err
	}
	g, err := u.Graph.Rewrite(nil, z.rewrite)
	if err != nil {
		return err
	}
	for _, id := range z.int8Values {
		if g.Nodes[id].Layout != graph.Plain {
			g.Nodes[id].DType = graph.UInt8
		}
	}
	g.Notes = append(g.Notes, fmt.Sprintf("%d convolutions multiply in int8, %d values are stored as int8", len(z.scales), len(z.int8Values)))
	u.Graph = g
	return nil
}

// quantiser holds the state of the pass, by nodes of the old graph.
type quantiser struct {
	g *graph.Graph // the graph before the pass
	// of int8 convolutions; the scales of the result are set if it is stored as
	// int8
	scales     map[int]*op.Int8Scales
	formats    map[int][]readFormat   // formats in which readers use a value
	built      map[int]graph.Value    // values of the new graph
	cache      map[string]graph.Value // int8 values of the new graph, by value and scales
	int8Values []int                  // IDs of int8 values in the new graph
	direct     backend.DirectInt8     // nil if no convolution is direct
}

// readFormat is the format in which a reader uses a value: int8 with these
// scales, or float if scales is nil.
type readFormat struct {
	scales []float32
	zero   int
}

// same reports whether two readers use the same format.
func (d readFormat) same(e readFormat) bool {
	return d.zero == e.zero && slices.Equal(d.scales, e.scales)
}

// text is a key that identifies value and format.
func (d readFormat) text(id int) string {
	return fmt.Sprint(id, d.zero, &op.Int8Scales{Channels: d.scales})
}

// preservesScale reports whether node n, applied to int8 values, gives its
// result in the same scales.
func preservesScale(n *graph.Node) bool {
	return n.Kind == graph.KindOp && n.Op.PreservesScale != nil && n.Op.PreservesScale(n.Attrs)
}

// int8Scales returns the filter of a convolution and its int8 scales; nil if it
// has none.
func (u *Unit) int8Scales(n *graph.Node) (*graph.Node, *op.Int8Scales) {
	if n.Kind != graph.KindOp || !n.Op.Quantisable {
		return nil, nil
	}
	filter := u.Graph.Nodes[u.Graph.AliasRoot(n.In[len(n.In)-2])]
	if filter.Kind != graph.KindParam {
		return nil, nil
	}
	return filter, u.Int8[filter.Name]
}

// int8Options keeps the layout options in which a convolution with scales can
// read int8 values. Which convolutions are quantised must not depend on which
// layout is fastest in float.
func (u *Unit) int8Options(n *graph.Node, options []backend.LayoutOption) []backend.LayoutOption {
	if _, q := u.int8Scales(n); q == nil {
		return options
	}
	plain := func(w backend.LayoutOption) bool {
		return w.Out == graph.Plain || slices.Contains(w.In[:len(n.In)-2], graph.Plain)
	}
	if !slices.ContainsFunc(options, func(w backend.LayoutOption) bool { return !plain(w) }) {
		return options
	}
	return slices.DeleteFunc(options, plain)
}

// find selects the convolutions that read int8 values, and those that write
// them. It first collects the convolutions with scales, and checks the scales.
// It then walks the graph backwards and records, for every value, the format in
// which each reader uses it. Pooling and upsampling pass on the formats of
// their own readers. A convolution writes int8 if all formats of its result are
// equal, the zero point is 0, and a ReLU makes the result non-negative.
func (z *quantiser) find(u *Unit) error {
	used := map[string]bool{}
	for _, n := range z.g.Nodes {
		filter, q := u.int8Scales(n)
		if q == nil {
			continue
		}
		used[filter.Name] = true
		parts := n.In[:len(n.In)-2]
		if u.Layouts != nil && slices.ContainsFunc(append(parts[:len(parts):len(parts)], n.ID), func(id int) bool { return z.g.Nodes[id].Layout != u.Layouts.InnerLayout() }) {
			continue // int8 kernels work on fields in the inner layout only
		}
		// A copy, since the scales of the result depend on the readers in this
		// graph.
		own := *q
		own.OutScales = nil
		a := n.Attrs.(op.FusedConv)
		if _, err := op.Find("conv3d_int8").Shape(z.g.InShapes(n), op.Int8Conv{FusedConv: a, Scales: &own}); err != nil {
			return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("the int8 scales of %s do not fit its convolution", filter.Name), At: n.At, Why: err.Error(),
				Fix: "quantise the model again, or predict on the number of levels that it was quantised for", Err: err}
		}
		if chooser, ok := u.Layouts.(backend.Int8Chooser); ok && !chooser.RunsInt8(op.Int8Conv{FusedConv: a, Scales: &own, Direct: true}, z.g.InShapes(n), n.Shape, u.Precision) {
			continue
		}
		z.scales[n.ID] = &own
	}
	for name := range u.Int8 {
		if !used[name] {
			return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("int8 scales for unknown filter %s", name), Why: "the network has no convolution with bias and this filter",
				Fix: "quantise the model again"}
		}
	}
	// Backward walk: the readers of a value come after it, so their formats are
	// complete when the value is reached. Outputs of the graph are float.
	need := z.g.Needed(z.g.Roots())
	for _, id := range z.g.Roots() {
		z.formats[id] = append(z.formats[id], readFormat{})
	}
	for i := len(z.g.Nodes) - 1; i >= 0; i-- {
		n := z.g.Nodes[i]
		if !need[i] || n.Kind != graph.KindOp {
			continue
		}
		q, lo := z.scales[i], 0
		for k, id := range n.In {
			var d readFormat
			switch {
			case q != nil && k < len(q.ZeroPoints):
				c := z.g.Nodes[id].Shape[1]
				d = readFormat{q.Channels[lo : lo+c], q.ZeroPoints[k]}
				lo += c
				z.formats[id] = append(z.formats[id], d)
			case preservesScale(n):
				z.formats[id] = append(z.formats[id], z.formats[i]...)
			default:
				z.formats[id] = append(z.formats[id], readFormat{})
			}
		}
		// The result is stored as int8 if every reader takes it with the same
		// scales. A zero point other than 0 does not fit a result of ReLU,
		// which uses the whole range from 0.
		if ds := z.formats[i]; q != nil && n.Attrs.(op.FusedConv).ReLU && len(ds) > 0 && ds[0].scales != nil && ds[0].zero == 0 &&
			n.Layout == z.g.Nodes[n.In[0]].Layout && !slices.ContainsFunc(ds, func(d readFormat) bool { return !d.same(ds[0]) }) {
			q.OutScales = ds[0].scales
		}
	}
	return nil
}

// rewrite replaces a convolution with scales by its int8 form. Each part of the
// source is quantised with its slice of the channel scales. The block mask
// stays: a zero block has int8 values of zero.
func (z *quantiser) rewrite(b *graph.Builder, n *graph.Node, in []graph.Value) graph.Value {
	for k, v := range in {
		z.built[n.In[k]] = v
	}
	q := z.scales[n.ID]
	if q == nil {
		return graph.Value{}
	}
	lo := 0
	for k := range q.ZeroPoints {
		c := z.g.Nodes[n.In[k]].Shape[1]
		in[k] = z.quantised(b, n.In[k], readFormat{q.Channels[lo : lo+c], q.ZeroPoints[k]})
		lo += c
	}
	a := op.Int8Conv{FusedConv: n.Attrs.(op.FusedConv), Scales: q}
	a.Direct = z.direct != nil && z.direct.MultipliesDirectly(a, z.g.InShapes(n))
	v := op.ConvInt8(b, in[:len(q.ZeroPoints)], in[len(q.ZeroPoints)], in[len(q.ZeroPoints)+1], a)
	v.SetLayout(n.Layout)
	if q.OutScales != nil {
		z.cache[readFormat{q.OutScales, 0}.text(n.ID)] = v
		z.int8Values = append(z.int8Values, v.ID())
	}
	return v
}

// quantised returns the value id of the old graph in the int8 format d. Pooling
// and upsampling of an int8 value work on int8 directly.
func (z *quantiser) quantised(b *graph.Builder, id int, d readFormat) graph.Value {
	key := d.text(id)
	if v, ok := z.cache[key]; ok {
		return v
	}
	n := z.g.Nodes[id]
	var v graph.Value
	switch {
	case d.zero == 0 && preservesScale(n) && z.isInt8(n.In[0]):
		x := z.quantised(b, n.In[0], d)
		if a, ok := n.Attrs.(op.Upsampling); ok {
			v = op.UpsampleInt8(b, x, a)
		} else {
			v = b.Node(n.Op, n.Attrs, x)
		}
	default:
		x := z.built[id]
		if a, ok := n.Attrs.(op.ToLayout); ok && a.Layout != graph.Plain {
			x = z.built[n.In[0]] // the field before it was blocked, not rounded to 16 bits
		}
		v = op.Quantise(b, x, d.scales, d.zero)
	}
	v.SetLayout(n.Layout)
	z.cache[key] = v
	z.int8Values = append(z.int8Values, v.ID())
	return v
}

// isInt8 reports whether a value is stored as int8: the result of a
// convolution, or a pooling or upsampling of one.
func (z *quantiser) isInt8(id int) bool {
	if q := z.scales[id]; q != nil {
		return q.OutScales != nil
	}
	return preservesScale(z.g.Nodes[id]) && z.isInt8(z.g.Nodes[id].In[0])
}
