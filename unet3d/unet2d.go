package unet3d

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// UNet2D is the 2-D U-Net of ENS-10: layers of 3×3 convolution, batch normalisation and ReLU, two
// poolings, bilinear upsampling, and skips by concatenation. Levels share filters.
//
// The published network copies a row at the north end to make the grid divisible, which shifts the
// decoder relative to the encoder. This one adds zeros after the last row (padded).
//
// Source: Ashkboos et al. 2022, arXiv:2206.14786, and its code, spcl/ens10.
type UNet2D struct {
	Base     int  // channels of the finest stage; 0 means 32
	Periodic bool // longitudes are periodic in convolutions and upsampling
}

// unet2DPoolings is the number of poolings.
const unet2DPoolings = 2

// Build extends the graph by the network, with the names and shapes of its PyTorch code.
//
// Shape: x [N C D H W] → [N out D H W], on a grid of any size.
func (u UNet2D) Build(b *graph.Builder, x graph.Value, out int) graph.Value {
	u = u.withDefaults()
	return buildPadded(b, x, unet2DPoolings, u.Periodic, func(x graph.Value, p padding) graph.Value {
		u.Periodic = p.periodic
		return u.build(b, x, out)
	})
}

// withDefaults sets the published width.
func (u UNet2D) withDefaults() UNet2D {
	if u.Base == 0 {
		u.Base = 32
	}
	return u
}

// widths lists the names of the blocks and the widths of their layers: the encoder from the finest
// stage, then the decoder from the coarsest.
func (u UNet2D) widths() (names []string, of [][]int) {
	w := u.Base
	return []string{"enc_l0", "enc_l1", "enc_l2", "dec_l2", "dec_l1", "dec_l0"},
		[][]int{{w, w}, {2 * w, 2 * w}, {4 * w, 4 * w}, {4 * w, 2 * w}, {2 * w, w}, {w, w}}
}

// build is Build for a grid that is divisible by 4.
func (u UNet2D) build(b *graph.Builder, x graph.Value, out int) graph.Value {
	names, widths := u.widths()
	half := [3]int{1, 2, 2}
	var skips []graph.Value
	for i, name := range names {
		switch {
		case i > 0 && i <= unet2DPoolings:
			skips = append(skips, x)
			x = op.MaxPool(b, x, half)
		case i > unet2DPoolings+1:
			last := len(skips) - 1
			x = op.Concat(b, 1, skips[last], op.Upsample(b, x, half, u.Periodic))
			skips = skips[:last]
		}
		for k, w := range widths[i] {
			layer := fmt.Sprintf("%s_%d", name, k)
			x = conv2D(b, layer+".conv", x, w, 3, graph.KaimingUniform(x.Dim(1)*9), u.Periodic)
			x = op.ReLU(b, batchNorm(b, layer+".bnr", x))
		}
	}
	return conv2D(b, "dec_l0_2.0", x, out, 3, graph.Zeros(), u.Periodic)
}

// Parameters is the number of trained values.
func (u UNet2D) Parameters(channels, out int) (n int) {
	u = u.withDefaults()
	_, widths := u.widths()
	for i, block := range widths {
		if i > unet2DPoolings+1 {
			channels *= 2 // the skip has as many channels as the upsampled field
		}
		for _, w := range block {
			n += (9*channels+1)*w + 2*w
			channels = w
		}
	}
	return n + (9*channels+1)*out
}

// UNet2DKind describes UNet2D.
var UNet2DKind = &Kind{
	Name: "unet2d", Doc: "baseline: 2-D U-Net of ENS-10 (published with model.base 32)",
	Baseline: true, PublishedOptions: "model.base=32",
	Build: func(b *graph.Builder, x graph.Value, l Layout) graph.Value {
		return UNet2D{Base: l.Base, Periodic: l.Periodic}.Build(b, x, l.Out)
	},
}
