package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config/schema"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// StatisticChoice is an item of data.statistics: the statistic over time of a variable.
type StatisticChoice struct {
	Variable  string        `key:"variable"`
	Statistic string        `key:"statistic"` // "": any
	Interval  ensemble.Lead `key:"interval"`  // 0: any
}

// InstantStatistic selects fields at an instant.
const InstantStatistic = "instant"

// statisticNames lists the statistics over time that can be selected, as CF cell methods.
var statisticNames = []string{InstantStatistic, "sum", "mean", "maximum", "minimum"}

// Intervals is data.intervals: AsInFiles, FromStart or a duration.
type Intervals string

// Values of Intervals that are no duration.
const (
	AsInFiles Intervals = "as_is"
	FromStart Intervals = "from_start"
)

// Length returns the duration; 0 if it is not one.
func (i Intervals) Length() ensemble.Lead {
	d, _ := ParseDuration(string(i)) // checked when the file is loaded; other words have no duration
	return ensemble.Lead(d)
}

// statisticKeys are the keys of statistics over time.
func statisticKeys() []schema.Key {
	const help = "Statistic over time of the fields, where files have several of the variable: "
	return []schema.Key{
		{Path: "data.statistics", Example: "[{variable: 2t, statistic: maximum, interval: 24h}]",
			Help: "Statistics over time of input variables that are not targets, where files have several at one lead."},
		{Path: "data.statistics[].variable", Required: true, Example: "2t",
			Help: "One of data.variables."},
		{Path: "data.statistics[].statistic", Check: OneOf(statisticNames...), Example: "maximum",
			Help: help + strings.Join(statisticNames, ", ") + ". Default: any."},
		{Path: "data.statistics[].interval", Check: Above(0), Example: "24h",
			Help: "Length of the interval that ends at the valid time. It also applies to fields that do not state theirs. Default: any."},
		{Path: "data.targets[].statistic", Check: OneOf(statisticNames...), Example: "sum",
			Help: help + strings.Join(statisticNames, ", ") + ". Default: any."},
		{Path: "data.targets[].interval", Check: Above(0), Example: "24h",
			Help: "Length of the interval that ends at the valid time, as data.statistics[].interval. Default: any."},
		{Path: "data.intervals", Default: string(AsInFiles), Example: "24h",
			Help: "Intervals of sums, means and extremes. as_is: those of the files; a duration such as 24h: all have this length; from_start: from the initialisation to the lead. Missing ones are computed from consecutive intervals, and sums and means also from two with the same start. Analyses are treated likewise."},
	}
}

// checkStatistics checks the choices of statistics over time.
func (c *TrainConfig) checkStatistics() []*exit.Error {
	var faults []*exit.Error
	d := c.Data
	for i, s := range d.Statistics {
		switch {
		case !slices.Contains(d.Variables, s.Variable):
			faults = append(faults, c.Fault("data.statistics", fmt.Sprintf("%s in data.statistics is not one of data.variables", s.Variable), "the variables are "+strings.Join(d.Variables, ", "), "add it to data.variables, or remove it"))
		case slices.ContainsFunc(d.Statistics[:i], func(o StatisticChoice) bool { return o.Variable == s.Variable }):
			faults = append(faults, c.Fault("data.statistics", fmt.Sprintf("%s is twice in data.statistics", s.Variable), "", "list each variable once"))
		}
	}
	of := map[string]Target{}
	for _, t := range d.Targets {
		o, twice := of[t.Variable]
		if of[t.Variable] = t; twice && (o.Statistic != t.Statistic || o.Interval != t.Interval) {
			faults = append(faults, c.Fault("data.targets", fmt.Sprintf("statistics of %s differ between targets", t.Variable), "a variable has one statistic over time", "set the same statistic and interval in both"))
		}
	}
	if i := d.Intervals; i != AsInFiles && i != FromStart {
		if length, err := ParseDuration(string(i)); err != nil || length <= 0 {
			faults = append(faults, c.Fault("data.intervals", fmt.Sprintf("data.intervals is %q", string(i)), "want as_is, from_start or a duration", "for example `intervals: 24h`"))
		}
	}
	return faults
}

// StatisticOf returns the choice of a variable's statistic: that of its targets, else that of data.statistics.
func (d Data) StatisticOf(variable string) StatisticChoice {
	for _, t := range d.Targets {
		if t.Variable == variable && (t.Statistic != "" || t.Interval > 0) {
			return StatisticChoice{variable, t.Statistic, t.Interval}
		}
	}
	for _, s := range d.Statistics {
		if s.Variable == variable {
			return s
		}
	}
	return StatisticChoice{Variable: variable}
}
