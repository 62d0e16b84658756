package network

import (
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// distillationLoss is the loss of a student network in knowledge distillation, with own its loss
// without teacher and t = Spec.TeacherWeight:
//
//	(1 − t)·own + t·mean of the Cramér distance between its distributions and the teacher's
func (s Spec) distillationLoss(b *graph.Builder, own graph.Value, h headOutputs, weight graph.Value) graph.Value {
	shape := h.parameters[0].Shape()
	d := op.NormalCramer(b, h.parameters[0], h.parameters[1], b.Input("teacher_shift", shape), b.Input("teacher_sigma", shape))
	taught := op.Scale(b, op.WeightedMean(b, d, weight), s.TeacherWeight)
	if s.TeacherWeight == 1 {
		return taught
	}
	return op.Add(b, op.Scale(b, own, 1-s.TeacherWeight), taught)
}
