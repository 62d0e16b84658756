package unet3d

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// AttentionWeights says where the rows of a set have weights for each other.
type AttentionWeights string

// The weights. With axial ones the results of both ways, with the weights of each row and with those of
// each column, add up.
const (
	GlobalWeights AttentionWeights = ""      // one matrix for each head
	AxialWeights  AttentionWeights = "axial" // one for each row, and one for each column
	PointWeights  AttentionWeights = "point" // one at each point
)

// NormKind says what stands before projections, a standardisation of each row over all channels
// and points, and with which factors and offsets.
type NormKind string

// The norms. That of cells is the published one; it ties a network to one grid.
const (
	ChannelNorm NormKind = ""     // one factor and offset for each channel
	PointNorm   NormKind = "cell" // for each channel and point
	NoNorm      NormKind = "none"
)

// Attention is a block in which the rows of each set (members of an ensemble, leads of a trajectory) attend to
// each other:
//
//	n = norm(z)
//	v = conv1×1(n),  k, q = ReLU(conv s×s, stride s (n))        to the channels of the heads, without bias
//	w[h,i,j] = softmax over i of Σ k_i·q_j / √(number of products)
//	o_j = v_j + Σ_i w[h,i,j] (v_i − mean of v)
//	z' = ReLU(z + conv1×1(o))                                   its filter is zero at first
//
// The blocks of the published networks are those with one channel for each head. Axial weights
// add z twice, and the last layer to both results, as published.
//
// Rows in another order come out so, to rounding, unless Places is set: then each row of a set has
// numbers of its own, which are added to n.
//
// Source: Finn 2021, arXiv:2106.13924; Ben Bouallègue et al. 2024, arXiv:2303.17195; with leads for
// rows, Roberts 2026, arXiv:2602.15830.
type Attention struct {
	SetSize    int // rows of a set
	Heads      int // 0 means 8
	Width      int // channels of values, keys and queries; 0 means one for each head
	Stride     int // of keys and queries; 0 means 1
	Weights    AttentionWeights
	Norm       NormKind
	Positional bool
}

// Build extends the graph by the block. Parameters are name.norm, name.places, name.value, name.key,
// name.query and name.out, filters as PyTorch's Conv2d has them.
//
// Shape: z [N·Set C D H W] → the same. Levels have the same weights.
// Errors: in the builder: ErrShape for rows that do not divide, unknown options, and a grid smaller
// than the stride.
func (a Attention) Build(b *graph.Builder, name string, z graph.Value) graph.Value {
	if a.Heads == 0 {
		a.Heads = 8
	}
	if a.Width == 0 {
		a.Width = a.Heads
	}
	a.Stride = max(a.Stride, 1)
	if a.SetSize < 1 || z.Dim(0)%a.SetSize != 0 || a.Width%a.Heads != 0 {
		return b.Fail(name, fmt.Errorf("sets of %d in %v, %d heads, width %d: %w", a.SetSize, z.Shape(), a.Heads, a.Width, graph.ErrShape))
	}
	n := a.norm(b, name, z)
	if a.Positional {
		n = addPositions(b, name+".places", n, a.SetSize)
	}
	v := stridedConv(b, name+".value", n, a.Width, 1, graph.KaimingUniform(z.Dim(1)))
	key := func(name string) graph.Value {
		return op.ReLU(b, stridedConv(b, name, n, a.Width, a.Stride, graph.KaimingUniform(z.Dim(1)*a.Stride*a.Stride)))
	}
	k, q := key(name+".key"), key(name+".query")
	out := b.Param(name+".out.weight", graph.Shape{z.Dim(1), a.Width, 1, 1}, graph.Zeros())
	shift := b.Param(name+".out.bias", graph.Shape{z.Dim(1)}, graph.Zeros())
	weights, ok := map[AttentionWeights][][3]int{
		GlobalWeights: {{}}, AxialWeights: {{1, op.PerPoint, 1}, {1, 1, op.PerPoint}}, PointWeights: {{op.PerPoint, op.PerPoint, op.PerPoint}},
	}[a.Weights]
	if !ok {
		return b.Fail(name, fmt.Errorf("weights %q: %w", a.Weights, graph.ErrShape))
	}
	var sum graph.Value
	for i, cells := range weights {
		w := op.Attention{Set: a.SetSize, Heads: a.Heads, Cells: cells}
		o := op.Attend(b, v, w, op.SetAttention(b, k, q, w))
		y := op.Bias(b, op.Conv3D(b, o, op.Reshape(b, out, graph.Shape{z.Dim(1), a.Width, 1, 1, 1}), op.Conv{}), shift)
		y = op.Add(b, y, z)
		if i == 0 {
			sum = y
		} else {
			sum = op.Add(b, sum, y)
		}
	}
	return op.ReLU(b, sum)
}

// norm standardises rows.
func (a Attention) norm(b *graph.Builder, name string, z graph.Value) graph.Value {
	shape := graph.Shape{1, z.Dim(1), 1, 1, 1}
	switch a.Norm {
	case NoNorm:
		return z
	case PointNorm:
		shape = graph.Shape{1, z.Dim(1), z.Dim(2), z.Dim(3), z.Dim(4)}
	case ChannelNorm:
	default:
		return b.Fail(name, fmt.Errorf("norm %q: %w", a.Norm, graph.ErrShape))
	}
	return op.LayerNorm(b, z, b.Param(name+".norm.weight", shape, graph.Ones()), b.Param(name+".norm.bias", shape, graph.Zeros()), 0)
}

// addPositions adds learned numbers of the place in its set to each row, one for each channel.
func addPositions(b *graph.Builder, name string, x graph.Value, size int) graph.Value {
	s := x.Shape()
	if !x.Valid() {
		return x
	}
	places := b.Param(name, graph.Shape{1, size * s[1], 1, 1, 1}, graph.Zeros())
	side := op.Reshape(b, x, graph.Shape{s[0] / size, size * s[1], s[2], s[3], s[4]})
	return op.Reshape(b, op.Add(b, side, places), s)
}

// stridedConv is a k×k convolution of stride k, without bias.
func stridedConv(b *graph.Builder, name string, x graph.Value, out, k int, start graph.Init) graph.Value {
	in := x.Dim(1)
	w := b.Param(name+".weight", graph.Shape{out, in, k, k}, start)
	return op.Conv3D(b, x, op.Reshape(b, w, graph.Shape{out, in, 1, k, k}), op.Conv{Stride: [3]int{1, k, k}})
}
