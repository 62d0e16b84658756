package model

import (
	"fmt"
	"maps"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/ensemble"
)

// correctMembers converts the network's shifts to members in physical units, and computes their
// mean and standard deviation:
//
//	member = raw member + ErrorScale·shift     at least 0 for variables without negative values
//
// Shifts are in the order of the batch (m.order), the result in the order of the forecast's
// members.
//
// Unit: shifts in error scales, members in the unit of the variable.
// Missing: NaN where the raw member is NaN.
// Errors: exit 65 for a member that is not finite although the raw one is.
func (m *Model) correctMembers(out *Forecast, init ensemble.Init) error {
	k, b := m.Local, &m.Network.Batch
	d := len(k.Features.Axes.Levels)
	targets := len(k.Targets) * d
	p := len(m.Network.Batch.Spread) / targets
	members := len(m.order)
	shifts := out.Members
	out.Members = make([]float32, len(shifts))
	for i, member := range m.order {
		for at := range targets {
			v, _ := ensemble.VariableNamed(k.Targets[at/d].Variable)
			bounded, _ := v.NonNegative()
			e := float32(k.ErrorScale[at])
			from := (i*targets + at) * p
			to := out.Members[(member*targets+at)*p:][:p]
			for q := range to {
				x := b.Raw[from+q]
				y := x + e*shifts[from+q]
				if x == x && y-y != 0 {
					return notFiniteError(k, init, at, q, fmt.Sprintf("member %g, corrected by %g", x, e*shifts[from+q]))
				}
				if bounded && y < 0 {
					y = 0
				}
				to[q] = y
			}
		}
	}
	out.Mean, out.Sigma = make([]float32, targets*p), make([]float32, targets*p)
	for at := range targets {
		fields := make([][]float32, members)
		for i := range fields {
			fields[i] = out.Members[(i*targets+at)*p:][:p]
		}
		k.Features.MeanStd(out.Mean[at*p:(at+1)*p], out.Sigma[at*p:(at+1)*p], fields)
	}
	return nil
}

// TargetMembers returns the members of a target.
//
// Shape: [member][point].
// Memory: the result refers to f.Members.
func (f *Forecast) TargetMembers(at, targets, points int) (fields [][]float32) {
	for i := 0; i < len(f.Members); i += targets * points {
		fields = append(fields, f.Members[i+at*points:][:points])
	}
	return fields
}

// SetMemberCount prepares the model for a number of members. The network must be open. If the number
// changes, the network is compiled again, so there is memory for one number at a time.
//
// Errors: as Open.
func (m *Model) SetMemberCount(members int) error {
	if !m.Spec.ReadsMembers() || m.Spec.MemberCount(&m.Task) == members {
		return nil
	}
	if err := m.Network.Plan.Close(); err != nil {
		return err
	}
	maps.DeleteFunc(m.kept, func(at weightSlot, _ *engine.Snapshot) bool { return at.net == m.Network })
	m.Network, m.Spec = nil, m.Spec.WithMemberCount(members)
	return m.Open(m.options)
}

// SortMembers sorts the members of the batch's only sample into an order that does not depend on
// their numbers, so that the result is the same bit for bit. Ranks that share a field keep the
// order, as each sees a part of the fields.
//
// A network that treats members alike still sums them in their order, and sums of float32 depend on
// it.
func (m *Model) SortMembers(members int) {
	b := &m.Network.Batch
	if b.Members == nil {
		return
	}
	m.order = make([]int, members)
	for i := range m.order {
		m.order[i] = i
	}
	if m.Ranks == nil {
		m.order = ensemble.SortMembers(b.Members, members)
		if b.Raw != nil {
			ensemble.PermuteMembers(b.Raw, m.order)
		}
	}
}
