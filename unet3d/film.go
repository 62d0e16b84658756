package unet3d

import (
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// FiLM (feature-wise linear modulation) changes features by conditions, numbers that describe each
// row of the batch: its lead, the day of the year, the hour. One network thus serves all of them:
//
//	code = ReLU(W₀·conditions + b₀)
//	y = x·(1 + W·code + b) + (W'·code + b')        W, b, W', b' are initialised with 0
//
// so that an untrained FiLM changes nothing. Conditions are given as constant fields in the last
// channels of the network's input. Their mean over the field is used, without padding.
//
// Source: Perez et al. 2018, arXiv:1709.07871.
type FiLM struct {
	Conditions int // number of channels with conditions; 0 means no conditions and no parameters
	Hidden     int // length of the code; 0 means 16
	// share is the share of the field that is not padded with zeros; 0 means all.
	share float64
}

// withDefaults sets the default length of the code.
func (f FiLM) withDefaults() FiLM {
	if f.Hidden == 0 {
		f.Hidden = 16
	}
	return f
}

// Code computes the code of each row of x, which all layers of a network share. Without conditions
// it is an invalid value.
//
// Shape: x [N C D H W] → [N Hidden 1 1 1]; parameters condition.weight and condition.bias.
// Errors: in the builder: ErrShape if there are more conditions than channels.
func (f FiLM) Code(b *graph.Builder, x graph.Value) graph.Value { return f.code(newSharedParams(b), x) }

// code is Code with shared parameters.
func (f FiLM) code(p sharedParams, x graph.Value) graph.Value {
	f = f.withDefaults()
	if f.Conditions == 0 {
		return graph.Value{}
	}
	c := op.Mean(p.b, op.Slice(p.b, x, 1, x.Dim(1)-f.Conditions, x.Dim(1)), 2, 3, 4)
	if f.share > 0 && f.share < 1 {
		c = op.Scale(p.b, c, 1/f.share)
	}
	return op.ReLU(p.b, p.linear("condition", c, f.Hidden, graph.HeNormal(f.Conditions)))
}

// Build modulates features x by the code of their rows. Its parameters are name.film.weight and
// name.film.bias. Without a code it returns x.
//
// Shape: x [N C D H W], code [N Hidden 1 1 1] → [N C D H W].
func (f FiLM) Build(b *graph.Builder, name string, x, code graph.Value) graph.Value {
	return f.build(newSharedParams(b), name, x, code)
}

// build is Build with shared parameters.
func (f FiLM) build(p sharedParams, name string, x, code graph.Value) graph.Value {
	if !code.Valid() {
		return x
	}
	c := x.Dim(1)
	h := p.linear(name+".film", code, 2*c, graph.Zeros())
	y := op.Mul(p.b, x, op.AddScalar(p.b, op.Slice(p.b, h, 1, 0, c), 1))
	return op.Add(p.b, y, op.Slice(p.b, h, 1, c, 2*c))
}

// parameters is the number of trained values for layers of the given widths.
func (f FiLM) parameters(widths ...int) (n int) {
	f = f.withDefaults()
	if f.Conditions == 0 {
		return 0
	}
	for _, w := range widths {
		n += 2 * w * (f.Hidden + 1)
	}
	return n + (f.Conditions+1)*f.Hidden
}
