package pass

import (
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// LossScale is the input that multiplies the loss before differentiation, if
// gradients are stored as float16. Without it small gradients would underflow.
//
// Source: Micikevicius et al. 2018, arXiv:1710.03740 (loss scaling).
const LossScale = "loss_scale"

// addGradients extends the graph by reverse-mode differentiation of the loss.
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
