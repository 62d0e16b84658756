package config

import (
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config/schema"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Calibrate is the section calibrate: post-hoc calibration of the distribution and of event
// probabilities, fitted to the validation data.
type Calibrate struct {
	Distribution  string                   `key:"distribution"`
	Probabilities string                   `key:"probabilities"`
	Events        []ensemble.VariableEvent `key:"events"`
}

// Calibration methods: StudentCalibration for distributions, IsotonicCalibration and
// ReliabilityCalibration for probabilities.
const (
	NoCalibration          = "none"
	StudentCalibration     = "student"
	IsotonicCalibration    = "isotonic"
	ReliabilityCalibration = "reliability"
)

// calibrateKeys are the rows of Calibrate.
func calibrateKeys() []schema.Key {
	return []schema.Key{
		{Path: "calibrate.distribution", Default: NoCalibration, Check: OneOf(NoCalibration, StudentCalibration), Example: StudentCalibration,
			Help: "Calibration of the distribution on the validation data. student: a normal distribution becomes Student's t with the spread and the tails of the validation errors."},
		{Path: "calibrate.probabilities", Default: NoCalibration, Check: OneOf(NoCalibration, IsotonicCalibration, ReliabilityCalibration), Example: IsotonicCalibration,
			Help: "Calibration of event probabilities on the validation data, applied by `ensemble predict`: isotonic regression, or a reliability table."},
		{Path: "calibrate.events", Example: "[t2m>273.15, \"tp>5 mm\"]",
			Help: "Events whose probabilities are calibrated: a target, or a target at a level, above or below a threshold. Thresholds without a unit are in SI units."},
	}
}

// checkCalibrate checks the section calibrate against the head and the targets.
func (c *TrainConfig) checkCalibrate() []*exit.Error {
	var faults []*exit.Error
	add := func(path, what, why, fix string) { faults = append(faults, c.Fault(path, what, why, fix)) }
	k := c.Calibrate
	if k.Distribution != NoCalibration {
		c.checkDistribution(add)
	}
	if k.Probabilities == NoCalibration {
		if len(k.Events) > 0 {
			add("calibrate.events", "calibrate.events without calibration of probabilities", "calibrate.probabilities is "+NoCalibration, "set calibrate.probabilities: isotonic, or remove the events")
		}
		return faults
	}
	if len(k.Events) == 0 {
		add("calibrate.events", "calibrate.probabilities without events", "each event has its own calibration", "add events, such as [t2m>273.15]")
	}
	if c.Model.Head != DistributionHead {
		add("calibrate.probabilities", "head "+string(c.Model.Head)+" predicts no probabilities", "", "set model.head: distribution, or calibrate.probabilities: none")
	}
	for _, q := range k.Events {
		if !slices.ContainsFunc(c.Data.Targets, func(t Target) bool {
			return slices.ContainsFunc(t.Levels, func(l ensemble.Level) bool { return q.Matches(t.Variable, l) })
		}) {
			add("calibrate.events", "event "+q.String()+" is not about a target", "the targets are "+strings.Join(targetNames(c.Data.Targets), ", "), "use variables and levels of data.targets")
		}
		if q.Event.Relation == ensemble.Between {
			add("calibrate.events", "event "+q.String()+" has two thresholds", "its probability follows from those of both thresholds", "give one event for each threshold")
		}
	}
	return faults
}

// checkDistribution checks that the distribution to calibrate is normal and unbounded.
func (c *TrainConfig) checkDistribution(add func(path, what, why, fix string)) {
	const path, none = "calibrate.distribution", ", or calibrate.distribution: none"
	if c.Model.Head != DistributionHead {
		add(path, "head "+string(c.Model.Head)+" predicts no distribution to calibrate", "", "set model.head: distribution"+none)
	} else if c.Model.Family != NormalFamily {
		add(path, "family "+string(c.Model.Family)+" cannot be calibrated", "Student's t distribution replaces a normal distribution", "set model.family: "+string(NormalFamily)+none)
	}
	for _, t := range c.Data.Targets {
		if v, known := ensemble.VariableNamed(t.Variable); known {
			if bounded, _ := v.NonNegative(); bounded {
				add(path, "the distribution of "+t.Variable+" cannot be calibrated", "it is never below 0, but Student's t distribution is unbounded",
					"train "+t.Variable+" separately with a non-negative family"+none)
			}
		}
	}
}

// targetNames lists the variables of targets.
func targetNames(targets []Target) []string {
	out := make([]string, len(targets))
	for i, t := range targets {
		out[i] = t.Variable
	}
	return out
}
