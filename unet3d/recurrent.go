package unet3d

import (
	"cmp"
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// RecurrentUNet is the 3-D U-Net of each lead, with recurrent cells between leads. Encoder and decoder read one lead
// after the other with the same filters. At the deepest stages a cell reads what the encoder has made of a lead,
//
//	x' = x + out∗h        out∗ is 1×1×1, and zero at first
//
// and x' is what goes deeper, and to the decoder. An untrained network, and one that has learned nothing from
// other leads, is the U-Net of each lead.
//
// Cells stand at the coarsest grid alone by default: gates have four times the channels of a state, so at the finest grid
// they would cost more than all other layers together, while there states are small enough to be kept for all leads.
// The U-Net has no layer there, and what a point of it sees, 2^Stages points wide and more, is as far as weather travels
// between leads.
//
// The graph goes from lead to lead: with a limit of the memory (engine.Memory.Limit) the activations of a
// lead are computed again when its gradients are, and what is kept of others is input, output and state.
type RecurrentUNet struct {
	UNet  UNet // Levels is SharedLevels
	Cell  Cell // "" means ConvLSTM
	Leads int  // T, at least 2
	// Hidden are the channels of a state; 0 means half of those of its stage.
	Hidden int
	// CellStages is how many of the deepest stages have a cell; 0 means 1.
	CellStages int
	// Bidirectional has a second cell at each place, which reads leads from the last to the first. All leads are known when
	// a forecast is issued.
	Bidirectional bool
	// Truncate, if not 0, is after how many leads gradients do not go on: states are read there as constants.
	Truncate int
	// Condition tells each stage of the encoder about its rows.
	Condition FiLM
}

func (r RecurrentUNet) withDefaults() RecurrentUNet {
	r.UNet = r.UNet.withDefaults()
	r.Cell, r.CellStages = cmp.Or(r.Cell, ConvLSTM), cmp.Or(r.CellStages, 1)
	return r
}

// stateChannels is the number of channels of the states of a stage.
func (r RecurrentUNet) stateChannels(stage int) int {
	return cmp.Or(r.Hidden, max(encoderWidths[stage]*r.UNet.Base/2, 1))
}

// hasCell tells whether a stage has cells.
func (r RecurrentUNet) hasCell(stage int) bool { return stage > r.UNet.Stages-r.CellStages }

// Build extends the graph by the network. Layers have the names of UNet, cells cell<stage> and those that read
// backwards cell<stage>.back; see Cell.
//
// Shape: x [N·T C D H W] → [N·T Out D H W]; H and W must divide by 2^Stages.
// Errors: in the builder: those of UNet; ErrShape for rows that are no trajectories, negative options and levels that are
// not shared.
// Source: Shi et al. 2015, arXiv:1506.04214; tried by Grönquist et al. 2019, arXiv:1911.00630.
func (r RecurrentUNet) Build(b *graph.Builder, x graph.Value) graph.Value {
	r = r.withDefaults()
	if !checkLeads(b, "recurrent_unet", x, r.Leads) || !r.UNet.check(b, x) {
		return graph.Value{}
	}
	if r.CellStages < 0 || r.CellStages > r.UNet.Stages || r.Truncate < 0 || r.Hidden < 0 || r.UNet.Levels != SharedLevels {
		return b.Fail("recurrent_unet", fmt.Errorf("cells in %d of %d stages of %d channels, truncated after %d leads, levels %q: %w",
			r.CellStages, r.UNet.Stages, r.Hidden, r.Truncate, r.UNet.Levels, graph.ErrShape))
	}
	p := newSharedParams(b)
	in := splitLeads(b, x, r.Leads)
	skips, out := make([][]graph.Value, r.Leads), make([]graph.Value, r.Leads)
	layers := make([]unetLayers, r.Leads)
	for t := range in {
		skips[t] = []graph.Value{in[t]}
		layers[t] = r.layers(p, in[t])
	}
	states := make([]cellState, r.UNet.Stages+1)
	ahead := func(t, s int) graph.Value { // what the encoder and the cell ahead make of a lead
		h := r.UNet.encode(b, s, skips[t][s-1], layers[t])
		skips[t] = append(skips[t], h)
		if !r.hasCell(s) {
			return graph.Value{}
		}
		if r.Truncate > 0 && t%r.Truncate == 0 {
			states[s] = states[s].detach(b)
		}
		states[s] = r.Cell.step(p, cellName(s), h, states[s], r.stateChannels(s), r.UNet.Periodic)
		return states[s].h
	}
	if r.Bidirectional {
		for s := 1; s <= r.UNet.Stages; s++ {
			heard := make([]graph.Value, r.Leads)
			for t := range in {
				heard[t] = ahead(t, s)
			}
			var back cellState
			for t := r.Leads - 1; t >= 0 && r.hasCell(s); t-- {
				if r.Truncate > 0 && (r.Leads-1-t)%r.Truncate == 0 {
					back = back.detach(b)
				}
				back = r.Cell.step(p, cellName(s)+".back", skips[t][s], back, r.stateChannels(s), r.UNet.Periodic)
				heard[t] = op.Concat(b, 1, heard[t], back.h)
			}
			for t := range in {
				skips[t][s] = r.addCellOutput(p, s, skips[t][s], heard[t])
			}
		}
	}
	for t := range in {
		for s := 1; s <= r.UNet.Stages && !r.Bidirectional; s++ {
			heard := ahead(t, s)
			skips[t][s] = r.addCellOutput(p, s, skips[t][s], heard)
		}
		out[t] = r.UNet.decode(b, skips[t], layers[t])
	}
	return joinLeads(b, out)
}

// BuildPadded is Build for fields whose sides need not divide (padded).
func (r RecurrentUNet) BuildPadded(b *graph.Builder, x graph.Value) graph.Value {
	return buildPadded(b, x, r.withDefaults().UNet.Stages, r.UNet.Periodic, func(x graph.Value, periodic bool) graph.Value {
		r.UNet.Periodic = periodic
		return r.Build(b, x)
	})
}

func cellName(stage int) string { return fmt.Sprintf("cell%d", stage) }

// addCellOutput adds what cells say to what they have read.
func (r RecurrentUNet) addCellOutput(p sharedParams, stage int, x, heard graph.Value) graph.Value {
	if !heard.Valid() {
		return x
	}
	return op.Add(p.b, x, p.linear(cellName(stage)+".out", heard, x.Dim(1), graph.Zeros()))
}

// layers are those of one lead.
func (r RecurrentUNet) layers(p sharedParams, x graph.Value) unetLayers {
	return sharedLayers(p, r.UNet, r.Condition, x)
}

// sharedLayers are those of a U-Net whose rows are x, with a FiLM in the encoder.
func sharedLayers(p sharedParams, u UNet, film FiLM, x graph.Value) unetLayers {
	size, code := [3]int{3, 3, 3}, film.code(p, x)
	last := func(name string, x graph.Value, out int, start graph.Init) graph.Value {
		return p.bias(name, p.conv(name, x, out, size, u.Periodic, start), graph.Zeros())
	}
	return unetLayers{last: last, layer: func(name string, x graph.Value, out int) graph.Value {
		y := last(name, x, out, graph.HeNormal(x.Dim(1)*27))
		if isEncoderLayer(name) {
			y = film.build(p, name, y, code)
		}
		return op.ReLU(p.b, y)
	}}
}

// isEncoderLayer tells whether a layer of a U-Net belongs to the encoder.
func isEncoderLayer(name string) bool { return name[:3] == "enc" }

// encoderLayerWidths are the widths of the layers of the encoder.
func (u UNet) encoderLayerWidths() []int {
	widths := make([]int, u.Stages+1)
	for s := range widths {
		widths[s] = encoderWidths[s] * u.Base
	}
	return widths
}

// Parameters is the number of trained values for rows of so many channels.
func (r RecurrentUNet) Parameters(channels int) int {
	r = r.withDefaults()
	n := r.UNet.Parameters(channels) + r.Condition.parameters(r.UNet.encoderLayerWidths()...)
	for s := 1; s <= r.UNet.Stages; s++ {
		if !r.hasCell(s) {
			continue
		}
		width, hidden, ways := encoderWidths[s]*r.UNet.Base, r.stateChannels(s), 1
		if r.Bidirectional {
			ways = 2
		}
		cell := r.Cell.gateCount() * hidden * (27*(width+hidden) + 1)
		n += ways*cell + (ways*hidden+1)*width
	}
	return n
}

// ConvLSTMKind and ConvGRUKind are U-Nets with recurrent cells between leads.
var (
	ConvLSTMKind = recurrentKind("conv_lstm", "the U-Net of each lead with LSTM cells between leads", ConvLSTM)
	ConvGRUKind  = recurrentKind("conv_gru", "the same with gated recurrent units", ConvGRU)
)

func recurrentKind(name, doc string, cell Cell) *Kind {
	return &Kind{
		Name: name, Doc: doc,
		Leads: LeadsInRows, Members: MembersCorrected, Section: RecurrentSection,
		Build: func(b *graph.Builder, x graph.Value, l Layout) graph.Value {
			r := l.Recurrent
			return RecurrentUNet{UNet: l.newUNet(), Cell: cell, Leads: l.Leads, Hidden: r.Hidden, CellStages: r.Stages, Truncate: r.Truncate,
				Bidirectional: r.Bidirectional, Condition: l.Condition}.BuildPadded(b, x)
		},
	}
}
