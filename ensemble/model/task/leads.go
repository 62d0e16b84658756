package task

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/humanise"
)

// Target is a predicted variable at a lead, on all levels of the task.
type Target struct {
	Variable string
	Lead     ensemble.Lead
}

// targetJSON is the JSON form of a Target, with the lead as text such as "48h".
type targetJSON struct {
	Variable string `json:"variable"`
	Lead     string `json:"lead"`
}

// MarshalJSON writes the lead as in configuration files.
func (t Target) MarshalJSON() ([]byte, error) {
	return json.Marshal(targetJSON{t.Variable, t.Lead.String()})
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (t *Target) UnmarshalJSON(text []byte) error {
	var f targetJSON
	if err := json.Unmarshal(text, &f); err != nil {
		return err
	}
	lead, err := time.ParseDuration(f.Lead)
	*t = Target{f.Variable, ensemble.Lead(lead)}
	return err
}

// CrossTargets combines all variables with all leads.
//
// Shape: [lead][variable].
func CrossTargets(variables []string, leads []ensemble.Lead) (out []Target) {
	for _, l := range leads {
		for _, v := range variables {
			out = append(out, Target{v, l})
		}
	}
	return out
}

// TargetLeads lists the leads of the targets, ascending.
func (k *Task) TargetLeads() (out []ensemble.Lead) {
	for _, t := range k.Targets {
		if !slices.Contains(out, t.Lead) {
			out = append(out, t.Lead)
		}
	}
	return out
}

// TargetVariables lists the variables of the targets, which are the same at each lead.
func (k *Task) TargetVariables() (out []string) {
	for _, t := range k.Targets {
		if !slices.Contains(out, t.Variable) {
			out = append(out, t.Variable)
		}
	}
	return out
}

// TargetName is the name of a target in messages, such as "t at 850hPa for 48h". The lead is
// included if there are several.
func (k *Task) TargetName(at int) string {
	d := len(k.Features.Axes.Levels)
	t := k.Targets[at/d]
	text := fmt.Sprintf("%s at %s", t.Variable, k.Features.Axes.Levels[at%d])
	if len(k.TargetLeads()) > 1 {
		text += fmt.Sprintf(" for %s", t.Lead)
	}
	return text
}

// FormatLeads formats a list of leads.
func FormatLeads(leads []ensemble.Lead) string { return strings.Join(humanise.Strings(leads), ", ") }

// ChannelName is the name of a target in lists of channels. The lead is included if there are
// several.
func (k *Task) ChannelName(t Target) string {
	if len(k.TargetLeads()) == 1 {
		return t.Variable
	}
	return fmt.Sprintf("%s at %s", t.Variable, t.Lead)
}

// TargetIndex is the index of a target at a level, in storage order.
func (k *Task) TargetIndex(t Target, level ensemble.Level) int {
	levels := k.Features.Axes.Levels
	return slices.Index(k.Targets, t)*len(levels) + ensemble.FindLevel(levels, t.Variable, level)
}

// SelectLeads restricts the task to some of its input leads and to the targets at these leads. It
// returns the previous indices of the remaining targets.
//
// The condition "lead" stays scaled by the longest lead of the training, so that the network gets
// the same numbers for a lead as in training.
func (k *Task) SelectLeads(leads []ensemble.Lead) (targets []int) {
	all, d, vars := k.Features.Axes.Leads, len(k.Features.Axes.Levels), len(k.Features.Axes.Variables)
	var inputs []int // previous indices of the remaining features
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
	k.trainedHorizon = slices.Max(all)
	k.Features.Axes.Leads = leads
	k.Features.Fields, k.Features.Spreads = ensemble.Take(k.Features.Fields, inputs), ensemble.Take(k.Features.Spreads, inputs)
	if maps := k.Features.Maps; maps != nil {
		k.Features.Maps = func(i int, n *ensemble.Normaliser) error { return maps(inputs[i], n) }
	}
	k.Targets = slices.DeleteFunc(slices.Clone(k.Targets), func(t Target) bool { return !slices.Contains(leads, t.Lead) })
	k.TargetWeights, k.ErrorScale, k.SpreadScale, k.SpreadAffine = ensemble.Take(k.TargetWeights, targets), ensemble.Take(k.ErrorScale, targets), ensemble.Take(k.SpreadScale, targets), ensemble.Take(k.SpreadAffine, targets)
	k.Centre, k.Width, k.LargestSpread = ensemble.Take(k.Centre, targets), ensemble.Take(k.Width, targets), ensemble.Take(k.LargestSpread, targets)
	if k.LargestError != nil {
		k.LargestError = ensemble.Take(k.LargestError, targets)
	}
	return targets
}

// HasFewerLeads reports whether the task reads fewer leads than in training.
func (k *Task) HasFewerLeads() bool { return k.trainedHorizon > 0 }
