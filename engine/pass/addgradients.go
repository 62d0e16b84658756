package pass

import (
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// LossScale is the input by which gradients are multiplied where they are stored in a type
// of few exponents: the smallest are lost otherwise.
const LossScale = "loss_scale"

// addGradients extends the graph by reverse accumulation.
func addGradients(u *Unit) error {
	if u.Infer || len(u.Graph.Grads) > 0 {
		return nil
	}
	if u.Precision != graph.Float16 {
		return u.Graph.AddGradients(op.Add)
	}
	return u.Graph.AddScaledGradients(func(b *graph.Builder, loss graph.Value) graph.Value {
		return op.Mul(b, loss, b.Input(LossScale, loss.Shape()))
	}, op.Add)
}
