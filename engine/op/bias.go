package op

import "github.com/ensemble-weather/ensemble/engine/graph"

// bias adds one value per channel. It is an operation of its own, not a
// broadcast sum, so that passes can fuse it into the convolution.
var bias = Define(Spec[none]{
	Name:   "bias",
	Doc:    "x + bias per channel: x [N C …], bias [C].",
	Source: "elementary; torch.nn.Conv3d",
	Shape: func(in []Shape, _ none) (Shape, error) {
		if len(in) != 2 || len(in[0]) < 2 || len(in[1]) != 1 || in[0][1] != in[1][0] {
			return nil, shapeError("operands %v, want x [N C …] and bias [C]", in)
		}
		return in[0].Clone(), nil
	},
	Grad: func(b *Builder, in []Value, _, dy Value, _ none) []Value {
		return []Value{dy, ChannelSum(b, dy)}
	},
	InPlace: inPlace[none](0),
	Fuses:   graph.FuseBias,
	TieChannels: func(t graph.ChannelConstraints, in []Shape, out Shape, a none) {
		tieAllAxes(t, in, out, a)
		t.TieAxes(1, 0, graph.Result, 1)
	},
	Ref: func(c Call, _ none) {
		eachChannel(c.OutShape, func(ch, lo, hi int) {
			for i := lo; i < hi; i++ {
				c.Out[i] = c.In[0][i] + c.In[1][ch]
			}
		})
	},
	Cases: []Case[none]{{Name: "5-D", In: []Shape{{2, 3, 5, 6, 7}, {3}}}, {Name: "2-D", In: []Shape{{4, 3}, {3}}}},
})

// Bias adds one value per channel:
//
//	y[n,c,…] = x[n,c,…] + perChannel[c]
//
// Shape: x [N C …], perChannel [C] → that of x.
// Gradient: dy to x; its sum over all axes but the channels to perChannel.
// Errors: ErrShape.
// Source: torch.nn.Conv3d.
func Bias(b *Builder, x, perChannel Value) Value { return bias.add(b, none{}, x, perChannel) }

// channelSum is the gradient of bias.
var channelSum = Define(Spec[none]{
	Name:   "channel_sum",
	Doc:    "Sum over all axes but the channels: x [N C …] → [C].",
	Source: "elementary",
	NoGrad: noSecondOrder,
	Shape: func(in []Shape, _ none) (Shape, error) {
		if len(in) != 1 || len(in[0]) < 2 {
			return nil, shapeError("operands %v, want x [N C …]", in)
		}
		return Shape{in[0][1]}, nil
	},
	Window: func(in []Shape, _ none) Window { return Window{FullAxes: allBut(in[0], 1), Additive: true} },
	Class:  graph.Normalisation,
	FLOPs:  func(in []Shape, _ Shape, _ none) int64 { return int64(in[0].Size()) },
	Ref: func(c Call, _ none) {
		clear(c.Out)
		eachChannel(c.InShape[0], func(ch, lo, hi int) {
			for _, v := range c.In[0][lo:hi] {
				c.Out[ch] += v
			}
		})
	},
	Cases: []Case[none]{{Name: "5-D", In: []Shape{{2, 3, 5, 6, 7}}}, {Name: "2-D", In: []Shape{{4, 3}}}},
})

// ChannelSum sums over all axes but the channels.
//
// Shape: x [N C …] → [C]. Gradient: none; it occurs only in gradients. Errors:
// ErrShape.
func ChannelSum(b *Builder, x Value) Value { return channelSum.add(b, none{}, x) }

// eachChannel calls visit for the contiguous elements lo ≤ i < hi of each
// channel of each batch item.
func eachChannel(s Shape, visit func(ch, lo, hi int)) {
	run := s[2:].Size()
	for i := range s[0] * s[1] {
		visit(i%s[1], i*run, (i+1)*run)
	}
}

// allBut lists the axes of s except one; −1 excludes none.
func allBut(s Shape, axis int) []int {
	var out []int
	for i := range s {
		if i != axis {
			out = append(out, i)
		}
	}
	return out
}
