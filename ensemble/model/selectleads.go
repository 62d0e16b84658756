package model

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// SelectLeads restricts the model to some of its input leads, and to the target leads among them.
//
// nil selects all leads. Task and baselines are changed in place; the other leads are lost until the
// model is loaded again.
//
// Errors: exit 64 for leads that the model does not have, for a selection without target leads, and
// for networks that need all leads.
func (m *Model) SelectLeads(leads []ensemble.Lead) error {
	k := &m.Task
	all := k.Features.Axes.Leads
	refuse := func(what, why, fix string) error {
		return &exit.Error{Code: exit.Usage, What: what, At: "leads", Why: why, Fix: fix}
	}
	switch {
	case leads == nil || slices.Equal(leads, all):
		return nil
	case !slices.IsSorted(leads) || len(slices.Compact(slices.Clone(leads))) < len(leads) || slices.ContainsFunc(leads, func(l ensemble.Lead) bool { return !slices.Contains(all, l) }):
		return refuse("the model does not have the requested leads", fmt.Sprintf("requested %s, available %s", task.FormatLeads(leads), task.FormatLeads(all)), "give some of these in ascending order")
	case !m.Spec.AcceptsFewerLeads():
		return refuse(fmt.Sprintf("%s needs all of its %d leads", m.Spec.Kind, len(all)), "the network was trained for this number of leads",
			"omit leads; or train with model.head: members without model.maps, model.lead_axis: batch and model.conditions: [lead]")
	case m.Spec.NetworkKind().SpansLeads() && len(leads) < 2:
		return refuse(fmt.Sprintf("%s needs at least two leads, got %d", m.Spec.Kind, len(leads)), "", "give two or more leads")
	case !slices.ContainsFunc(k.TargetLeads(), func(l ensemble.Lead) bool { return slices.Contains(leads, l) }):
		return refuse("the requested leads contain no target lead", "the model predicts "+m.DescribeTargets(), "add one of these leads")
	}
	targets := k.SelectLeads(leads)
	if m.Baselines != nil {
		m.Baselines = ensemble.Take(m.Baselines, targets)
	}
	return nil
}
