package config

import (
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Calibrate says what is calibrated on the validation starts: the whole distribution, and probabilities.
type Calibrate struct {
	Distribution  string                   `key:"distribution"`
	Probabilities string                   `key:"probabilities"`
	Events        []ensemble.VariableEvent `key:"events"`
}

// Ways to calibrate probabilities; StudentCalibration is one of distributions.
const (
	NoCalibration          = "none"
	StudentCalibration     = "student"
	IsotonicCalibration    = "isotonic"
	ReliabilityCalibration = "reliability"
)

// calibrateKeys are the rows of Calibrate.
func calibrateKeys() []Key {
	return []Key{
		{Path: "calibrate.distribution", Default: NoCalibration, Check: OneOf(NoCalibration, StudentCalibration), Example: StudentCalibration,
			Help: "Whether the distribution is calibrated on the validation starts: student gives a normal head the spread that its error has there, and Student's tails."},
		{Path: "calibrate.probabilities", Default: NoCalibration, Check: OneOf(NoCalibration, IsotonicCalibration, ReliabilityCalibration), Example: IsotonicCalibration,
			Help: "Whether probabilities of events are calibrated on the validation starts, for `predict`: isotonic by isotonic regression, reliability by a reliability table."},
		{Path: "calibrate.events", Example: "[t2m>273.15, \"tp>5 mm\"]",
			Help: "Events whose probabilities are calibrated: a target above or below a limit. Limits without a unit are SI."},
	}
}

// checkCalibrate applies the rules between keys of calibrate and others.
func (c *TrainConfig) checkCalibrate() []*exit.Error {
	var faults []*exit.Error
	add := func(path, what, why, fix string) { faults = append(faults, c.fault(path, what, why, fix)) }
	k := c.Calibrate
	if k.Distribution != NoCalibration {
		c.checkDistribution(add)
	}
	if k.Probabilities == NoCalibration {
		if len(k.Events) > 0 {
			add("calibrate.events", "events are named and no probability is calibrated", "calibrate.probabilities is "+NoCalibration, "set calibrate.probabilities: isotonic, or remove the events")
		}
		return faults
	}
	if len(k.Events) == 0 {
		add("calibrate.events", "probabilities are calibrated without an event", "each event has a calibration of its own", "name events, such as [t2m>273.15]")
	}
	if c.Model.Head != DistributionHead {
		add("calibrate.probabilities", "head "+string(c.Model.Head)+" has no probabilities", "", "set model.head: distribution, or calibrate.probabilities: none")
	}
	for _, q := range k.Events {
		if !slices.ContainsFunc(c.Data.Targets, func(t Target) bool { return t.Variable == q.Variable }) {
			add("calibrate.events", "event "+q.String()+" is of no target", "the targets are "+strings.Join(targetNames(c.Data.Targets), ", "), "name events of data.targets")
		}
		if q.Event.Relation == ensemble.Between {
			add("calibrate.events", "event "+q.String()+" has two limits", "its probability follows from those of its limits", "name an event above each of the limits")
		}
	}
	return faults
}

// checkDistribution refuses to calibrate what is not a normal distribution.
func (c *TrainConfig) checkDistribution(add func(path, what, why, fix string)) {
	const path, none = "calibrate.distribution", ", or calibrate.distribution: none"
	if c.Model.Head != DistributionHead {
		add(path, "head "+string(c.Model.Head)+" gives no distribution to calibrate", "", "set model.head: distribution"+none)
	} else if c.Model.Family != NormalFamily {
		add(path, "family "+string(c.Model.Family)+" is not calibrated", "Student's t distribution stands for a normal one", "set model.family: "+string(NormalFamily)+none)
	}
	for _, t := range c.Data.Targets {
		if v, known := ensemble.VariableNamed(t.Variable); known {
			if bounded, _ := v.NonNegative(); bounded {
				add(path, "the distribution of "+t.Variable+" is not calibrated", "none of its values is below 0, where Student's t distribution reaches",
					"train "+t.Variable+" by itself with a family of values from 0 on"+none)
			}
		}
	}
}

func targetNames(targets []Target) []string {
	out := make([]string, len(targets))
	for i, t := range targets {
		out[i] = t.Variable
	}
	return out
}
