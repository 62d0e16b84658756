package unet3d

import (
	"cmp"
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// MemberTransformer is the ensemble transformer without U-Net, which maps members to as many
// corrected members: convolutions that all members share, attention blocks, and a 1×1 convolution.
// The zero value of an optional field is that of Finn 2021, with global weights and one channel per
// head.
//
// The transformer of the ENS-10 benchmark, whose code is not public, attends over members at each
// point: Attention.Weights is PointWeights, with several channels per head (Width).
//
// Source: Finn 2021, arXiv:2106.13924, and its code; Ashkboos et al. 2022, arXiv:2206.14786.
type MemberTransformer struct {
	Attention Attention // Set is required; Heads 0 means Width
	Out       int       // output channels; 0 means 1
	Width     int       // channels of the layers; 0 means 64
	Layers    int       // number of 5×5 convolutions with ReLU; 0 means 3
	Blocks    int       // number of attention blocks; 0 means 1
	Periodic  bool      // longitudes are periodic
	ZeroLast  bool      // initialises the last layer with 0
}

// Build extends the graph by the network. Its layers are conv<i>, attn<i> and out; filters have the
// shape of PyTorch's Conv2d.
//
// Shape: x [N·SetSize C D H W] → [N·SetSize Out D H W].
// Errors: in the builder: ErrShape for negative sizes, and those of Attention.
func (t MemberTransformer) Build(b *graph.Builder, x graph.Value) graph.Value {
	t.Out, t.Width, t.Layers, t.Blocks = cmp.Or(t.Out, 1), cmp.Or(t.Width, 64), cmp.Or(t.Layers, 3), cmp.Or(t.Blocks, 1)
	t.Attention.Heads = cmp.Or(t.Attention.Heads, t.Width)
	if min(t.Out, t.Width, t.Layers, t.Blocks) < 1 {
		return b.Fail("member_transformer", fmt.Errorf("%d outputs, width %d, %d layers, %d blocks: %w", t.Out, t.Width, t.Layers, t.Blocks, graph.ErrShape))
	}
	for i := range t.Layers {
		x = op.ReLU(b, conv2D(b, fmt.Sprintf("conv%d", i), x, t.Width, 5, graph.HeNormal(25*x.Dim(1)), t.Periodic))
	}
	for i := range t.Blocks {
		x = t.Attention.Build(b, fmt.Sprintf("attn%d", i), x)
	}
	start := graph.KaimingUniform(t.Width)
	if t.ZeroLast {
		start = graph.Zeros()
	}
	return conv2D(b, "out", x, t.Out, 1, start, t.Periodic)
}

// TransformerKind describes MemberTransformer.
var TransformerKind = &Kind{
	Name: "ens_transformer", Doc: "ensemble transformer: three convolutions and attention over members (published with model.base 64)",
	Members: MembersAttending,
	Build: func(b *graph.Builder, x graph.Value, l Layout) graph.Value {
		return MemberTransformer{Attention: Attention{SetSize: l.Members, Weights: l.Attention}, Out: l.Out, Width: l.Base, Periodic: l.Periodic, ZeroLast: true}.Build(b, x)
	},
}
