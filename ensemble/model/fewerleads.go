package model

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// takesFewerLeads tells whether the network reads any of its leads: they are in rows, nothing is learned of
// their number, and no map is of one of them.
func (s Spec) takesFewerLeads() bool {
	return s.InRows() && s.GivesMembers() && !s.Maps && (s.toldLeads() || !config.OverTime(s.Kind))
}

// ReadOnly makes of the model one that reads some of its leads, and predicts the target leads among them.
//
// Errors: exit 64 for leads that it has not, none that it predicts, and networks that need all.
func (m *Model) ReadOnly(leads []ensemble.Lead) error {
	k := &m.Task
	all := k.Features.Axes.Leads
	refuse := func(what, why, fix string) error {
		return &exit.Error{Code: exit.Usage, What: what, At: "leads", Why: why, Fix: fix}
	}
	switch {
	case leads == nil || slices.Equal(leads, all):
		return nil
	case !slices.IsSorted(leads) || len(slices.Compact(slices.Clone(leads))) < len(leads) || slices.ContainsFunc(leads, func(l ensemble.Lead) bool { return !slices.Contains(all, l) }):
		return refuse("leads are asked for that the model does not read", fmt.Sprintf("%s of %s", LeadWords(leads), LeadWords(all)), "give some of these, ascending")
	case !m.Spec.takesFewerLeads():
		return refuse(fmt.Sprintf("%s needs all of its %d leads", m.Spec.Kind, len(all)), "it was trained for this number of them",
			"leave leads out, or train members without maps, with leads in rows (model.leads) that are told apart by model.conditions: [lead]")
	case config.OverTime(m.Spec.Kind) && len(leads) < 2:
		return refuse(fmt.Sprintf("%s works along leads, and there is %d", m.Spec.Kind, len(leads)), "", "give two or more")
	case !slices.ContainsFunc(k.TargetLeads(), func(l ensemble.Lead) bool { return slices.Contains(leads, l) }):
		return refuse("no lead is read that is predicted", "the model predicts "+m.Targets(), "add one of these leads")
	}
	d, vars := len(k.Features.Axes.Levels), len(k.Features.Axes.Variables)
	var inputs, targets []int // places that stay, of features and of targets
	for _, l := range leads {
		for i := range vars * d {
			inputs = append(inputs, slices.Index(all, l)*vars*d+i)
		}
	}
	for v, t := range k.Targets {
		for l := range d {
			if slices.Contains(leads, t.Lead) {
				targets = append(targets, v*d+l)
			}
		}
	}
	k.horizon = slices.Max(all)
	k.Features.Axes.Leads = leads
	k.Features.Fields, k.Features.Spreads = ensemble.Pick(k.Features.Fields, inputs), ensemble.Pick(k.Features.Spreads, inputs)
	if maps := k.Features.Maps; maps != nil {
		k.Features.Maps = func(i int, n *ensemble.Normaliser) error { return maps(inputs[i], n) }
	}
	k.Targets = slices.DeleteFunc(slices.Clone(k.Targets), func(t Target) bool { return !slices.Contains(leads, t.Lead) })
	k.Score, k.ErrorScale, k.SpreadScale, k.SpreadAffine = ensemble.Pick(k.Score, targets), ensemble.Pick(k.ErrorScale, targets), ensemble.Pick(k.SpreadScale, targets), ensemble.Pick(k.SpreadAffine, targets)
	k.Centre, k.Width = ensemble.Pick(k.Centre, targets), ensemble.Pick(k.Width, targets)
	if m.Baselines != nil {
		m.Baselines = ensemble.Pick(m.Baselines, targets)
	}
	return nil
}

// ReadsFewer tells whether the task reads fewer leads than it was trained on.
func (k *Task) ReadsFewer() bool { return k.horizon > 0 }
