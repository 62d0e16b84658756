package unet3d

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// TimeUNet is a U-Net with convolutions over leads.
//
// By default leads take the place of levels: the 3×3×3 filters cover leads, latitudes and
// longitudes. Levels, if there is more than one, are independent samples.
//
// With Factorised, each layer except the last is a 3×3×3 filter over levels, latitudes and
// longitudes of a lead, ReLU, a filter of three leads at each point, and ReLU. Levels and leads
// then have separate filters, with a nonlinearity in between. Leads are padded with zeros.
//
// Source: Ji et al. 2013, doi:10.1109/TPAMI.2012.59, for time as the convolved depth; Tran et al.
// 2018, arXiv:1711.11248, for the factorisation R(2+1)D.
type TimeUNet struct {
	UNet       UNet // Levels must be SharedLevels
	Leads      int  // T, at least 2
	Factorised bool // separate filters for space and leads
	// Condition modulates each layer of the encoder by conditions of its rows; Factorised only.
	Condition FiLM
}

// Build extends the graph by the network. Layers have the names and shapes of UNet; filters over
// leads are <layer>.time.weight [out out 3 1 1].
//
// Shape: x [N·T C D H W] → [N·T Out D H W]; 2^Stages must divide H and W.
// Errors: in the builder: those of UNet; ErrShape if T does not divide the rows, for levels that
// are not shared, and for conditions without Factorised.
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

// BuildPadded is Build for a grid of any size (padded).
func (n TimeUNet) BuildPadded(b *graph.Builder, x graph.Value) graph.Value {
	return buildPadded(b, x, n.UNet.withDefaults().Stages, n.UNet.Periodic, func(x graph.Value, p padding) graph.Value {
		n.UNet.Periodic, n.Condition.share = p.periodic, p.share
		return n.Build(b, x)
	})
}

// Parameters is the number of trained values for rows with the given channels.
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

// TimeDepthKind describes TimeUNet with leads as depth, FactorisedKind that with factorised
// filters.
var (
	TimeDepthKind = &Kind{
		Name: "unet_time", Doc: "U-Net with leads as the depth axis",
		Leads: LeadsInRows, Members: MembersCorrected, NoConditions: true,
		Build: func(b *graph.Builder, x graph.Value, l Layout) graph.Value {
			return TimeUNet{UNet: l.newUNet(), Leads: l.Leads}.BuildPadded(b, x)
		},
	}
	FactorisedKind = &Kind{
		Name: "unet_2plus1d", Doc: "U-Net with additional filters over leads, R(2+1)D",
		Leads: LeadsInRows, Members: MembersCorrected,
		Build: func(b *graph.Builder, x graph.Value, l Layout) graph.Value {
			return TimeUNet{UNet: l.newUNet(), Leads: l.Leads, Factorised: true, Condition: l.Condition}.BuildPadded(b, x)
		},
	}
)
