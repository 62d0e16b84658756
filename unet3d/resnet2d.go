package unet3d

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// ResNet2D is resnet2d_simple, the inception network of the published PyTorch code. Despite its
// name it has no residual connections. It works on a single level.
type ResNet2D struct {
	// Widths are the channels of the layers convBR0 and convBR1 and of the inception blocks 1, 2
	// and 3; blocks 4, 5 and 6 mirror these. Empty means 64, 96, 128, 160, 224. 4 must divide the
	// last three.
	Widths []int
	// Reinject is the input channel that is concatenated again before the first block and before
	// the last layer: the forecast's own spread at the target lead.
	Reinject int
	Periodic bool // longitudes are periodic in convolutions
}

// PublishedReinject is the channel that the published network re-injects: the temperature spread at
// +48 h, among 42 channels.
const PublishedReinject = 28

// Build extends the graph by the network.
//
// Shape: x [N C 1 H W] → [N 1 1 H W]. Filters are stored as [out in k k], as PyTorch's Conv2d has
// them.
// Errors: in the builder: ErrShape for more than one level, a channel Reinject that does not exist,
// or widths that are not divisible by 4.
// Source: resnet2d_simple of spcl/deep-weather (Grönquist et al. 2021, doi:10.1098/rsta.2020.0092).
func (r ResNet2D) Build(b *graph.Builder, x graph.Value) graph.Value {
	w := r.Widths
	if len(w) == 0 {
		w = []int{64, 96, 128, 160, 224}
	}
	if len(w) != 5 || x.Dim(2) != 1 || r.Reinject < 0 || r.Reinject >= x.Dim(1) {
		return b.Fail("resnet2d_simple", fmt.Errorf("widths %v (want five), input %v (want one level), re-injected channel %d: %w",
			w, x.Shape(), r.Reinject, graph.ErrShape))
	}
	own := op.Slice(b, x, 1, r.Reinject, r.Reinject+1)
	h := r.convBatchReLU(b, "convBR0", x, w[0])
	h = r.convBatchReLU(b, "convBR1", h, w[1])
	h = op.Concat(b, 1, own, h)
	for i, width := range []int{w[2], w[3], w[4], w[4], w[3], w[2]} {
		h = r.inception(b, fmt.Sprintf("inc%d", i+1), h, width)
	}
	return r.conv(b, "conv4", op.Concat(b, 1, own, h), 1, 1)
}

// convBatchReLU is a 3×3 convolution, batch normalisation and ReLU.
func (r ResNet2D) convBatchReLU(b *graph.Builder, name string, x graph.Value, out int) graph.Value {
	return op.ReLU(b, batchNorm(b, name+".bnr", r.conv(b, name+".conv", x, out, 3)))
}

// inception is cat(ReLU(BN(cat(3×3, 5×5, 7×7))), 1×1), each branch with a quarter of the output
// channels.
func (r ResNet2D) inception(b *graph.Builder, name string, x graph.Value, out int) graph.Value {
	if out%4 != 0 {
		return b.Fail(name, fmt.Errorf("width %d, want a multiple of 4: %w", out, graph.ErrShape))
	}
	wide := op.Concat(b, 1,
		r.conv(b, name+".conv3", x, out/4, 3),
		r.conv(b, name+".conv5", x, out/4, 5),
		r.conv(b, name+".conv7", x, out/4, 7))
	return op.Concat(b, 1, op.ReLU(b, batchNorm(b, name+".bnr", wide)), r.conv(b, name+".conv1", x, out/4, 1))
}

// conv is a k×k convolution with bias on the same grid.
func (r ResNet2D) conv(b *graph.Builder, name string, x graph.Value, out, k int) graph.Value {
	return conv2D(b, name, x, out, k, graph.KaimingUniform(x.Dim(1)*k*k), r.Periodic)
}

// conv2D is a k×k convolution with bias on the same grid. Its filter has the shape of PyTorch's
// Conv2d.
//
// Shape: x [N C D H W] → [N out D H W]; filter [out C k k]; levels share it.
func conv2D(b *graph.Builder, name string, x graph.Value, out, k int, start graph.Init, periodic bool) graph.Value {
	in := x.Dim(1)
	w := b.Param(name+".weight", graph.Shape{out, in, k, k}, start)
	bias := b.ParamOf(graph.Bias, name+".bias", graph.Shape{out}, graph.Zeros())
	pad := op.Same(1, k, k)
	if periodic {
		pad = op.SameGlobal(1, k, k)
	}
	return op.Bias(b, op.Conv3D(b, x, op.Reshape(b, w, graph.Shape{out, in, 1, k, k}), op.Conv{Pad: pad}), bias)
}

// batchNorm is batch normalisation with the names and defaults of PyTorch.
func batchNorm(b *graph.Builder, name string, x graph.Value) graph.Value {
	return batchNormOptions(b, name, x, op.BatchNormOptions{})
}

// batchNormOptions is batch normalisation with the names of PyTorch.
func batchNormOptions(b *graph.Builder, name string, x graph.Value, o op.BatchNormOptions) graph.Value {
	c := graph.Shape{x.Dim(1)}
	return op.BatchNorm(b, x,
		b.ParamOf(graph.Scale, name+".weight", c, graph.Ones()), b.ParamOf(graph.Bias, name+".bias", c, graph.Zeros()),
		b.State(name+".running_mean", c, graph.Zeros()), b.State(name+".running_var", c, graph.Ones()), o)
}

// ResNetKind describes ResNet2D.
var ResNetKind = &Kind{
	Name: "resnet2d_simple", Doc: "published 2-D network for one spread field on one level",
	SingleField: true,
	Build: func(b *graph.Builder, x graph.Value, l Layout) graph.Value {
		return ResNet2D{Periodic: l.Periodic, Reinject: l.Spread.targetChannel()}.Build(b, x)
	},
}
