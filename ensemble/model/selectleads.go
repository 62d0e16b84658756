package model

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// SelectLeads makes of the model one that reads some of its leads, and predicts the target leads among them.
//
// Errors: exit 64 for leads that it has not, none that it predicts, and networks that need all.
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
		return refuse("leads are asked for that the model does not read", fmt.Sprintf("%s of %s", task.FormatLeads(leads), task.FormatLeads(all)), "give some of these, ascending")
	case !m.Spec.AcceptsFewerLeads():
		return refuse(fmt.Sprintf("%s needs all of its %d leads", m.Spec.Kind, len(all)), "it was trained for this number of them",
			"leave leads out, or train members without maps, with leads in rows (model.leads) that are told apart by model.conditions: [lead]")
	case m.Spec.NetworkKind().SpansLeads() && len(leads) < 2:
		return refuse(fmt.Sprintf("%s works along leads, and there is %d", m.Spec.Kind, len(leads)), "", "give two or more")
	case !slices.ContainsFunc(k.TargetLeads(), func(l ensemble.Lead) bool { return slices.Contains(leads, l) }):
		return refuse("no lead is read that is predicted", "the model predicts "+m.DescribeTargets(), "add one of these leads")
	}
	targets := k.SelectLeads(leads)
	if m.Baselines != nil {
		m.Baselines = ensemble.Take(m.Baselines, targets)
	}
	return nil
}
