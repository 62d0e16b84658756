package unet3d

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// Body builds a network from features [N C D H W] to out output channels [N out D H W]. The last
// layer is initialised with 0.
type Body func(b *graph.Builder, x graph.Value, out int) graph.Value

// DRN (distributional regression network) has one hidden layer over the channels of each point, and
// no access to neighbouring points. With an Embedding it is the network of Rasp and Lerch. Without,
// it is the MLP of ENS-10 (128 hidden units; mean and spread of each field and three coordinates as
// input).
//
// Source: Rasp and Lerch 2018, doi:10.1175/MWR-D-18-0187.1; Ashkboos et al. 2022, arXiv:2206.14786.
type DRN struct {
	Hidden int // hidden units; 0 means 128
}

// Build extends the graph by the network. Its layers are hidden and out; filters are stored as [out
// in], as PyTorch's Linear has them.
//
// Shape: x [N C D H W] → [N out D H W].
func (d DRN) Build(b *graph.Builder, x graph.Value, out int) graph.Value {
	d = d.withDefaults()
	h := op.ReLU(b, linear(b, "hidden", x, d.Hidden, graph.KaimingUniform(x.Dim(1))))
	return linear(b, "out", h, out, graph.Zeros())
}

// withDefaults sets the default width.
func (d DRN) withDefaults() DRN {
	if d.Hidden == 0 {
		d.Hidden = 128
	}
	return d
}

// Parameters is the number of trained values.
func (d DRN) Parameters(channels, out int) int {
	d = d.withDefaults()
	return (channels+1)*d.Hidden + (d.Hidden+1)*out
}

// linear is a linear layer over the channels of each point, with bias.
//
// Shape: x [N C D H W] → [N out D H W]; filter [out C].
func linear(b *graph.Builder, name string, x graph.Value, out int, start graph.Init) graph.Value {
	in := x.Dim(1)
	w := b.Param(name+".weight", graph.Shape{out, in}, start)
	y := op.Conv3D(b, x, op.Reshape(b, w, graph.Shape{out, in, 1, 1, 1}), op.Conv{})
	return op.Bias(b, y, b.ParamOf(graph.Bias, name+".bias", graph.Shape{out}, graph.Zeros()))
}

// LeNet predicts each point from the 13×13 points around it, with the layers of LeNet-5 without
// subsampling. As no layer has a stride, Build applies the convolutions to whole fields, with the
// same result as for one patch after the other.
//
// The network that ENS-10 calls LeNet was not published; this one replaces it.
//
// Source: LeCun et al. 1998, doi:10.1109/5.726791.
type LeNet struct {
	// Widths are the channels of the three 5×5 convolutions and the units of the hidden layer after
	// them. Empty means 6, 16, 120 and 84.
	Widths   []int
	Periodic bool // longitudes are periodic; else the padding is zeros
}

// LeNetPatch is the size of the patch around a point that a LeNet reads (its receptive field).
const LeNetPatch = 1 + 3*4

// Build extends the graph by the network. Filters are stored as [out in 5 5] and [out in], as
// PyTorch's Conv2d and Linear have them; levels share them.
//
// Shape: x [N C D H W] → [N out D H W].
// Errors: in the builder: ErrShape if there are not four widths.
func (l LeNet) Build(b *graph.Builder, x graph.Value, out int) graph.Value {
	w := l.widths()
	if len(w) != 4 {
		return b.Fail("lenet", fmt.Errorf("widths %v, want four: %w", w, graph.ErrShape))
	}
	for i, name := range []string{"conv1", "conv2", "conv3"} {
		x = op.ReLU(b, conv2D(b, name, x, w[i], 5, graph.KaimingUniform(x.Dim(1)*25), l.Periodic))
	}
	x = op.ReLU(b, linear(b, "hidden", x, w[3], graph.KaimingUniform(x.Dim(1))))
	return linear(b, "out", x, out, graph.Zeros())
}

// widths returns the widths, or the default ones.
func (l LeNet) widths() []int {
	if len(l.Widths) == 0 {
		return []int{6, 16, 120, 84}
	}
	return l.Widths
}

// Parameters is the number of trained values.
func (l LeNet) Parameters(channels, out int) (n int) {
	w := l.widths()
	for _, width := range w[:3] {
		n += (25*channels + 1) * width
		channels = width
	}
	return n + (channels+1)*w[3] + (w[3]+1)*out
}

// DRNKind describes DRN, LeNetKind LeNet.
var (
	DRNKind = &Kind{
		Name: "drn", Doc: "baseline: one hidden layer per grid point with model.base units (128 in ENS-10)",
		Pointwise: true, Baseline: true, PublishedOptions: "model.base=128",
		Build: func(b *graph.Builder, x graph.Value, l Layout) graph.Value {
			return DRN{Hidden: l.Base}.Build(b, x, l.Out)
		},
	}
	LeNetKind = &Kind{
		Name: "lenet", Doc: "baseline: LeNet on the 13 x 13 points around each grid point",
		Baseline: true,
		Build: func(b *graph.Builder, x graph.Value, l Layout) graph.Value {
			return LeNet{Periodic: l.Periodic}.Build(b, x, l.Out)
		},
	}
)
