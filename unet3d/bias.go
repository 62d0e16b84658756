package unet3d

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// BiasUNet is the network of stage B, which corrects the bias of a forecast. The zero value of an
// optional field is that of the published network.
type BiasUNet struct {
	Out      int  // output channels, one per field; 0 means 7
	Base     int  // base width; 0 means 32
	Stages   int  // number of poolings, 0 to MaxBiasStages
	Periodic bool // longitudes are periodic in convolutions and upsampling
}

// MaxBiasStages is the number of poolings of the largest published network.
const MaxBiasStages = 3

// withDefaults sets the published values.
func (u BiasUNet) withDefaults() BiasUNet {
	if u.Out == 0 {
		u.Out = 7
	}
	if u.Base == 0 {
		u.Base = 32
	}
	return u
}

// Build extends the graph by the network. The output is the correction that is added to the
// forecast.
//
// Layers are 3×3×3 convolution, batch normalisation and ReLU. On a single level the filters are
// 1×3×3, as the other weights would see padding only. Each stage has two layers, the second twice
// as wide as the first. Without stages there are four layers, with widths 1, 2, 2 and 2 in units of
// Base. The decoder upsamples fields by 2 in latitude and longitude, applies a 1×3×3 convolution,
// and concatenates them to the fields of the encoder. The last layer is 1×1×1 and is initialised
// with 0, so that an untrained network leaves the forecast unchanged.
//
// Shape: x [N C D H W] → [N Out D H W], on a grid of any size (padded).
// Errors: in the builder: ErrShape if Stages is not 0 to 3, or Base or Out is negative.
// Source: Grönquist et al. 2021, doi:10.1098/rsta.2020.0092.
func (u BiasUNet) Build(b *graph.Builder, x graph.Value) graph.Value {
	u = u.withDefaults()
	if u.Stages < 0 || u.Stages > MaxBiasStages || u.Base < 1 || u.Out < 1 {
		return b.Fail("bias_unet", fmt.Errorf("stages %d (0 to %d), base %d, out %d: %w", u.Stages, MaxBiasStages, u.Base, u.Out, graph.ErrShape))
	}
	return buildPadded(b, x, u.Stages, u.Periodic, func(x graph.Value, p padding) graph.Value {
		u.Periodic = p.periodic
		return u.build(b, x)
	})
}

// build is Build for a grid that is divisible by 2^Stages.
func (u BiasUNet) build(b *graph.Builder, x graph.Value) graph.Value {
	width := u.Base
	h := u.layer(b, "enc0a", x, width)
	h = u.layer(b, "enc0b", h, 2*width)
	if u.Stages == 0 {
		h = u.layer(b, "enc0c", h, 2*width)
		h = u.layer(b, "enc0d", h, 2*width)
	}
	half := [3]int{1, 2, 2}
	var skips []graph.Value
	for s := 1; s <= u.Stages; s++ {
		skips = append(skips, h)
		width *= 2
		h = u.layer(b, fmt.Sprintf("enc%da", s), op.MaxPool(b, h, half), width)
		h = u.layer(b, fmt.Sprintf("enc%db", s), h, 2*width)
	}
	for s := u.Stages - 1; s >= 0; s-- {
		skip := skips[s]
		h = u.conv(b, fmt.Sprintf("up%d", s), op.Upsample(b, h, half, u.Periodic), h.Dim(1), [3]int{1, 3, 3})
		h = op.Concat(b, 1, skip, h)
		h = u.layer(b, fmt.Sprintf("dec%da", s), h, skip.Dim(1))
		h = u.layer(b, fmt.Sprintf("dec%db", s), h, skip.Dim(1))
	}
	w := b.Param("out.weight", graph.Shape{u.Out, h.Dim(1), 1, 1, 1}, graph.Zeros())
	return op.Bias(b, op.Conv3D(b, h, w, op.Conv{}), b.ParamOf(graph.Bias, "out.bias", graph.Shape{u.Out}, graph.Zeros()))
}

// layer is a convolution with batch normalisation and ReLU.
func (u BiasUNet) layer(b *graph.Builder, name string, x graph.Value, out int) graph.Value {
	size := [3]int{3, 3, 3}
	if x.Dim(2) == 1 {
		size[0] = 1
	}
	return op.ReLU(b, batchNorm(b, name+".bnr", u.conv(b, name+".conv", x, out, size)))
}

// conv is a convolution with bias on the same grid.
func (u BiasUNet) conv(b *graph.Builder, name string, x graph.Value, out int, size [3]int) graph.Value {
	return conv3D(b, name, x, out, size, u.Periodic)
}

// conv3D is a convolution with bias on the same grid.
//
// Shape: x [N C D H W] → [N out D H W]; filter [out C d h w].
func conv3D(b *graph.Builder, name string, x graph.Value, out int, size [3]int, periodic bool) graph.Value {
	in := x.Dim(1)
	w := b.Param(name+".weight", graph.Shape{out, in, size[0], size[1], size[2]}, graph.HeNormal(in*size[0]*size[1]*size[2]))
	pad := op.Same(size[:]...)
	if periodic {
		pad = op.SameGlobal(size[:]...)
	}
	return op.Bias(b, op.Conv3D(b, x, w, op.Conv{Pad: pad}), b.ParamOf(graph.Bias, name+".bias", graph.Shape{out}, graph.Zeros()))
}
