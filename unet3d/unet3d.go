package unet3d

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// UNet is the 3-D U-Net. The zero value of an optional field is that of the published network.
type UNet struct {
	Out      int     // output channels; 0 means 1
	Base     int     // base width B; 0 means 32
	Stages   int     // number of poolings, 1 to MaxStages; 0 means 5
	Periodic bool    // longitudes are periodic in convolutions and upsampling
	Dropout  float64 // probability of dropping a value of the coarsest stage in training
	// Levels selects how all layers except the last treat levels. With variants other than
	// SharedLevels, LevelConv determines names and number of parameters.
	Levels Levels
	// ZeroLast initialises the last layer with 0, so that the correction of an untrained network is
	// 0.
	ZeroLast bool
}

// Widths of the published network in units of the base width: convolutions 0 to 5 of the encoder,
// stages 1 to 5 of the decoder.
var (
	encoderWidths = [...]int{2, 2, 3, 4, 5, 7}
	decoderWidths = [...]int{4, 4, 6, 7, 10}
)

// MaxStages is the number of poolings of the published network. Widths of further stages are not
// published.
const MaxStages = len(decoderWidths)

// withDefaults sets the published values.
func (u UNet) withDefaults() UNet {
	if u.Out == 0 {
		u.Out = 1
	}
	if u.Base == 0 {
		u.Base = 32
	}
	if u.Stages == 0 {
		u.Stages = MaxStages
	}
	return u
}

// Build extends the graph by the network.
//
// All convolutions are 3×3×3 with bias and ReLU; the last one has no ReLU. Pooling and upsampling
// are 1×2×2, so the number of levels is constant. Skips carry the pooled tensor of the stage above,
// the last one the input. There is no convolution on the coarsest grid. Layers are named enc_conv0
// … dec_conv0. With fewer than five stages the deep layers are left out and the others keep their
// names.
//
// Shape: x [N C D H W] → [N Out D H W]; 2^Stages must divide H and W.
// Errors: in the builder: ErrShape if 2^Stages does not divide the grid, if Stages is not 1 to 5,
// or if Base or Out is negative.
// Source: Grönquist et al. 2021, doi:10.1098/rsta.2020.0092.
func (u UNet) Build(b *graph.Builder, x graph.Value) graph.Value {
	u = u.withDefaults()
	if !u.check(b, x) {
		return graph.Value{}
	}
	layers := u.layers(b)
	skips := []graph.Value{x}
	for s := 1; s <= u.Stages; s++ {
		skips = append(skips, u.encode(b, s, skips[s-1], layers))
	}
	return u.decode(b, skips, layers)
}

// check reports whether the network can be built on x, and records the reason in the builder if
// not.
func (u UNet) check(b *graph.Builder, x graph.Value) bool {
	if u.Stages < 1 || u.Stages > MaxStages || u.Base < 1 || u.Out < 1 {
		b.Fail("unet3d", fmt.Errorf("stages %d (1 to 5), base %d, out %d: %w", u.Stages, u.Base, u.Out, graph.ErrShape))
	}
	if side := 1 << u.Stages; x.Dim(3)%side != 0 || x.Dim(4)%side != 0 {
		b.Fail("unet3d", fmt.Errorf("grid of %d×%d points, want multiples of %d for %d poolings: %w",
			x.Dim(3), x.Dim(4), side, u.Stages, graph.ErrShape))
	}
	return b.Err() == nil
}

// unetLayers builds the layers of a U-Net. Networks over leads use other ones than UNet.
type unetLayers struct {
	layer func(name string, x graph.Value, out int) graph.Value                   // convolution, bias, ReLU
	last  func(name string, x graph.Value, out int, start graph.Init) graph.Value // convolution, bias
}

// layers returns the layers of UNet itself.
func (u UNet) layers(b *graph.Builder) unetLayers {
	return unetLayers{
		layer: func(name string, x graph.Value, out int) graph.Value { return u.layer(b, name, x, out) },
		last: func(name string, x graph.Value, out int, start graph.Init) graph.Value {
			return u.conv(b, name, x, out, start)
		},
	}
}

// unetPooling halves latitudes and longitudes and keeps levels.
var unetPooling = [3]int{1, 2, 2}

