package unet3d

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// PoET is the ensemble transformer in the form of a U-Net, which maps members to as many corrected
// members. Convolutions process each member independently. Attention in the deepest stages couples
// the members of a sample. The zero value of an optional field is that of the network published for
// ENS-10, except for the norm, which has one factor and offset per channel.
//
// With Leads it is a hierarchical ensemble transformer for trajectories: first the leads of a
// member attend to each other, then the members at a lead. Without Attention.SetSize, only leads
// attend: the network corrects all leads of a member together, independently of the other members.
// Leads are identified by Condition, which allows any number of leads, or by Attention.Positional.
//
// Source: Ben Bouallègue et al. 2024, arXiv:2303.17195, and its code; Roberts 2026,
// arXiv:2602.15830, for leads.
type PoET struct {
	Attention       Attention // over members; SetSize is required without Leads; Stride 0 means 3 with global weights, else 1
	Leads           Attention // over leads; not used if SetSize is 0; Stride as that of Attention
	Condition       FiLM      // modulates the layers of the encoder by conditions of each row
	Out             int       // output channels; 0 means 1
	Widths          []int     // channels of the stages; empty means 8, 16, 32, 64 (published large network: 16, 32, 64, 128)
	AttentionStages int       // number of the deepest stages with attention; 0 means 3, negative means none
	Periodic        bool      // longitudes are periodic
	// ZeroLast initialises the last layer with 0, so that the correction of an untrained network is
	// 0.
	ZeroLast bool
}

// withDefaults sets the published values.
func (p PoET) withDefaults() PoET {
	if p.Out == 0 {
		p.Out = 1
	}
	if len(p.Widths) == 0 {
		p.Widths = []int{8, 16, 32, 64}
	}
	if p.AttentionStages == 0 {
		p.AttentionStages = min(attentionStages, len(p.Widths))
	}
	for _, a := range []*Attention{&p.Attention, &p.Leads} {
		if a.Stride == 0 && a.Weights == GlobalWeights {
			a.Stride = 3
		}
	}
	return p
}

// Build extends the graph by the network. Stage s of the encoder has a pooling 1×2×2 (except the
// first stage) and two 5×5 convolutions with ReLU, enc<s>a and enc<s>b. Attention attn<s>, after
// lead<s> over leads, changes the skips and the input of the decoder. Stage s of the decoder has a
// 3×3 convolution dec<s> and a transposed 2×2 convolution with stride 2, up<s>, each with ReLU. The
// last layer is the 1×1 convolution out. The grid may have odd sizes.
//
// Shape: x [N·SetSize C D H W] → [N·SetSize Out D H W], with Leads [N·SetSize·Leads.SetSize …],
// leads innermost. Levels share filters, and attention sums over them. Filters are stored as [out
// in k k], as PyTorch's Conv2d has them, those of up as [in out 2 2].
// Errors: in the builder: ErrShape for widths below 1, more stages with attention than there are,
// and a grid too small for the stages.
func (p PoET) Build(b *graph.Builder, x graph.Value) graph.Value {
	p = p.withDefaults()
	stages := len(p.Widths)
	if p.AttentionStages > stages || p.Out < 1 || min(x.Dim(3), x.Dim(4))>>(stages-1) < 1 {
		return b.Fail("poet", fmt.Errorf("input %v, attention in %d of %d stages, %d outputs: %w", x.Shape(), p.AttentionStages, stages, p.Out, graph.ErrShape))
	}
	var skips []graph.Value
	code := p.Condition.Code(b, x)
	h := x
	for s, width := range p.Widths {
		if s > 0 {
			h = op.MaxPool(b, h, [3]int{1, 2, 2})
		}
		for _, layer := range []string{"a", "b"} {
			h = p.layer(b, fmt.Sprintf("enc%d%s", s, layer), h, width, 5, code)
		}
		skips = append(skips, h)
	}
	// As published, attention does not change the input of the next stage of the encoder.
	for s := max(stages-max(p.AttentionStages, 0), 0); s < stages; s++ {
		skips[s] = p.attend(b, s, skips[s])
	}
	h = skips[stages-1]
	for s := stages - 1; s > 0; s-- {
		h = p.layer(b, fmt.Sprintf("dec%d", s), h, p.Widths[s], 3, graph.Value{})
		h = op.Concat(b, 1, p.up(b, fmt.Sprintf("up%d", s), h, skips[s-1]), skips[s-1])
	}
	h = p.layer(b, "dec0", h, p.Widths[0], 3, graph.Value{})
	start := graph.KaimingUniform(h.Dim(1))
	if p.ZeroLast {
		start = graph.Zeros()
	}
	return conv2D(b, "out", h, p.Out, 1, start, p.Periodic)
}

