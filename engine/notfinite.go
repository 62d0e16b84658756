package engine

import (
	"context"
	"fmt"
	"math"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/internal/float16"
)

// NotFinite is the first value of a step that is NaN or infinite.
type NotFinite struct {
	Op    string  // operation of which it is a result; "input" or "parameter" for an operand of the step
	Layer string  // parameter of the operation, or of the last operation before it that has one; name of the input
	Index []int   // place in the value, such as sample, channel, level, latitude and longitude
	Value float64 // NaN or infinite
}

// String describes the value, as "conv3d_fused of enc_conv0.weight is NaN at [0 3 0 12 40]".
func (n NotFinite) String() string {
	if n.Layer == "" {
		return fmt.Sprintf("%s is %g at %v", n.Op, n.Value, n.Index)
	}
	return fmt.Sprintf("%s of %s is %g at %v", n.Op, n.Layer, n.Value, n.Index)
}

// FindNotFinite runs a step again, one kernel after the other, and returns the first value that is NaN or infinite; nil if
// all are finite, or if the device has memory of its own. Outputs and states of the store do not change; loss and gradients
// may.
//
// Cost: a step, and a sweep over each of its values.
//
// Errors: as Run.
func (p *Plan) FindNotFinite(ctx context.Context, step uint64) (first *NotFinite, err error) {
	if p.memory.remote != nil {
		return nil, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if p.closed {
		return nil, errClosed
	}
	p.step = step
	err = p.dev.Do(func() error {
		p.memory.load()
		if first = p.notFiniteOperand(); first != nil {
			return nil
		}
		layers, layer := p.layers(), ""
		for i := range p.kernels {
			k := &p.kernels[i]
			if i == p.cut {
				if err := p.finishForward(runNow, recordsNothing); err != nil {
					return err
				}
			}
			if err := k.run(); err != nil {
				return fmt.Errorf("%s %v (%s): %w", k.node.Op.Name, k.node.Shape, k.node.At, err)
			}
			if layers[k.node.ID] != "" {
				layer = layers[k.node.ID]
			}
			if first == nil {
				first = p.notFiniteIn(k.node, k.node.Op.Name, layer)
			}
		}
		return p.finishUnread(runNow, recordsNothing)
	})
	return first, err
}

// notFiniteOperand returns the first value that is not finite of an input or a parameter.
func (p *Plan) notFiniteOperand() *NotFinite {
	for _, n := range p.graph.Nodes {
		if n.Kind != graph.KindInput && n.Kind != graph.KindParam {
			continue
		}
		kind := "input"
		if n.Kind == graph.KindParam {
			kind = "parameter"
		}
		if found := p.notFiniteIn(n, kind, n.Name); found != nil {
			return found
		}
	}
	return nil
}

// notFiniteIn returns the first value that is not finite of a node. v − v is 0 for
// finite numbers, and NaN for infinities and NaN.
func (p *Plan) notFiniteIn(n *graph.Node, what, layer string) *NotFinite {
	x := p.memory.tensors[n.ID]
	found := func(i int, v float64) *NotFinite {
		return &NotFinite{Op: what, Layer: layer, Index: placeOf(i, n.Shape, x.Layout), Value: v}
	}
	for i, v := range x.F32 {
		if v-v != 0 {
			return found(i, float64(v))
		}
	}
	for i, v := range x.F64 {
		if v-v != 0 {
			return found(i, v)
		}
	}
	for i, bits := range x.U16 {
		v := float64(math.Float32frombits(uint32(bits) << 16))
		if x.DType == graph.Float16 {
			v = float16.FromBits(bits)
		}
		if v-v != 0 {
			return found(i, v)
		}
	}
	return nil
}

// placeOf returns the indices of element i of a value of shape s as it lies in memory.
// Channels may be innermost (channels last) or in blocks of graph.BlockSize; an index of
// a padding channel exceeds the shape.
func placeOf(i int, s graph.Shape, l graph.Layout) []int {
	place := make([]int, len(s))
	if l == graph.Plain {
		for k := len(s) - 1; k >= 0; k-- {
			place[k], i = i%s[k], i/s[k]
		}
		return place
	}
	cells, lane, cell := s[2:].Size(), 0, 0
	if l == graph.ChannelsLast {
		wide := l.PaddedChannels(s[1])
		lane, i = i%wide, i/wide
		cell, place[0] = i%cells, i/cells
	} else { // [N][blocks of channels][cells][channels of a block]
		blocks := (s[1] + graph.BlockSize - 1) / graph.BlockSize
		lane, i = i%graph.BlockSize, i/graph.BlockSize
		cell, i = i%cells, i/cells
		lane, place[0] = i%blocks*graph.BlockSize+lane, i/blocks
	}
	place[1] = lane
	for k := len(s) - 1; k > 1; k-- {
		place[k], cell = cell%s[k], cell/s[k]
	}
	return place
}
