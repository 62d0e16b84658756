package unet3d

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// TimeUNet is a U-Net whose convolutions go over leads.
//
// As it is, leads are the depth that its 3×3×3 filters go over: fields of one level become volumes of T leads. Levels,
// if there are more, are samples of their own.
//
// Factorised, each layer but the last is a filter 3×3×3 over levels, latitudes and longitudes of a lead, ReLU, and one of
// three leads at each point, ReLU; so levels and leads have filters of their own, and a ReLU more between them.
// Beyond the first and the last lead there are zeros.
//
// Source: Ji et al. 2013, doi:10.1109/TPAMI.2012.59, for time as the convolved depth; Tran et al. 2018, arXiv:1711.11248,
// for factors, R(2+1)D.
type TimeUNet struct {
	UNet       UNet // Levels is SharedLevels
	Leads      int  // T, at least 2
	Factorised bool
	// Condition tells each layer of the encoder about its rows, where the network is factorised.
	Condition FiLM
}

// Build extends the graph by the network. Layers have the names and shapes of UNet; filters over leads
// are <layer>.time.weight [out out 3 1 1].
//
// Shape: x [N·T C D H W] → [N·T Out D H W]; H and W must divide by 2^Stages.
// Errors: in the builder: those of UNet; ErrShape for rows that are no trajectories, and for conditions where leads
// are depth.
func (n TimeUNet) Build(b *graph.Builder, x graph.Value) graph.Value {
	u := n.UNet.withDefaults()
	if !checkLeads(b, "time_unet", x, n.Leads) || !u.check(b, x) {
		return graph.Value{}
	}
	if u.Levels != SharedLevels || n.Condition.Conditions > 0 && !n.Factorised {
		return b.Fail("time_unet", fmt.Errorf("levels %q, %d conditions, factorised %v: %w", u.Levels, n.Condition.Conditions, n.Factorised, graph.ErrShape))
	}
	if !n.Factorised {
		return op.SetSwap(b, u.Build(b, op.SetSwap(b, x, n.Leads)), x.Dim(2))
	}
	p := newSharedParams(b)
	layers := sharedLayers(p, u, n.Condition, x)
	spatial := layers.layer
	layers.layer = func(name string, x graph.Value, out int) graph.Value {
		h := op.SetSwap(b, spatial(name, x, out), n.Leads)
		h = p.conv(name+".time", h, out, [3]int{3, 1, 1}, false, graph.HeNormal(3*out))
		return op.SetSwap(b, op.ReLU(b, p.bias(name+".time", h, graph.Zeros())), x.Dim(2))
	}
	skips := []graph.Value{x}
	for s := 1; s <= u.Stages; s++ {
		skips = append(skips, u.encode(b, s, skips[s-1], layers))
	}
	return u.decode(b, skips, layers)
}

// BuildPadded is Build for fields whose sides need not divide (padded).
func (n TimeUNet) BuildPadded(b *graph.Builder, x graph.Value) graph.Value {
	return buildPadded(b, x, n.UNet.withDefaults().Stages, n.UNet.Periodic, func(x graph.Value, periodic bool) graph.Value {
		n.UNet.Periodic = periodic
		return n.Build(b, x)
	})
}

// Parameters is the number of trained values for rows of so many channels.
func (n TimeUNet) Parameters(channels int) int {
	u := n.UNet.withDefaults()
	total := u.Parameters(channels)
	if !n.Factorised {
		return total
	}
	widths := u.encoderLayerWidths()
	total += n.Condition.parameters(widths...)
	for s := u.Stages; s >= 1; s-- {
		last := decoderWidths[s-1] * u.Base
		if s == 1 {
			last = encoderWidths[0] * u.Base
		}
		widths = append(widths, decoderWidths[s-1]*u.Base, last)
	}
	for _, w := range widths {
		total += 3*w*w + w
	}
	return total
}

// TimeDepthKind has leads for depth, FactorisedKind filters over leads behind those over space.
var (
	TimeDepthKind = &Kind{
		Name: "unet_time", Doc: "the U-Net with leads for depth",
		Leads: LeadsInRows, Members: MembersCorrected, NoConditions: true,
		Build: func(b *graph.Builder, x graph.Value, l Layout) graph.Value {
			return TimeUNet{UNet: l.newUNet(), Leads: l.Leads}.BuildPadded(b, x)
		},
	}
	FactorisedKind = &Kind{
		Name: "unet_2plus1d", Doc: "the U-Net with filters over leads behind its others",
		Leads: LeadsInRows, Members: MembersCorrected,
		Build: func(b *graph.Builder, x graph.Value, l Layout) graph.Value {
			return TimeUNet{UNet: l.newUNet(), Leads: l.Leads, Factorised: true, Condition: l.Condition}.BuildPadded(b, x)
		},
	}
)
