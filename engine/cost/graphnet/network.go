package graphnet

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"
)

// Size are the choices of a network.
type Size struct {
	Hidden  int  // numbers of the state of a vertex
	Rounds  int  // of messages; 0: each operation alone
	Machine bool // whether operations have the inputs of the machine
}

// String describes the choices.
func (s Size) String() string {
	text := fmt.Sprintf("%d rounds", s.Rounds)
	if s.Machine {
		text += ", machine"
	}
	return text
}

// Network predicts times of operations.
type Network struct {
	Size
	kinds map[string]int // row of the embedding; unknown kinds have the last

	embedding, input, inputBias *value        // [kinds+1 H], [inputs H], [1 H]
	message, messageBias        [flows]*value // [H H], [1 H]
	gate, gateBias              *value        // [codes H], [1 H]
	unit                        [3]gatedPart  // update, reset, candidate
	attention                   [2]*value     // of the last and the first state, [H 1]
	attentionBias               *value        // [1 1]
	output, outputBias          *value        // [H 1], [1 1]
}

// gatedPart are the weights of one part of the gated recurrent unit, for the message and the state, [H H] and [1 H].
type gatedPart struct{ message, state, bias *value }

// codes is the number of sines and cosines that encode a position.
const codes = 8

// positionCodes is the fixed code of each position, [positions codes].
//
//	sin(p/10000^{2j/codes}), cos(p/10000^{2j/codes})
//
// Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.5.
func positionCodes() *mat.Dense {
	m := mat.NewDense(positions, codes, nil)
	for p := range positions {
		for j := 0; j < codes; j += 2 {
			angle := float64(p) / math.Pow(10000, float64(j)/codes)
			m.Set(p, j, math.Sin(angle))
			m.Set(p, j+1, math.Cos(angle))
		}
	}
	return m
}

// NewNetwork returns a network for these kinds of operations with random weights. It predicts the units of each step: the weights of its
// output are zero.
func NewNetwork(size Size, kinds []string, seed uint64) *Network {
	n := &Network{Size: size, kinds: map[string]int{}}
	for i, k := range kinds {
		n.kinds[k] = i
	}
	random := rand.New(rand.NewPCG(seed, 1))
	weight := func(rows, cols int) *value {
		v := newValue(rows, cols)
		for i := range v.x.RawMatrix().Data {
			v.x.RawMatrix().Data[i] = random.NormFloat64() / math.Sqrt(float64(rows))
		}
		return v
	}
	h := size.Hidden
	n.embedding, n.input, n.inputBias = newValue(len(kinds)+1, h), weight(workInputs+machineInputs, h), newValue(1, h)
	for i := range len(kinds) * h { // the row of unknown kinds stays zero
		n.embedding.x.RawMatrix().Data[i] = random.NormFloat64() / 2
	}
	for f := range flows {
		n.message[f], n.messageBias[f] = weight(h, h), newValue(1, h)
	}
	n.gate, n.gateBias = weight(codes, h), newValue(1, h)
	for i := range n.unit {
		n.unit[i] = gatedPart{weight(h, h), weight(h, h), newValue(1, h)}
	}
	n.attention, n.attentionBias = [2]*value{weight(h, 1), weight(h, 1)}, newValue(1, 1)
	n.output, n.outputBias = newValue(h, 1), newValue(1, 1)
	return n
}

// weights lists all weights.
func (n *Network) weights() []*value {
	all := []*value{n.embedding, n.input, n.inputBias, n.gate, n.gateBias, n.attention[0], n.attention[1], n.attentionBias, n.output, n.outputBias}
	for f := range flows {
		all = append(all, n.message[f], n.messageBias[f])
	}
	for _, u := range n.unit {
		all = append(all, u.message, u.state, u.bias)
	}
	return all
}

// forward computes the logarithms of times over units, [operations 1].
//
//	h⁰ = tanh(embedding + x·W + b),  hʳ⁺¹ = GRU(hʳ, messages(hʳ)),  y = σ(f(hᵀ, h⁰))·g(hᵀ)
func (n *Network) forward(t *tape, s *Step) *value {
	rows := make([]int, len(s.Kinds))
	for i, k := range s.Kinds {
		at, ok := n.kinds[k]
		if !ok {
			at = len(n.kinds)
		}
		rows[i] = at
	}
	first := t.tanh(t.sum(t.rows(n.embedding, rows), t.product(constant(n.seen(s.inputs)), n.input), n.inputBias))
	h := first
	if n.Rounds > 0 {
		gates := t.sigmoid(t.sum(t.product(constant(positionCodes()), n.gate), n.gateBias), 2)
		for range n.Rounds {
			h = n.update(t, h, n.messages(t, h, gates, s))
		}
	}
	share := t.sigmoid(t.sum(t.product(h, n.attention[0]), t.product(first, n.attention[1]), n.attentionBias), 1)
	return t.times(share, t.sum(t.product(h, n.output), n.outputBias))
}

// seen are the inputs that the network reads.
func (n *Network) seen(inputs *mat.Dense) *mat.Dense {
	if n.Machine {
		return inputs
	}
	out := mat.DenseCopyOf(inputs)
	rows, cols := out.Dims()
	for i := range rows {
		clear(out.RawRowView(i)[workInputs:cols])
	}
	return out
}

// messages are the mean messages into each vertex. The message along an edge w→v of a type is
//
//	W_type·(h_w ⊙ p(position)) + b_type
//
// with gates p = 2·σ(W_p·code(position) + b_p).
func (n *Network) messages(t *tape, h, gates *value, s *Step) *value {
	var parts []*value
	for f := range flows {
		parts = append(parts, t.product(t.gather(h, gates, s.edges[f]), n.message[f]), t.product(constant(s.shares[f]), n.messageBias[f]))
	}
	return t.sum(parts[0], parts[1:]...)
}

// update is the gated recurrent unit.
//
//	z = σ(m·W_z + h·U_z + b_z),  r = σ(m·W_r + h·U_r + b_r),  c = tanh(m·W_c + (r ⊙ h)·U_c + b_c)
//	h' = h + z ⊙ (c − h)
func (n *Network) update(t *tape, h, m *value) *value {
	part := func(p gatedPart, state *value) *value {
		return t.sum(t.product(m, p.message), t.product(state, p.state), p.bias)
	}
	z := t.sigmoid(part(n.unit[0], h), 1)
	r := t.sigmoid(part(n.unit[1], h), 1)
	c := t.tanh(part(n.unit[2], t.times(r, h)))
	negative := t.each(h, func(x float64) float64 { return -x }, func(float64) float64 { return -1 })
	return t.sum(h, t.times(z, t.sum(c, negative)))
}

// Predict returns the time of each operation.
//
// Unit: seconds.
func (n *Network) Predict(s *Step) []float64 {
	y := n.forward(&tape{}, s)
	out := make([]float64, len(s.Units))
	for i, u := range s.Units {
		out[i] = u * math.Exp(y.x.At(i, 0))
	}
	return out
}
