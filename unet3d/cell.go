package unet3d

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// Cell names a convolutional recurrent cell. It reads one lead after the other and updates a state.
type Cell string

// The cells, with the logistic function σ and a 3×3×3 convolution ∗:
//
//	ConvLSTM   i, f, o = σ(W∗x + U∗h + b)    g = tanh(W∗x + U∗h + b)    c' = f·c + i·g    h' = o·tanh(c')
//	ConvGRU    r, z = σ(W∗x + U∗h + b)       n = tanh(W∗x + r·(U∗h) + b)                  h' = (1 − z)·n + z·h
//
// W, U and b have a part for each gate, in the order i, f, o, g and r, z, n. Before the first lead
// h and c are 0.
//
// The published ConvLSTM has peephole connections from c to its gates, with weights for each point.
// They are left out here, as they tie a network to one grid. The gate r of the GRU multiplies the
// result of the convolution, as in torch.nn.GRUCell.
//
// Source: Shi et al. 2015, arXiv:1506.04214; Ballas et al. 2016, arXiv:1511.06432.
const (
	ConvLSTM Cell = "convlstm"
	ConvGRU  Cell = "convgru"
)

// gateCount is the number of gates, for each of which filters have a part.
func (c Cell) gateCount() int { return map[Cell]int{ConvLSTM: 4, ConvGRU: 3}[c] }

// cellState is the state of a cell: h, and c of a ConvLSTM. Before the first lead both are invalid
// values.
type cellState struct{ h, c graph.Value }

// detach detaches the state from earlier leads: gradients stop at this point (truncated
// backpropagation through time).
func (m cellState) detach(b *graph.Builder) cellState {
	if m.h.Valid() {
		m.h = op.StopGradient(b, m.h)
	}
	if m.c.Valid() {
		m.c = op.StopGradient(b, m.c)
	}
	return m
}

// step is one step of a cell with a state of hidden channels.
//
// Parameters: name.input.weight [gates·hidden C 3 3 3], name.input.bias, and name.state.weight
// [gates·hidden hidden 3 3 3]. The bias of the gate f is initialised with 1 (Jozefowicz et al.
// 2015), the others with 0.
//
// Shape: x [N C D H W] → state [N hidden D H W].
func (c Cell) step(p sharedParams, name string, x graph.Value, m cellState, hidden int, periodic bool) cellState {
	b, gates, size := p.b, c.gateCount(), [3]int{3, 3, 3}
	if gates == 0 || hidden < 1 {
		b.Fail(name, fmt.Errorf("cell %q with %d channels: %w", c, hidden, graph.ErrShape))
		return m
	}
	input := p.conv(name+".input", x, gates*hidden, size, periodic, graph.KaimingUniform(27*x.Dim(1)))
	starts := make([]float32, gates*hidden)
	if c == ConvLSTM {
		for i := range hidden {
			starts[hidden+i] = 1
		}
	}
	input = p.bias(name+".input", input, graph.Values(starts))
	state := func() graph.Value {
		return p.conv(name+".state", m.h, gates*hidden, size, periodic, graph.KaimingUniform(27*hidden))
	}
	part := func(x graph.Value, i, n int) graph.Value { return op.Slice(b, x, 1, i*hidden, (i+n)*hidden) }
	if c == ConvGRU {
		var s graph.Value
		gate, n := part(input, 0, 2), part(input, 2, 1)
		if m.h.Valid() {
			s = state()
			gate = op.Add(b, gate, part(s, 0, 2))
		}
		gate = op.Sigmoid(b, gate)
		z := part(gate, 1, 1)
		if !m.h.Valid() {
			n = op.Tanh(b, n)
			return cellState{h: op.Sub(b, n, op.Mul(b, z, n))}
		}
		n = op.Tanh(b, op.Add(b, n, op.Mul(b, part(gate, 0, 1), part(s, 2, 1))))
		return cellState{h: op.Add(b, n, op.Mul(b, z, op.Sub(b, m.h, n)))}
	}
	if m.h.Valid() {
		input = op.Add(b, input, state())
	}
	gate, g := op.Sigmoid(b, part(input, 0, 3)), op.Tanh(b, part(input, 3, 1))
	next := op.Mul(b, part(gate, 0, 1), g)
	if m.c.Valid() {
		next = op.Add(b, next, op.Mul(b, part(gate, 1, 1), m.c))
	}
	return cellState{h: op.Mul(b, part(gate, 2, 1), op.Tanh(b, next)), c: next}
}
