package network

import (
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// taughtLoss is the loss of a student: less of its own, and the distance of its distributions to those of the teacher.
func (s Spec) taughtLoss(b *graph.Builder, own graph.Value, h head, weight graph.Value) graph.Value {
	shape := h.parameters[0].Shape()
	d := op.NormalCramer(b, h.parameters[0], h.parameters[1], b.Input("teacher_shift", shape), b.Input("teacher_sigma", shape))
	taught := op.Scale(b, op.WeightedMean(b, d, weight), s.Teach)
	if s.Teach == 1 {
		return taught
	}
	return op.Add(b, op.Scale(b, own, 1-s.Teach), taught)
}
