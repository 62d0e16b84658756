package unet3d

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// AttentionWeights selects the points over which the products of keys and queries are summed, and
// thereby how many weight matrices there are.
type AttentionWeights string

// The weights. With AxialWeights the result is the sum of two attentions, with a matrix for each
// row and with one for each column of the grid.
const (
	GlobalWeights AttentionWeights = ""      // one matrix for each head
	AxialWeights  AttentionWeights = "axial" // one for each latitude, and one for each longitude
	PointWeights  AttentionWeights = "point" // one at each grid point
)

// NormKind selects the layer normalisation before the projections. It standardises each row of
// the batch over all channels and points; the variants differ in their trained factors and offsets.
type NormKind string

// The norms. PointNorm is the published one; it ties a network to one grid.
const (
	ChannelNorm NormKind = ""     // one factor and offset for each channel
	PointNorm   NormKind = "cell" // one for each channel and grid point
	NoNorm      NormKind = "none" // no normalisation
)

// Attention is a self-attention block over sets of rows, such as the members of an ensemble or the
// leads of a trajectory:
//
//	n = norm(z)
//	v = conv1×1(n),  k, q = ReLU(conv s×s, stride s (n))        to the channels of the heads, without bias
//	w[h,i,j] = softmax over i of Σ k_i·q_j / √(number of products)
//	o_j = v_j + Σ_i w[h,i,j] (v_i − mean of v)
//	z' = ReLU(z + conv1×1(o))                                   its filter is initialised with 0
//
// Published blocks have one channel per head. With AxialWeights z and the last layer enter the sum
// twice, as published.
//
// The block is equivariant under permutation of the rows of a set, up to rounding, unless
// Positional is set.
//
// Source: Finn 2021, arXiv:2106.13924; Ben Bouallègue et al. 2024, arXiv:2303.17195; with leads as
// rows, Roberts 2026, arXiv:2602.15830.
type Attention struct {
	SetSize    int // number of rows of a set, M or T
	Heads      int // 0 means 8
	Width      int // channels of values, keys and queries together; 0 means one per head
	Stride     int // of the convolutions of keys and queries; 0 means 1
	Weights    AttentionWeights
	Norm       NormKind
	Positional bool // adds a trained embedding of the row's position in its set to n
}

// Build extends the graph by the block. Its parameters are name.norm, name.places, name.value,
// name.key, name.query and name.out. Filters have the shape of PyTorch's Conv2d; levels share them.
//
// Shape: z [N·SetSize C D H W] → the same.
// Errors: in the builder: ErrShape if SetSize does not divide the rows or Heads the width, for
// unknown options, and for a grid smaller than the stride.
func (a Attention) Build(b *graph.Builder, name string, z graph.Value) graph.Value {
	if a.Heads == 0 {
		a.Heads = 8
	}
	if a.Width == 0 {
		a.Width = a.Heads
	}
	a.Stride = max(a.Stride, 1)
	if a.SetSize < 1 || z.Dim(0)%a.SetSize != 0 || a.Width%a.Heads != 0 {
		return b.Fail(name, fmt.Errorf("input %v, sets of %d rows, %d heads, width %d: %w", z.Shape(), a.SetSize, a.Heads, a.Width, graph.ErrShape))
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
	shift := b.ParamOf(graph.Bias, name+".out.bias", graph.Shape{z.Dim(1)}, graph.Zeros())
	weights, ok := map[AttentionWeights][][3]int{
		GlobalWeights: {{}}, AxialWeights: {{1, op.PerPoint, 1}, {1, 1, op.PerPoint}}, PointWeights: {{op.PerPoint, op.PerPoint, op.PerPoint}},
	}[a.Weights]
	if !ok {
		return b.Fail(name, fmt.Errorf("unknown weights %q: %w", a.Weights, graph.ErrShape))
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

// norm is the layer normalisation before the projections.
//
// Source: Ba et al. 2016, arXiv:1607.06450.
func (a Attention) norm(b *graph.Builder, name string, z graph.Value) graph.Value {
	shape := graph.Shape{1, z.Dim(1), 1, 1, 1}
	switch a.Norm {
	case NoNorm:
		return z
	case PointNorm:
		shape = graph.Shape{1, z.Dim(1), z.Dim(2), z.Dim(3), z.Dim(4)}
	case ChannelNorm:
	default:
		return b.Fail(name, fmt.Errorf("unknown norm %q: %w", a.Norm, graph.ErrShape))
	}
	return op.LayerNorm(b, z, b.ParamOf(graph.Scale, name+".norm.weight", shape, graph.Ones()), b.ParamOf(graph.Bias, name+".norm.bias", shape, graph.Zeros()), 0)
}

// addPositions adds a trained embedding of the position in the set to each row, one number per
// channel.
//
// Shape: x [N·size C D H W] → the same; parameter [1 size·C 1 1 1].
func addPositions(b *graph.Builder, name string, x graph.Value, size int) graph.Value {
	s := x.Shape()
	if !x.Valid() {
		return x
	}
	places := b.ParamOf(graph.Embedding, name, graph.Shape{1, size * s[1], 1, 1, 1}, graph.Zeros())
	side := op.Reshape(b, x, graph.Shape{s[0] / size, size * s[1], s[2], s[3], s[4]})
	return op.Reshape(b, op.Add(b, side, places), s)
}

// stridedConv is a k×k convolution with stride k, without bias.
func stridedConv(b *graph.Builder, name string, x graph.Value, out, k int, start graph.Init) graph.Value {
	in := x.Dim(1)
	w := b.Param(name+".weight", graph.Shape{out, in, k, k}, start)
	return op.Conv3D(b, x, op.Reshape(b, w, graph.Shape{out, in, 1, k, k}), op.Conv{Stride: [3]int{1, k, k}})
}
