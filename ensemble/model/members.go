package model

import (
	"cmp"
	"context"
	"fmt"
	"maps"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// memberOutput describes the members of the predictions of a network that corrects members.
type memberOutput struct {
	order []int // position in the forecast of each member in the batch
	count int   // number of members; 0: as many as are read
}

// DrawMembers sets the number of members of predictions; 0 is that of the members that are read, M. Member j, from
// 0, is member j mod M of the input, corrected with draw ⌊j/M⌋ of its noise. A further member changes no bit of those before it.
// It is called before Open.
//
// Errors: exit 64 if the network gives one member for each that it reads.
func (m *Model) DrawMembers(count int) error {
	if count > 0 && !(m.Spec.PredictsMembers() && m.Task.Features.HasNoise()) {
		why, fix := "the network predicts a distribution or a spread", "set coupling.method: schaake, or remove coupling.count; or train with model.head: members and model.encoder.input: [field, noise]"
		if m.Spec.PredictsMembers() {
			why, fix = "the network corrects each raw member once, as its members have no noise", "remove coupling.count, or train with model.encoder.input: [field, noise]"
		}
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("the model cannot draw %d members", count), At: "coupling.count", Why: why, Fix: fix}
	}
	m.output.count = count
	return nil
}

// memberCount is the number of members of a prediction.
func (m *Model) memberCount() int { return cmp.Or(m.output.count, m.Spec.MemberCount(&m.Task)) }

// memberShifts runs the networks for each draw of noise.
//
// Shape: [draw][member][lead][variable][level][NY·NX], in the order of the batch.
// Unit: error scales.
// Errors: those of the networks' plans.
func (m *Model) memberShifts(ctx context.Context) (shifts [][]float32, err error) {
	b := &m.Network.Batch
	members := m.Spec.MemberCount(&m.Task)
	for draw := range (m.memberCount() + members - 1) / members {
		if draw > 0 {
			in := b.MemberInput()
			in.Noise.Draw = draw
			m.Local.Features.Redraw(in, members)
		}
		sum := make([]float32, len(b.Raw))
		if err := m.average(ctx, map[string][]float32{network.OutMembers: sum}, nil); err != nil {
			return nil, err
		}
		shifts = append(shifts, sum)
	}
	return shifts, nil
}

// correctMembers converts the shifts of all draws to members in physical units, and computes their
// mean and standard deviation:
//
//	member = raw member + ErrorScale·shift     at least 0 for variables without negative values
//
// Shifts are in the order of the batch (m.output.order), the result in the order of the forecast's
// members, once for each draw.
//
// Unit: shifts in error scales, members in the unit of the variable.
// Missing: NaN where the raw member is NaN.
// Errors: exit 65 for a member that is not finite although the raw one is.
func (m *Model) correctMembers(out *Forecast, shifts [][]float32, init ensemble.Init) error {
	k, b := m.Local, &m.Network.Batch
	d := len(k.Features.Axes.Levels)
	targets := len(k.Targets) * d
	p := len(m.Network.Batch.Spread) / targets
	members := m.memberCount()
	out.Members = make([]float32, members*targets*p)
	for j := range len(shifts) * len(m.output.order) {
		draw, i := j/len(m.output.order), j%len(m.output.order)
		member := draw*len(m.output.order) + m.output.order[i]
		if member >= members { // of the last draw
			continue
		}
		for at := range targets {
			v, _ := ensemble.VariableNamed(k.Targets[at/d].Variable)
			bounded, _ := v.NonNegative()
			e := float32(k.ErrorScale[at])
			from := (i*targets + at) * p
			to := out.Members[(member*targets+at)*p:][:p]
			for q := range to {
				x := b.Raw[from+q]
				y := x + e*shifts[draw][from+q]
				if x == x && y-y != 0 {
					return notFiniteError(k, init, at, q, fmt.Sprintf("member %g, corrected by %g", x, e*shifts[draw][from+q]))
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
	m.output.order = make([]int, members)
	for i := range m.output.order {
		m.output.order[i] = i
	}
	if m.Ranks == nil {
		m.output.order = ensemble.SortMembers(b.Members, members)
		for _, x := range [][]float32{b.Raw, b.Noise.Fields} {
			if x != nil {
				ensemble.PermuteMembers(x, m.output.order)
			}
		}
	}
}
