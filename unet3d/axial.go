package unet3d

import (
	"cmp"
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// AxialTransformer is a transformer whose points attend to each other along leads, levels,
// latitudes and longitudes, one axis after the other:
//
//	s = ReLU(stem∗x)                                at the grid of the input, half as wide
//	h = embed∗s, P×P of stride P                    P = 2^Stages
//	h = h + out∗attend(qkv∗norm(h)) for each axis   the lead, level, lat and lon of every block
//	h = h + out∗ReLU(in∗norm(h))                    its mlp
//	y = last∗ReLU(join∗[up∗h, s])
//
// norm standardises the channels of each point. Attention along leads and levels covers the whole
// axis. Along latitudes and longitudes it covers windows. Every second block shifts the windows by
// half a window, so that information passes between neighbouring windows; on a periodic grid
// windows continue across the date line. Attention scores have a trained bias for each offset.
// Filters named out are initialised with 0.
//
// Source: Ho et al. 2019, arXiv:1912.12180; Liu et al. 2021, arXiv:2103.14030, for windows; Bi et
// al. 2023, doi:10.1038/s41586-023-06185-3, for three-dimensional windows on the globe.
type AxialTransformer struct {
	Leads    int  // T; 0 and 1 mean no attention along leads
	Out      int  // output channels; 0 means 1
	Width    int  // channels at the grid of attention; 0 means 32
	Heads    int  // 0 means axialHeads
	Blocks   int  // 0 means 2
	Stages   int  // halvings of the grid before attention; 0 means 1, negative means none
	Window   int  // maximum points of a window along latitude and longitude; 0 means 8
	Periodic bool // longitudes are periodic
	ZeroLast bool // initialises the last layer with 0
	// Condition modulates the mlp of each block by the conditions of each row.
	Condition FiLM
}

// axialHeads is the default number of heads.
const axialHeads = 4

// maxOffset is the largest offset with a bias of its own along leads and levels; larger offsets
// share the bias of the largest. For windows it is Window − 1.
const maxOffset = 7

// withDefaults sets defaults.
func (a AxialTransformer) withDefaults() AxialTransformer {
	a.Leads, a.Out, a.Width, a.Heads = max(a.Leads, 1), cmp.Or(a.Out, 1), cmp.Or(a.Width, 32), cmp.Or(a.Heads, axialHeads)
	a.Blocks, a.Stages, a.Window = cmp.Or(a.Blocks, 2), max(cmp.Or(a.Stages, 1), 0), cmp.Or(a.Window, 8)
	return a
}

// axialAxis is the attention along one axis in a block.
type axialAxis struct {
	name      string
	maxOffset int // largest offset with a bias of its own
	attention op.AxisAttention
}

// axes lists the axes along which a block attends. Axes of size 1 are left out.
func (a AxialTransformer) axes(h graph.Value, block int) []axialAxis {
	var out []axialAxis
	if a.Leads > 1 {
		out = append(out, axialAxis{"lead", maxOffset, op.AxisAttention{Axis: 0, Set: a.Leads, Starts: []int{0}}})
	}
	if h.Dim(2) > 1 {
		out = append(out, axialAxis{"level", maxOffset, op.AxisAttention{Axis: 2, Starts: []int{0}}})
	}
	shifted := block%2 == 1
	return append(out,
		axialAxis{"lat", a.Window - 1, op.AxisAttention{Axis: 3, Starts: op.WindowStarts(h.Dim(3), a.Window, shifted, false)}},
		axialAxis{"lon", a.Window - 1, op.AxisAttention{Axis: 4, Starts: op.WindowStarts(h.Dim(4), a.Window, shifted, a.Periodic)}})
}

// Build extends the graph by the network. Filters have the shape [out in d h w] of PyTorch's
// Conv3d, those of up that of ConvTranspose3d; offsets are [heads 2·reach+1].
//
// Shape: x [N·Leads C D H W] → [N·Leads Out D H W]; 2^Stages must divide H and W.
// Errors: in the builder: ErrShape if Leads does not divide the rows, 2^Stages the grid, or Heads
// the width.
func (a AxialTransformer) Build(b *graph.Builder, x graph.Value) graph.Value {
	a = a.withDefaults()
	side := 1 << a.Stages
	if x.Dim(0)%a.Leads != 0 || x.Dim(3)%side != 0 || x.Dim(4)%side != 0 || min(a.Out, a.Heads, a.Blocks, a.Window) < 1 || a.Width < 2 || a.Width%a.Heads != 0 {
		return b.Fail("axial_transformer", fmt.Errorf("%d leads in input %v, grid divisible by %d, %d heads in %d channels, %d blocks, windows of %d, %d outputs: %w",
			a.Leads, x.Shape(), side, a.Heads, a.Width, a.Blocks, a.Window, a.Out, graph.ErrShape))
	}
	p, fine := newSharedParams(b), a.Width/2
	code := a.Condition.code(p, x)
	wide := func(name string, x graph.Value, out int) graph.Value {
		return op.ReLU(b, p.bias(name, p.conv(name, x, out, [3]int{3, 3, 3}, a.Periodic, graph.HeNormal(27*x.Dim(1))), graph.Zeros()))
	}
	s := wide("stem", x, fine)
	step := op.Conv{Stride: [3]int{1, side, side}}
	h := op.Conv3D(b, s, p.param(graph.Weight, "embed.weight", graph.Shape{a.Width, fine, 1, side, side}, graph.KaimingUniform(fine*side*side)), step)
	h = p.bias("embed", h, graph.Zeros())
	for block := range a.Blocks {
		for _, axis := range a.axes(h, block) {
			name := fmt.Sprintf("block%d.%s", block, axis.name)
			axis.attention.Heads = a.Heads
			of := p.linear(name+".qkv", a.norm(p, name, h), 3*a.Width, graph.KaimingUniform(a.Width))
			offsets := p.param(graph.Embedding, name+".offsets", graph.Shape{a.Heads, 2*axis.maxOffset + 1}, graph.Zeros())
			h = op.Add(b, h, p.linear(name+".out", op.AttendAxis(b, of, offsets, axis.attention), a.Width, graph.Zeros()))
		}
		name := fmt.Sprintf("block%d.mlp", block)
		of := a.Condition.build(p, name, a.norm(p, name, h), code)
		of = op.ReLU(b, p.linear(name+".in", of, 2*a.Width, graph.HeNormal(a.Width)))
		h = op.Add(b, h, p.linear(name+".out", of, a.Width, graph.Zeros()))
	}
	up := p.param(graph.Weight, "up.weight", graph.Shape{a.Width, fine, 1, side, side}, graph.KaimingUniform(a.Width))
	u := p.bias("up", op.ConvTranspose3D(b, h, up, step, s.Shape()), graph.Zeros())
	start := graph.KaimingUniform(fine)
	if a.ZeroLast {
		start = graph.Zeros()
	}
	return p.linear("last", wide("join", op.Concat(b, 1, u, s), fine), a.Out, start)
}

// BuildPadded is Build for a grid of any size (padded).
func (a AxialTransformer) BuildPadded(b *graph.Builder, x graph.Value) graph.Value {
	return buildPadded(b, x, a.withDefaults().Stages, a.Periodic, func(x graph.Value, p padding) graph.Value {
		a.Periodic, a.Condition.share = p.periodic, p.share
		return a.Build(b, x)
	})
}

// norm is layer normalisation over the channels of each point, with a factor and an offset for each
// channel.
//
// Source: Ba et al. 2016, arXiv:1607.06450.
func (a AxialTransformer) norm(p sharedParams, name string, x graph.Value) graph.Value {
	of, c := graph.Shape{1, x.Dim(1), 1, 1, 1}, graph.Shape{x.Dim(1)}
	weight := op.Reshape(p.b, p.param(graph.Scale, name+".norm.weight", of, graph.Ones()), c)
	return op.PointNorm(p.b, x, weight, op.Reshape(p.b, p.param(graph.Bias, name+".norm.bias", of, graph.Zeros()), c), 0)
}

// Parameters is the number of trained values for an input with the given channels and levels.
func (a AxialTransformer) Parameters(channels, levels int) int {
	a = a.withDefaults()
	w, fine, side := a.Width, a.Width/2, 1<<a.Stages
	attended := func(reach int) int { return 2*w + (w+1)*3*w + (w+1)*w + a.Heads*(2*reach+1) }
	block := 2*attended(a.Window-1) + 2*w + (w+1)*2*w + (2*w+1)*w
	if a.Leads > 1 {
		block += attended(maxOffset)
	}
	if levels > 1 {
		block += attended(maxOffset)
	}
	n := (27*channels+1)*fine + fine*w*side*side + w + w*fine*side*side + fine + (27*2*fine+1)*fine + (fine+1)*a.Out
	widths := make([]int, a.Blocks)
	for i := range widths {
		widths[i] = w
	}
	return n + a.Blocks*block + a.Condition.parameters(widths...)
}

// AxialKind describes AxialTransformer.
var AxialKind = &Kind{
	Name: "axial_transformer", Doc: "axial attention along leads, levels, latitudes and longitudes, with model.base channels on the grid after model.stages halvings",
	Leads: LeadsInRows, Members: MembersCorrected, Section: AxialSection,
	BaseMultiple: axialHeads, BaseReason: "axial_transformer divides its channels among its heads",
	Build: func(b *graph.Builder, x graph.Value, l Layout) graph.Value {
		return AxialTransformer{Leads: l.Leads, Out: l.Out, Width: l.Base, Blocks: l.Axial.Blocks, Stages: l.Stages, Window: l.Axial.Window,
			Periodic: l.Periodic, ZeroLast: true, Condition: l.Condition}.BuildPadded(b, x)
	},
}
