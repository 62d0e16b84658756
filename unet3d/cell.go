package unet3d

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// Cell is a recurrent cell of convolutions: it reads one lead after the other and remembers.
type Cell string

// The cells, σ being the logistic function and ∗ a 3×3×3 convolution:
//
//	ConvLSTM   i, f, o = σ(W∗x + U∗h + b)    g = tanh(W∗x + U∗h + b)    c' = f·c + i·g    h' = o·tanh(c')
//	ConvGRU    r, z = σ(W∗x + U∗h + b)       n = tanh(W∗x + r·(U∗h) + b)                  h' = (1 − z)·n + z·h
//
// with parts of W, U and b for each, in this order: i, f, o, g and r, z, n. Before the first lead h and c
// are zero. The published ConvLSTM also looks at c through its gates, at each point with weights of its own, which
// would tie it to a grid. The gate r stands behind the convolution, as in torch.nn.GRUCell.
//
// Source: Shi et al. 2015, arXiv:1506.04214; Ballas et al. 2016, arXiv:1511.06432.
const (
	ConvLSTM Cell = "convlstm"
	ConvGRU  Cell = "convgru"
)

// gateCount is how many parts the filters have.
func (c Cell) gateCount() int { return map[Cell]int{ConvLSTM: 4, ConvGRU: 3}[c] }

// cellState is what a cell remembers: h, and c of a ConvLSTM; no values before the first lead.
type cellState struct{ h, c graph.Value }

// detach cuts a memory off from the leads before it: gradients do not go beyond.
func (m cellState) detach(b *graph.Builder) cellState {
	if m.h.Valid() {
		m.h = op.StopGradient(b, m.h)
	}
	if m.c.Valid() {
		m.c = op.StopGradient(b, m.c)
	}
	return m
}

// step is one step of a cell that remembers so many channels.
//
// Parameters: name.input.weight [gates·hidden C 3 3 3], name.input.bias, name.state.weight [gates·hidden hidden 3 3 3];
// the part of the bias that belongs to the gate f starts at 1 (Jozefowicz et al. 2015), others at 0.
func (c Cell) step(p sharedParams, name string, x graph.Value, m cellState, hidden int, periodic bool) cellState {
	b, gates, size := p.b, c.gateCount(), [3]int{3, 3, 3}
	if gates == 0 || hidden < 1 {
		b.Fail(name, fmt.Errorf("cell %q of %d channels: %w", c, hidden, graph.ErrShape))
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
