package model

import (
	"github.com/ensemble-weather/ensemble/engine/ckpt"
	sharing "github.com/ensemble-weather/ensemble/engine/share"
)

// unshare builds the filters of the networks that were loaded, and makes the model that of plain networks.
func (m *Model) unshare(bad func(why string) error) error {
	p, err := m.Spec.SharePlan(&m.Task, m.Grid)
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
			if given[t.Name] = v; !p.Shared(t.Name) {
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
	m.Sharing, m.Spec.Share = p, sharing.Options{}
	return nil
}

// Unshared makes the description that of a model of plain networks.
func (f *Description) Unshared() {
	f.Spec.Share, f.Sharing = sharing.Options{}, nil
}