// encode is stage s of the encoder, counted from 1, applied to the pooled tensor of the stage
// above.
func (u UNet) encode(b *graph.Builder, s int, h graph.Value, of unetLayers) graph.Value {
	if s == 1 {
		h = of.layer("enc_conv0", h, encoderWidths[0]*u.Base)
	}
	return op.MaxPool(b, of.layer(fmt.Sprintf("enc_conv%d", s), h, encoderWidths[s]*u.Base), unetPooling)
}

// decode is the decoder. skips are the network's input and the outputs of the stages of the
// encoder.
func (u UNet) decode(b *graph.Builder, skips []graph.Value, of unetLayers) graph.Value {
	h := skips[u.Stages]
	if u.Dropout > 0 {
		h = op.Dropout(b, h, u.Dropout)
	}
	for s := u.Stages; s >= 1; s-- {
		width := decoderWidths[s-1] * u.Base
		last := width
		if s == 1 {
			last = encoderWidths[0] * u.Base
		}
		h = op.Concat(b, 1, op.Upsample(b, h, unetPooling, u.Periodic), skips[s-1])
		h = of.layer(fmt.Sprintf("dec_conv%da", s), h, width)
		h = of.layer(fmt.Sprintf("dec_conv%db", s), h, last)
	}
	start := graph.HeNormal(h.Dim(1) * 27)
	if u.ZeroLast {
		start = graph.Zeros()
	}
	return of.last("dec_conv0", h, u.Out, start)
}

// BuildPadded is Build for a grid of any size (padded).
func (u UNet) BuildPadded(b *graph.Builder, x graph.Value) graph.Value {
	return buildPadded(b, x, u.withDefaults().Stages, u.Periodic, func(x graph.Value, p padding) graph.Value {
		u.Periodic = p.periodic
		return u.Build(b, x)
	})
}

// layer is a convolution with bias and ReLU.
func (u UNet) layer(b *graph.Builder, name string, x graph.Value, out int) graph.Value {
	if u.Levels != SharedLevels {
		return op.ReLU(b, LevelConv{Levels: u.Levels, Size: [3]int{3, 3, 3}, Periodic: u.Periodic}.Build(b, name, x, out))
	}
	return op.ReLU(b, u.conv(b, name, x, out, graph.HeNormal(x.Dim(1)*27)))
}

// conv is a 3×3×3 convolution with bias on the same grid.
func (u UNet) conv(b *graph.Builder, name string, x graph.Value, out int, start graph.Init) graph.Value {
	w := b.Param(name+".weight", graph.Shape{out, x.Dim(1), 3, 3, 3}, start)
	bias := b.ParamOf(graph.Bias, name+".bias", graph.Shape{out}, graph.Zeros())
	return op.Bias(b, op.Conv3D(b, x, w, u.padding()), bias)
}

// padding keeps the grid for a filter of 3×3×3.
func (u UNet) padding() op.Conv {
	if u.Periodic {
		return op.Conv{Pad: op.SameGlobal(3, 3, 3)}
	}
	return op.Conv{Pad: op.Same(3, 3, 3)}
}

// Parameters is the number of trained values for an input with the given channels, with
// SharedLevels.
func (u UNet) Parameters(channels int) int {
	u = u.withDefaults()
	conv := func(in, out int) int { return 27*in*out + out }
	width := func(s int) int { return encoderWidths[s] * u.Base }
	n := conv(channels, width(0))
	for s := 1; s <= u.Stages; s++ {
		n += conv(width(s-1), width(s))
	}
	up := width(u.Stages)
	for s := u.Stages; s >= 1; s-- {
		skip, out, last := channels, decoderWidths[s-1]*u.Base, decoderWidths[s-1]*u.Base
		if s > 1 {
			skip = width(s - 1)
		} else {
			last = width(0)
		}
		n += conv(up+skip, out) + conv(out, last)
		up = last
	}
	return n + conv(up, u.Out)
}

// UNetKind describes UNet.
var UNetKind = &Kind{
	Name: "unet3d", Doc: "3-D U-Net, for all heads",
	Leads: LeadsInEither, Members: MembersJoined, AnyLevels: true,
	Build: func(b *graph.Builder, x graph.Value, l Layout) graph.Value { return l.newUNet().BuildPadded(b, x) },
}
