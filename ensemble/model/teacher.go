package model

import (
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/ensemble"
)

// WithTeacher gives a batch room for what a teacher says, if there is one.
func (b *Batch) WithTeacher(s Spec) {
	if s.Teach > 0 {
		b.TeacherShift, b.TeacherSigma = make([]float32, len(b.Spread)), make([]float32, len(b.Spread))
	}
}

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

// Teach writes what a teacher says of a start, means and standard deviations in physical units as targets are stored, to sample i of a
// batch: around the mean of the used members, in units of the error scale.
func (k *Task) Teach(b *Batch, i int, fc *ensemble.Forecast, used []int, mean, sigma []float32) error {
	p := fc.Grid.Size()
	return k.eachTarget(i, fc, used, func(at, out int, st Statistics) error {
		r := float32(1 / k.ErrorScale[at])
		for q := range p {
			shift, sigma := (mean[at*p+q]-st.Mean[q])*r, sigma[at*p+q]*r
			if shift-shift != 0 || sigma-sigma != 0 { // missing, where the weight is 0
				shift, sigma = 0, missingSigma
			}
			b.TeacherShift[out+q], b.TeacherSigma[out+q] = shift, sigma
		}
		return nil
	})
}
