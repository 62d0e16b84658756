package model

import (
	"github.com/ensemble-weather/ensemble/engine/ckpt"
	sharing "github.com/ensemble-weather/ensemble/engine/share"
)

// buildFilters computes the filters of the loaded networks from their shared parameters, after
// which the model is one without sharing.
//
// Prediction then needs the memory of all filters, and no operation that builds them. Without
// sharing nothing changes.
//
// Errors: those of bad for weights that do not match the plan.
func (m *Model) buildFilters(bad func(why string) error) error {
	p, err := m.Spec.SharingPlan(&m.Task, m.Grid)
	if p == nil || err != nil {
		return err
	}
	for i, w := range m.Networks {
		given := map[string][]float32{}
		var plain Weights
		for _, t := range w {
			v, err := t.Float32()
			if err != nil {
				return bad(err.Error())
			}
			if given[t.Name] = v; !p.IsShared(t.Name) {
				plain = append(plain, t)
			}
		}
		filters, err := p.Weights(func(name string) ([]float32, bool) { v, ok := given[name]; return v, ok })
		if err != nil {
			return bad(err.Error())
		}
		for _, l := range p.Layers {
			if v, ok := filters[l.Name]; ok {
				plain = append(plain, ckpt.Tensor{Name: l.Name, Shape: l.Shape, Data: v})
			}
		}
		m.Networks[i] = plain
	}
	m.Sharing, m.Spec.Sharing = p, sharing.Options{}
	return nil
}

// LearnGroups stores the groups of layers that the trained coefficients of the first network show, if they are softmax
// coefficients, in Sharing.
//
// Errors: weights that do not match the plan.
func (m *Model) LearnGroups() (err error) {
	if m.Sharing == nil || m.Spec.Sharing.Coefficients != sharing.Softmax {
		return nil
	}
	given := map[string][]float32{}
	for _, t := range m.Networks[0] {
		if given[t.Name], err = t.Float32(); err != nil {
			return err
		}
	}
	m.Sharing.Learned, err = m.Sharing.LearnGroups(func(name string) ([]float32, bool) { v, ok := given[name]; return v, ok })
	return err
}

// ClearSharing removes parameter sharing from the description. Its weights must be the computed
// filters then.
func (f *Description) ClearSharing() {
	f.Spec.Sharing, f.Sharing = sharing.Options{}, nil
}
