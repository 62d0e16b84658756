package unet3d

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// Inception describes the inception ResNet of stage U, which works on one level. Two
// descriptions of it are public and differ; which of them gave the published scores is not
// known.
type Inception struct {
	// Figure builds the network as the paper draws it; else it is that of the code.
	//
	//	                               code                    figure
	//	first layer of the members     1×1                     3×3
	//	widths of the ten blocks       64, 68 … 100            68, 72 … 104
	//	joined again in each block     spreads and members     the first layer
	//	joined before the end          the first layer         the members
	//	spreads in the last layer      the one at Own          all
	Figure   bool
	Target   int  // channel of the spreads that the last layer of the code corrects
	Width    int  // channels of the first layer, a multiple of 16; 0 means 64
	Periodic bool // longitudes wrap around in convolutions
}

// inceptionBlocks is how many blocks follow each other, each 1/16 of the width wider.
const inceptionBlocks = 10

// inceptionStep is what widths are a multiple of.
const inceptionStep = 16

// Build extends the graph by the network, from spreads of the used members and fields of the first
// one. Each block reads its operand by filters of 3×3, 5×5 and 7×7, joins their result after
// batch norm and ReLU with the operand, and reduces it by a linear 1×1 layer. Filters start as the
// published ones with a standard deviation of 1e-5, so that the last layer begins with
// the spreads alone.
//
// Shape: spreads [N S 1 H W], members [N M 1 H W] → [N 1 1 H W]. Filters are stored as [out in k k].
// Errors: in the builder: ErrShape for more than one level, or a channel Own that does not exist.
// Source: RESNET2D.py of spcl/deep-weather; Grönquist et al. 2021, doi:10.1098/rsta.2020.0092, its figure.
func (r Inception) Build(b *graph.Builder, spreads, members graph.Value) graph.Value {
	if r.Width == 0 {
		r.Width = 64
	}
	grow := r.Width / inceptionStep
	if spreads.Dim(2) != 1 || r.Target < 0 || r.Target >= spreads.Dim(1) || grow < 1 || r.Width%inceptionStep != 0 {
		return b.Fail("inception", fmt.Errorf("spreads %v (one level), channel %d of them, width %d (a multiple of 16): %w",
			spreads.Shape(), r.Target, r.Width, graph.ErrShape))
	}
	size, begin := 1, r.Width
	if r.Figure {
		size, begin = 3, r.Width+grow
	}
	in := op.Concat(b, 1, spreads, r.layer(b, "members", members, 3, size))
	first := r.layer(b, "first", in, r.Width, 3)
	again := in
	if r.Figure {
		again = first
	}
	h := first
	for i := range inceptionBlocks {
		h = r.block(b, fmt.Sprintf("inc%d", i+1), op.Concat(b, 1, h, again), begin+grow*i)
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

// block is one inception block of a width.
func (r Inception) block(b *graph.Builder, name string, x graph.Value, width int) graph.Value {
	wide := op.Concat(b, 1,
		r.conv(b, name+".conv3", x, width, 3),
		r.conv(b, name+".conv5", x, width, 5),
		r.conv(b, name+".conv7", x, width, 7))
	return r.conv(b, name+".conv1", op.Concat(b, 1, op.ReLU(b, r.norm(b, name, wide)), x), width, 1)
}

// layer is a k×k convolution with batch norm and ReLU.
func (r Inception) layer(b *graph.Builder, name string, x graph.Value, out, k int) graph.Value {
	return op.ReLU(b, r.norm(b, name, r.conv(b, name+".conv", x, out, k)))
}

// norm is batch normalisation with the constants of the published code.
func (r Inception) norm(b *graph.Builder, name string, x graph.Value) graph.Value {
	return batchNormOptions(b, name+".bnr", x, op.BatchNormOptions{Eps: 1e-3, Momentum: 0.01})
}

// conv is a k×k convolution with bias that keeps the grid. The last one, of the spreads,
// starts as PyTorch's.
func (r Inception) conv(b *graph.Builder, name string, x graph.Value, out, k int) graph.Value {
	const std = 1e-5
	start := graph.Normal(std)
	if name == "last2" {
		start = graph.KaimingUniform(x.Dim(1))
	}
	return conv2D(b, name, x, out, k, start, r.Periodic)
}

// InceptionKind is the network of stage U by its code, InceptionFigureKind by the figure of its paper.
var (
	InceptionKind       = inceptionKind("inception", "the inception ResNet of the three-stage method, of one spread field on one level, by its code", false)
	InceptionFigureKind = inceptionKind("inception_figure", "the same by the figure of its paper, which differs", true)
)

func inceptionKind(name, doc string, figure bool) *Kind {
	return &Kind{
		Name: name, Doc: doc + " (model.base 64 as published)",
		SingleField: true, BaseMultiple: inceptionStep, BaseReason: "each block of " + name + " is wider by a sixteenth of it", RequiredStatistics: []string{"spread", "first"},
		Build: func(b *graph.Builder, x graph.Value, l Layout) graph.Value {
			net := Inception{Figure: figure, Width: l.Base, Target: l.Spread.Target, Periodic: l.Periodic}
			return net.Build(b, sliceChannels(b, x, l.Spread.Spreads), sliceChannels(b, x, l.Spread.Members))
		},
	}
}
