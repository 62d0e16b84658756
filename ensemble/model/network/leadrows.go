package network

import (
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// HasLeadRows reports whether each row of the network's batch holds the fields of one lead: [N·T C
// D H W] or, with members, [N·M·T C D H W], leads innermost. All rows share the weights; networks
// over time combine information along the leads of a sample or member.
func (s Spec) HasLeadRows() bool { return s.Leads == config.BatchLeads }

// WithLeads returns the spec with the arrangement of leads from a configuration.
func (s Spec) WithLeads(c *config.TrainConfig) Spec {
	if c.Model.LeadsInBatch() {
		s.Leads, s.Conditions = config.BatchLeads, c.Model.Conditions
	}
	switch c.Model.NetworkKind().Section {
	case unet3d.RecurrentSection:
		s.Recurrent = unet3d.Recurrent(c.Model.Recurrent)
	case unet3d.AxialSection:
		s.Axial = unet3d.Axial(c.Model.Axial)
	}
	return s
}

// rowLeads lists the leads of the rows. Networks over time read all input leads, the others only
// target leads.
func (s Spec) rowLeads(k *task.Task) []ensemble.Lead {
	if s.NetworkKind().SpansLeads() {
		return k.Features.Axes.Leads
	}
	return k.TargetLeads()
}

// conditions returns the conditions of the rows' leads; without names they are empty.
func (s Spec) conditions(k *task.Task) task.Conditions {
	return k.NewConditions(s.Conditions, s.rowLeads(k))
}

// leadRows converts channels of leads to rows, and concatenates to each row what does not depend on
// the lead (location, season and auxiliary fields of the features) and the conditions of its lead.
// The lead is the outermost part of the channel index, so a reshape is sufficient.
//
// Shape: x [N·sets T·c D H W] with all input leads, features [N C D H W] → [N·sets·T' c+… D H W]
// for the T' leads of the rows.
func (s Spec) leadRows(b *graph.Builder, k *task.Task, x, features graph.Value, sets int) graph.Value {
	f, leads := &k.Features, s.rowLeads(k)
	all, t := len(f.Axes.Leads), len(leads)
	samples, each := x.Dim(0), x.Dim(1)/all
	d, h, w := x.Dim(2), x.Dim(3), x.Dim(4)
	if t < all {
		var parts []graph.Value
		for _, l := range leads {
			at := slices.Index(f.Axes.Leads, l)
			parts = append(parts, op.Slice(b, x, 1, at*each, (at+1)*each))
		}
		x = concat(b, parts)
	}
	parts := []graph.Value{op.Reshape(b, x, graph.Shape{samples * t, each, d, h, w})}
	if first := f.StatisticChannels(); first < f.Channels() {
		parts = append(parts, op.SetRepeat(b, op.Slice(b, features, 1, first, f.Channels()), sets*t))
	}
	if c := s.conditions(k); c.PerLead() > 0 {
		conditions := b.Input("conditions", graph.Shape{features.Dim(0), t * c.PerLead(), 1, 1, 1})
		if sets > 1 {
			conditions = op.SetRepeat(b, conditions, sets)
		}
		conditions = op.Reshape(b, conditions, graph.Shape{samples * t, c.PerLead(), 1, 1, 1})
		zeros := op.Scale(b, op.Slice(b, parts[0], 1, 0, 1), 0)
		parts = append(parts, op.Add(b, zeros, conditions))
	}
	return concat(b, parts)
}

// concat concatenates channels.
func concat(b *graph.Builder, parts []graph.Value) graph.Value {
	if len(parts) == 1 {
		return parts[0]
	}
	return op.Concat(b, 1, parts...)
}

// toTargetOrder brings the output of rows into the order of targets, with each outputs per target.
// Leads of the rows that are no target leads are dropped.
//
// Shape: y [N·T each·V D H W] → [N each·T'·V D H W] for the T' target leads, as
// [each][lead][variable].
func (s Spec) toTargetOrder(b *graph.Builder, k *task.Task, y graph.Value, each int) graph.Value {
	leads, vars := s.rowLeads(k), len(k.TargetVariables())
	y = op.Reshape(b, y, graph.Shape{y.Dim(0) / len(leads), len(leads) * each * vars, y.Dim(2), y.Dim(3), y.Dim(4)})
	targetLeads := k.TargetLeads()
	if each == 1 && slices.Equal(targetLeads, leads) {
		return y
	}
	var parts []graph.Value
	for i := range each {
		for _, l := range targetLeads {
			at := (slices.Index(leads, l)*each + i) * vars
			parts = append(parts, op.Slice(b, y, 1, at, at+vars))
		}
	}
	return concat(b, parts)
}

// rowsBody returns the body of a network with leads in rows.
func (s Spec) rowsBody(k *task.Task, wrap bool) unet3d.Body {
	return func(b *graph.Builder, x graph.Value, out int) graph.Value {
		each := out / len(k.Targets)
		rows := s.leadRows(b, k, op.Slice(b, x, 1, 0, k.Features.StatisticChannels()), x, 1)
		return s.toTargetOrder(b, k, s.rowNetwork(b, k, rows, each*len(k.TargetVariables()), 1, wrap), each)
	}
}

// rowNetwork applies the network to rows of leads. together is the number of consecutive members
// that may attend to each other, if the network has attention over members.
//
// Shape: x [N·together·T C D H W] → [N·together·T out D H W].
func (s Spec) rowNetwork(b *graph.Builder, k *task.Task, x graph.Value, out, together int, wrap bool) graph.Value {
	l := s.layout(wrap)
	l.Out, l.Members, l.Leads = out, together, len(s.rowLeads(k))
	l.Condition, l.LeadConditioned = unet3d.FiLM{Conditions: s.conditions(k).PerLead()}, s.hasLeadCondition()
	return s.NetworkKind().Build(b, x, l)
}

// hasLeadCondition reports whether the conditions include the lead. Otherwise attention trains an
// embedding of the lead's position.
func (s Spec) hasLeadCondition() bool {
	return slices.Contains(s.Conditions, config.LeadCondition)
}

// AcceptsFewerLeads reports whether the network can be applied to a subset of its leads: leads are in
// rows, and no parameter depends on their number or position.
func (s Spec) AcceptsFewerLeads() bool {
	return s.HasLeadRows() && s.PredictsMembers() && !s.Head.Members.Maps && (s.hasLeadCondition() || !s.NetworkKind().SpansLeads())
}
