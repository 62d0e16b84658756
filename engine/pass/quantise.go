package pass

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// quantise has the convolutions of a prediction for which there are scales (Unit.Int8) read
// codes of eight bits and multiply these. Their results are stored as codes where all that
// read them read the same ones, perhaps through poolings and upsamplings, which then work on
// codes; other sources become codes where they are read.
//
// Errors: exit.Usage for a training, for names that no convolution has, and for scales that
// do not fit their convolution.
//
// Source: Jacob et al. 2018, arXiv:1712.05877.
func quantise(u *Unit) error {
	if len(u.Int8) == 0 {
		return nil
	}
	if !u.Infer {
		return &exit.Error{Code: exit.Usage, What: "a training cannot compute in int8", Why: "its operations on codes have no gradients",
			Fix: "train in float32 and quantise afterwards"}
	}
	z := &quantiser{g: u.Graph, scales: map[int]*op.Int8Scales{}, formats: map[int][]readFormat{}, built: map[int]graph.Value{}, cache: map[string]graph.Value{}}
	if err := z.find(u); err != nil {
		return err
	}
	g, err := u.Graph.Rewrite(nil, z.rewrite)
	if err != nil {
		return err
	}
	for _, id := range z.int8Values {
		if g.Nodes[id].Layout == graph.Blocked {
			g.Nodes[id].DType = graph.UInt8
		}
	}
	g.Notes = append(g.Notes, fmt.Sprintf("%d convolutions multiply in int8, %d values are stored as codes", len(z.scales), len(z.int8Values)))
	u.Graph = g
	return nil
}

// quantiser holds what the rules look at, by nodes of the old graph.
type quantiser struct {
	g          *graph.Graph
	scales     map[int]*op.Int8Scales // of convolutions of codes; Out where the result is codes
	formats    map[int][]readFormat   // who reads a value
	built      map[int]graph.Value    // values in the new graph
	cache      map[string]graph.Value // codes in it, by value and scales
	int8Values []int                  // which of its values are codes
}

// readFormat is what a reader wants of a value: codes by scales, or the value itself.
type readFormat struct {
	scales []float32
	zero   int
}

func (d readFormat) same(e readFormat) bool {
	return d.zero == e.zero && slices.Equal(d.scales, e.scales)
}

// text tells demands of one value apart.
func (d readFormat) text(id int) string {
	return fmt.Sprint(id, d.zero, &op.Int8Scales{Channels: d.scales})
}

// keeps tells whether codes of the operand of node n are codes of n by the same scales.
func preservesScale(n *graph.Node) bool {
	return n.Kind == graph.KindOp && n.Op.PreservesScale != nil && n.Op.PreservesScale(n.Attrs)
}

// int8Scales are the scales that a convolution has, and its filter.
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

// int8Ways are those of the ways of an operation in which it reads codes, if it has scales:
// what multiplies codes must not depend on what is fastest without.
func (u *Unit) int8Ways(n *graph.Node, ways []backend.LayoutOption) []backend.LayoutOption {
	if _, q := u.int8Scales(n); q == nil {
		return ways
	}
	plain := func(w backend.LayoutOption) bool {
		return w.Out == graph.Plain || slices.Contains(w.In[:len(n.In)-2], graph.Plain)
	}
	if !slices.ContainsFunc(ways, func(w backend.LayoutOption) bool { return !plain(w) }) {
		return ways
	}
	return slices.DeleteFunc(ways, plain)
}

// find chooses the convolutions that read codes, and which of them write codes.
func (z *quantiser) find(u *Unit) error {
	used := map[string]bool{}
	for _, n := range z.g.Nodes {
		filter, q := u.int8Scales(n)
		if q == nil {
			continue
		}
		used[filter.Name] = true
		parts := n.In[:len(n.In)-2]
		if u.Layouts != nil && (n.Layout != graph.Blocked || slices.ContainsFunc(parts, func(id int) bool { return z.g.Nodes[id].Layout != graph.Blocked })) {
			continue // kernels of codes are those of blocked fields
		}
		own := *q
		own.OutScales = nil
		a := n.Attrs.(op.FusedConv)
		if _, err := op.Find("conv3d_int8").Shape(z.g.InShapes(n), op.Int8Conv{FusedConv: a, Scales: &own}); err != nil {
			return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("the scales of %s do not fit its convolution", filter.Name), At: n.At, Why: err.Error(),
				Fix: "quantise the model again, or predict on as many levels as it was quantised for", Err: err}
		}
		z.scales[n.ID] = &own
	}
	for name := range u.Int8 {
		if !used[name] {
			return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("there are int8 scales for %s", name), Why: "the network has no convolution with bias of this filter",
				Fix: "quantise the model again"}
		}
	}
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
		if ds := z.formats[i]; q != nil && n.Attrs.(op.FusedConv).ReLU && len(ds) > 0 && ds[0].scales != nil && ds[0].zero == 0 &&
			n.Layout == z.g.Nodes[n.In[0]].Layout && !slices.ContainsFunc(ds, func(d readFormat) bool { return !d.same(ds[0]) }) {
			q.OutScales = ds[0].scales
		}
	}
	return nil
}

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
	a := n.Attrs.(op.FusedConv)
	a.Mask = ""
	v := op.ConvInt8(b, in[:len(q.ZeroPoints)], in[len(q.ZeroPoints)], in[len(q.ZeroPoints)+1], op.Int8Conv{FusedConv: a, Scales: q})
	v.SetLayout(n.Layout)
	if q.OutScales != nil {
		z.cache[readFormat{q.OutScales, 0}.text(n.ID)] = v
		z.int8Values = append(z.int8Values, v.ID())
	}
	return v
}

// quantised are the codes of an old value as a reader wants them. What pools and upsamples a
// value that is codes, or is only read as such, does so with the codes.
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
		v = op.Quantise(b, z.built[id], d.scales, d.zero)
	}
	v.SetLayout(n.Layout)
	z.cache[key] = v
	z.int8Values = append(z.int8Values, v.ID())
	return v
}

// isInt8 tells whether an old value becomes codes: the result of a convolution, or what
// pools or upsamples one.
func (z *quantiser) isInt8(id int) bool {
	if q := z.scales[id]; q != nil {
		return q.OutScales != nil
	}
	return preservesScale(z.g.Nodes[id]) && z.isInt8(z.g.Nodes[id].In[0])
}
