package unet3d

import (
	"cmp"
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// RecurrentUNet is a 3-D U-Net for each lead, with recurrent cells between leads. Encoder and
// decoder process one lead after the other with the same filters. In the deepest stages a cell
// reads the features x of the encoder, and its state h is added to them:
//
//	x' = x + out∗h        out is a 1×1×1 convolution, initialised with 0
//
// x' is the input of the next stage and of the decoder. Without training, and if other leads carry
// no information, the network is the U-Net of each lead.
//
// By default only the coarsest stage has a cell. The gates have four times the channels of a state.
// On the finest grid a cell would need more operations than all other layers together, while on the
// coarsest grid the states of all leads fit into memory. One point there covers 2^Stages points of
// the grid or more, as far as weather systems move between leads.
//
// The graph is ordered by leads. With a memory limit (engine.Memory.Limit) the activations of a
// lead are recomputed in the backward pass, and only input, output and state of the other leads are
// kept.
type RecurrentUNet struct {
	UNet  UNet // Levels must be SharedLevels
	Cell  Cell // empty means ConvLSTM
	Leads int  // T, at least 2
	// Hidden is the number of channels of a state; 0 means half of those of its stage.
	Hidden int
	// CellStages is the number of the deepest stages with a cell; 0 means 1.
	CellStages int
	// Bidirectional adds a second cell to each stage, which reads leads from the last to the first.
	// This is possible because all leads of a forecast are available when it is issued.
	Bidirectional bool
	// Truncate is the number of leads after which gradients stop; 0 means never.
	Truncate int
	// Condition modulates each stage of the encoder by conditions of its rows.
	Condition FiLM
}

// withDefaults sets defaults.
func (r RecurrentUNet) withDefaults() RecurrentUNet {
	r.UNet = r.UNet.withDefaults()
	r.Cell, r.CellStages = cmp.Or(r.Cell, ConvLSTM), cmp.Or(r.CellStages, 1)
	return r
}

// stateChannels is the number of channels of the states in a stage.
func (r RecurrentUNet) stateChannels(stage int) int {
	return cmp.Or(r.Hidden, max(encoderWidths[stage]*r.UNet.Base/2, 1))
}

// hasCell reports whether a stage has cells.
func (r RecurrentUNet) hasCell(stage int) bool { return stage > r.UNet.Stages-r.CellStages }

// Build extends the graph by the network. Layers have the names of UNet. Cells are cell<stage>,
// those that read leads backwards cell<stage>.back; see Cell for their parameters.
//
// Shape: x [N·T C D H W] → [N·T Out D H W]; 2^Stages must divide H and W.
// Errors: in the builder: those of UNet; ErrShape if T does not divide the rows, for negative
// options, and for levels that are not shared.
// Source: Shi et al. 2015, arXiv:1506.04214; tested for forecasts by Grönquist et al. 2019,
// arXiv:1911.00630.
func (r RecurrentUNet) Build(b *graph.Builder, x graph.Value) graph.Value {
	r = r.withDefaults()
	if !checkLeads(b, "recurrent_unet", x, r.Leads) || !r.UNet.check(b, x) {
		return graph.Value{}
	}
	if r.CellStages < 0 || r.CellStages > r.UNet.Stages || r.Truncate < 0 || r.Hidden < 0 || r.UNet.Levels != SharedLevels {
		return b.Fail("recurrent_unet", fmt.Errorf("cells in %d of %d stages, %d channels, truncation after %d leads, levels %q: %w",
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
	forward := func(t, s int) graph.Value { // stage s of the encoder at lead t, and the state of its forward cell
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
			outputs := make([]graph.Value, r.Leads)
			for t := range in {
				outputs[t] = forward(t, s)
			}
			var back cellState
			for t := r.Leads - 1; t >= 0 && r.hasCell(s); t-- {
				if r.Truncate > 0 && (r.Leads-1-t)%r.Truncate == 0 {
					back = back.detach(b)
				}
				back = r.Cell.step(p, cellName(s)+".back", skips[t][s], back, r.stateChannels(s), r.UNet.Periodic)
				outputs[t] = op.Concat(b, 1, outputs[t], back.h)
			}
			for t := range in {
				skips[t][s] = r.addCellOutput(p, s, skips[t][s], outputs[t])
			}
		}
	}
	for t := range in {
		for s := 1; s <= r.UNet.Stages && !r.Bidirectional; s++ {
			state := forward(t, s)
			skips[t][s] = r.addCellOutput(p, s, skips[t][s], state)
		}
		out[t] = r.UNet.decode(b, skips[t], layers[t])
	}
	return joinLeads(b, out)
}

// BuildPadded is Build for a grid of any size (padded).
func (r RecurrentUNet) BuildPadded(b *graph.Builder, x graph.Value) graph.Value {
	return buildPadded(b, x, r.withDefaults().UNet.Stages, r.UNet.Periodic, func(x graph.Value, p padding) graph.Value {
		r.UNet.Periodic, r.Condition.share = p.periodic, p.share
		return r.Build(b, x)
	})
}

// cellName is the name of the cell of a stage.
func cellName(stage int) string { return fmt.Sprintf("cell%d", stage) }

// addCellOutput adds the states of the cells to the features that they read.
func (r RecurrentUNet) addCellOutput(p sharedParams, stage int, x, state graph.Value) graph.Value {
	if !state.Valid() {
		return x
	}
	return op.Add(p.b, x, p.linear(cellName(stage)+".out", state, x.Dim(1), graph.Zeros()))
}

// layers returns the layers for the rows x of one lead.
func (r RecurrentUNet) layers(p sharedParams, x graph.Value) unetLayers {
	return sharedLayers(p, r.UNet, r.Condition, x)
}

// sharedLayers returns the layers of a U-Net for the rows x, with shared parameters and a FiLM in
// the encoder.
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

// isEncoderLayer reports whether a layer of a U-Net belongs to the encoder, by its name.
func isEncoderLayer(name string) bool { return name[:3] == "enc" }

// encoderLayerWidths lists the widths of the layers of the encoder.
func (u UNet) encoderLayerWidths() []int {
	widths := make([]int, u.Stages+1)
	for s := range widths {
		widths[s] = encoderWidths[s] * u.Base
	}
	return widths
}

// Parameters is the number of trained values for rows with the given channels.
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

// ConvLSTMKind and ConvGRUKind describe RecurrentUNet with the two cells.
var (
	ConvLSTMKind = recurrentKind("conv_lstm", "U-Net of each lead with convolutional LSTM cells between leads", ConvLSTM)
	ConvGRUKind  = recurrentKind("conv_gru", "as conv_lstm, with gated recurrent units", ConvGRU)
)

// recurrentKind describes RecurrentUNet with one of the cells.
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
