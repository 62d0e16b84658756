package unet3d

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// PoET describes the ensemble transformer in the form of a U-Net: members to as many members. Convolutions treat
// each member by itself; attention in the deepest stages couples the members of a sample. The zero
// value of an optional field is the network that was published for ENS-10, but for the norm, which has one
// factor and offset for each channel.
//
// With Leads it is a hierarchical ensemble transformer of trajectories: the leads of a member attend to each other,
// then, if Attention has a set, the members of a lead. Without one, and also with leads of a trajectory for the rows of
// Attention and Attention.Positional, it is the network that corrects all leads of a member at once, and knows of no
// other member. What a row's lead is may be told by Condition, which leaves the number of leads open, or by Places.
//
// Source: Ben Bouallègue et al. 2024, arXiv:2303.17195, and its code; Roberts 2026, arXiv:2602.15830, for leads.
type PoET struct {
	Attention       Attention // over members; Set must be given without Leads; Stride 0 means 3, or 1 where weights are not global
	Leads           Attention // over leads, if it has a Set; Stride as that of Attention
	Condition       FiLM      // tells the layers of the encoder about their rows
	Out             int       // output channels; 0 means 1
	Widths          []int     // channels of the stages; none means 8, 16, 32, 64 (large: 16, 32, 64, 128)
	AttentionStages int       // how many of the deepest stages have attention; 0 means 3, negative none
	Periodic        bool      // longitudes wrap around
	// ZeroLast starts the last layer at zero, so that an untrained network adds nothing to what its
	// output corrects.
	ZeroLast bool
}

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

// Build extends the graph by the network. Stage s of the encoder pools 1×2×2 (but the first), and has two
// 5×5 convolutions with ReLU, enc<s>a and enc<s>b; attention attn<s> changes what goes on and
// what is joined again, after that over leads, lead<s>. Stage s of the decoder has a 3×3 convolution, dec<s>, and a transposed 2×2
// one of stride 2, up<s>, each with ReLU; at last comes a 1×1 convolution, out. Odd sides come
// back as they were.
//
// Shape: x [N·Set C D H W] → [N·Set Out D H W], with Leads [N·Set·Leads.Set …], leads innermost; levels are treated alike, but for their common
// weights. Filters are stored as [out in k k], as PyTorch's Conv2d has them, of up as [in out 2 2].
// Errors: in the builder: ErrShape for widths below 1, more attended stages than there are, and grids
// too small for the stages.
func (p PoET) Build(b *graph.Builder, x graph.Value) graph.Value {
	p = p.withDefaults()
	stages := len(p.Widths)
	if p.AttentionStages > stages || p.Out < 1 || min(x.Dim(3), x.Dim(4))>>(stages-1) < 1 {
		return b.Fail("poet", fmt.Errorf("%d of %d stages attended, %d outputs, field %v: %w", p.AttentionStages, stages, p.Out, x.Shape(), graph.ErrShape))
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
	// The encoder reads what attention has not changed, as published.
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

// attend is the attention of a stage.
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

// layer is a k×k convolution with bias and ReLU, and what a code of its rows does between the two.
func (p PoET) layer(b *graph.Builder, name string, x graph.Value, out, k int, code graph.Value) graph.Value {
	y := conv2D(b, name, x, out, k, graph.HeNormal(x.Dim(1)*k*k), p.Periodic)
	return op.ReLU(b, p.Condition.Build(b, name, y, code))
}

// up doubles a field to the grid, and the channels, of a skip.
func (p PoET) up(b *graph.Builder, name string, x, skip graph.Value) graph.Value {
	in, out := x.Dim(1), skip.Dim(1)
	w := b.Param(name+".weight", graph.Shape{in, out, 2, 2}, graph.HeNormal(in))
	y := op.ConvTranspose3D(b, x, op.Reshape(b, w, graph.Shape{in, out, 1, 2, 2}), op.Conv{Stride: [3]int{1, 2, 2}}, skip.Shape())
	return op.ReLU(b, op.Bias(b, y, b.Param(name+".bias", graph.Shape{out}, graph.Zeros())))
}

// PoETKind is the U-Net whose deepest stages attend over members; TrajectoryKind has attention over the leads of each member
// there, and HierarchicalKind over these and then over members.
var (
	PoETKind = &Kind{
		Name: "poet", Doc: "the U-Net of that name, whose deepest stages attend over members (model.base 8 and model.stages 3 as published)",
		Members: MembersAttending,
		Build: func(b *graph.Builder, x graph.Value, l Layout) graph.Value {
			return l.newPoET(Attention{SetSize: l.Members, Weights: l.Attention}).Build(b, x)
		},
	}
	TrajectoryKind = &Kind{
		Name: "trajectory", Doc: "poet with attention over the leads of each member, whose network reads no other member",
		Leads: LeadsInRows, Members: MembersAttending,
		Build: func(b *graph.Builder, x graph.Value, l Layout) graph.Value {
			return l.newTrajectory(Attention{Weights: l.Attention}).Build(b, x)
		},
	}
	HierarchicalKind = &Kind{
		Name: "hierarchical", Doc: "poet with attention over the leads of each member and then over members",
		Leads: LeadsInRows, Members: MembersAttending,
		Build: func(b *graph.Builder, x graph.Value, l Layout) graph.Value {
			return l.newTrajectory(Attention{SetSize: l.Members, Weights: l.Attention}).Build(b, x)
		},
	}
)

// attentionStages is how many of the deepest stages attend, as published.
const attentionStages = 3

// newPoET is the U-Net of a layout whose deepest stages attend.
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