// attend is the attention of a stage: over leads, then over members. Attention needs its set in
// consecutive rows, so members and leads are transposed in between.
func (p PoET) attend(b *graph.Builder, stage int, z graph.Value) graph.Value {
	members, leads := p.Attention.SetSize, p.Leads.SetSize
	if leads > 0 {
		z = p.Leads.Build(b, fmt.Sprintf("lead%d", stage), z)
		if members < 2 {
			return z
		}
		z = op.SetTranspose(b, z, members, leads)
	}
	z = p.Attention.Build(b, fmt.Sprintf("attn%d", stage), z)
	if leads > 0 {
		z = op.SetTranspose(b, z, leads, members)
	}
	return z
}

// layer is a k×k convolution with bias, FiLM by the code of the rows, and ReLU.
func (p PoET) layer(b *graph.Builder, name string, x graph.Value, out, k int, code graph.Value) graph.Value {
	y := conv2D(b, name, x, out, k, graph.HeNormal(x.Dim(1)*k*k), p.Periodic)
	return op.ReLU(b, p.Condition.Build(b, name, y, code))
}

// up upsamples x to the grid and the channels of a skip, by a transposed convolution with ReLU.
func (p PoET) up(b *graph.Builder, name string, x, skip graph.Value) graph.Value {
	in, out := x.Dim(1), skip.Dim(1)
	w := b.Param(name+".weight", graph.Shape{in, out, 2, 2}, graph.HeNormal(in))
	y := op.ConvTranspose3D(b, x, op.Reshape(b, w, graph.Shape{in, out, 1, 2, 2}), op.Conv{Stride: [3]int{1, 2, 2}}, skip.Shape())
	return op.ReLU(b, op.Bias(b, y, b.ParamOf(graph.Bias, name+".bias", graph.Shape{out}, graph.Zeros())))
}

// PoETKind describes PoET with attention over members, TrajectoryKind with attention over the leads
// of each member, HierarchicalKind with both.
var (
	PoETKind = &Kind{
		Name: "poet", Doc: "U-Net with attention over members in its deepest stages (published with model.base 8, model.stages 3)",
		Members: MembersAttending,
		Build: func(b *graph.Builder, x graph.Value, l Layout) graph.Value {
			return l.newPoET(Attention{SetSize: l.Members, Weights: l.Attention}).Build(b, x)
		},
	}
	TrajectoryKind = &Kind{
		Name: "trajectory", Doc: "poet with attention over the leads of each member, independent of the other members",
		Leads: LeadsInRows, Members: MembersAttending,
		Build: func(b *graph.Builder, x graph.Value, l Layout) graph.Value {
			return l.newTrajectory(Attention{Weights: l.Attention}).Build(b, x)
		},
	}
	HierarchicalKind = &Kind{
		Name: "hierarchical", Doc: "poet with attention over the leads of each member, then over members",
		Leads: LeadsInRows, Members: MembersAttending,
		Build: func(b *graph.Builder, x graph.Value, l Layout) graph.Value {
			return l.newTrajectory(Attention{SetSize: l.Members, Weights: l.Attention}).Build(b, x)
		},
	}
)

// attentionStages is the published number of stages with attention.
const attentionStages = 3

// newPoET is the PoET of a layout, with the given attention over members.
func (l Layout) newPoET(members Attention) PoET {
	net := PoET{Attention: members, Out: l.Out, Periodic: l.Periodic, ZeroLast: true}
	for stage := range l.Stages + 1 {
		net.Widths = append(net.Widths, l.Base<<stage)
	}
	net.AttentionStages = min(attentionStages, len(net.Widths))
	return net
}

// newTrajectory is poet with attention over leads.
func (l Layout) newTrajectory(members Attention) PoET {
	net := l.newPoET(members)
	net.Leads, net.Condition = Attention{SetSize: l.Leads, Weights: l.Attention, Positional: !l.LeadConditioned}, l.Condition
	return net
}
