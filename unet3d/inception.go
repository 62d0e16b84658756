package unet3d

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// Inception is the inception ResNet of stage U, for a single level. There are two different public
// descriptions of it, the code and a figure. It is not known which one gave the published scores.
type Inception struct {
	// Figure selects the network of the paper's figure; false selects that of the code.
	//
	//	                               code                    figure
	//	first layer of the members     1×1                     3×3
	//	widths of the ten blocks       64, 68 … 100            68, 72 … 104
	//	skip into each block           spreads and members     the first layer
	//	skip into the last layers      the first layer         the members
	//	spreads in the last layer      the one at Target       all
	Figure   bool
	Target   int  // index of the spread that the last layer of the code corrects
	Width    int  // channels of the first layer, a multiple of 16; 0 means 64
	Periodic bool // longitudes are periodic in convolutions
}

// inceptionBlocks is the number of blocks. Each is wider than the one before by 1/16 of the width.
const inceptionBlocks = 10

// inceptionStep is the number by which the width must be divisible.
const inceptionStep = 16

// Build extends the graph by the network. spreads are those of the input members, members the
// fields of the first member. Each block applies filters of 3×3, 5×5 and 7×7, concatenates their
// results after batch normalisation and ReLU with its input, and reduces the channels by a linear
// 1×1 layer. As published, filters are initialised with a standard deviation of 1e-5, so that
// initially the last layer sees the spreads only.
//
// Shape: spreads [N S 1 H W], members [N M 1 H W] → [N 1 1 H W]. Filters are stored as [out in k
// k].
// Errors: in the builder: ErrShape for more than one level, a width that is not a multiple of 16,
// or Target outside the spreads.
// Source: RESNET2D.py of spcl/deep-weather; Grönquist et al. 2021, doi:10.1098/rsta.2020.0092, its
// figure.
func (r Inception) Build(b *graph.Builder, spreads, members graph.Value) graph.Value {
	if r.Width == 0 {
		r.Width = 64
	}
	grow := r.Width / inceptionStep
	if spreads.Dim(2) != 1 || r.Target < 0 || r.Target >= spreads.Dim(1) || grow < 1 || r.Width%inceptionStep != 0 {
		return b.Fail("inception", fmt.Errorf("spreads %v (want one level), target channel %d, width %d (want a multiple of 16): %w",
			spreads.Shape(), r.Target, r.Width, graph.ErrShape))
	}
	size, begin := 1, r.Width
	if r.Figure {
		size, begin = 3, r.Width+grow
	}
	in := op.Concat(b, 1, spreads, r.layer(b, "members", members, 3, size))
	first := r.layer(b, "first", in, r.Width, 3)
	skip := in
	if r.Figure {
		skip = first
	}
	h := first
	for i := range inceptionBlocks {
		h = r.block(b, fmt.Sprintf("inc%d", i+1), op.Concat(b, 1, h, skip), begin+grow*i)
	}
	if r.Figure {
		h = op.Concat(b, 1, h, members)
	} else {
		h = op.Concat(b, 1, first, h)
		spreads = op.Slice(b, spreads, 1, r.Target, r.Target+1)
	}
	h = r.conv(b, "last1", r.layer(b, "last0", h, 8, 3), 4, 1)
	return r.conv(b, "last2", op.Concat(b, 1, h, spreads), 1, 1)
}

// block is an inception block with width output channels.
func (r Inception) block(b *graph.Builder, name string, x graph.Value, width int) graph.Value {
	wide := op.Concat(b, 1,
		r.conv(b, name+".conv3", x, width, 3),
		r.conv(b, name+".conv5", x, width, 5),
		r.conv(b, name+".conv7", x, width, 7))
	return r.conv(b, name+".conv1", op.Concat(b, 1, op.ReLU(b, r.norm(b, name, wide)), x), width, 1)
}

// layer is a k×k convolution with batch normalisation and ReLU.
func (r Inception) layer(b *graph.Builder, name string, x graph.Value, out, k int) graph.Value {
	return op.ReLU(b, r.norm(b, name, r.conv(b, name+".conv", x, out, k)))
}

// norm is batch normalisation with the constants of the published code.
func (r Inception) norm(b *graph.Builder, name string, x graph.Value) graph.Value {
	return batchNormOptions(b, name+".bnr", x, op.BatchNormOptions{Eps: 1e-3, Momentum: 0.01})
}

// conv is a k×k convolution with bias on the same grid. The last layer, which reads the spreads, is
// initialised as PyTorch does.
func (r Inception) conv(b *graph.Builder, name string, x graph.Value, out, k int) graph.Value {
	const std = 1e-5
	start := graph.Normal(std)
	if name == "last2" {
		start = graph.KaimingUniform(x.Dim(1))
	}
	return conv2D(b, name, x, out, k, start, r.Periodic)
}

// InceptionKind describes the network of stage U by its code, InceptionFigureKind by the figure of
// its paper.
var (
	InceptionKind       = inceptionKind("inception", "inception ResNet of the three-stage method, one spread field on one level, as in the published code", false)
	InceptionFigureKind = inceptionKind("inception_figure", "as inception, but as in the figure of the paper", true)
)

// inceptionKind describes one of the two variants.
func inceptionKind(name, doc string, figure bool) *Kind {
	return &Kind{
		Name: name, Doc: doc + " (model.base 64 as published)",
		SingleField: true, BaseMultiple: inceptionStep, BaseReason: "each block of " + name + " is wider by 1/16 of model.base", RequiredStatistics: []string{"spread", "first"},
		Build: func(b *graph.Builder, x graph.Value, l Layout) graph.Value {
			net := Inception{Figure: figure, Width: l.Base, Target: l.Spread.Target, Periodic: l.Periodic}
			return net.Build(b, sliceChannels(b, x, l.Spread.Spreads), sliceChannels(b, x, l.Spread.Members))
		},
	}
}
