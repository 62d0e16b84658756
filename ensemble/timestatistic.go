package ensemble

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// TimeStatistic is how a field arises from the interval of time that ends at its valid time: a sum, a mean or an
// extreme over it. The zero value is an instantaneous field.
//
// Source: CF section 7.3 (cell methods); WMO FM 92 GRIB2 code table 4.10.
type TimeStatistic struct {
	Statistic string // CF cell method over time: "sum", "mean", "maximum" …
	Interval  Lead   // length; 0: the input does not state it
}

// TimeStatistic returns the statistic over time of the field.
func (k *Kind) TimeStatistic() TimeStatistic { return TimeStatistic{k.Statistic, k.Interval} }

// String describes the statistic: "sum over 24h", "instantaneous".
func (s TimeStatistic) String() string {
	switch {
	case s.Statistic == "":
		return "instantaneous"
	case s.Interval == 0:
		return s.Statistic + " over an interval that is not stated"
	}
	return s.Statistic + " over " + s.Interval.String()
}

// Matches reports whether two statistics can be of the same quantity: one may leave open what the other states.
// period is the statistic of a variable that has no instantaneous values (Variable.Period): fields of it without
// a statistic leave that open, too.
func (s TimeStatistic) Matches(o TimeStatistic, period string) bool {
	open := func(x TimeStatistic) bool { return x == TimeStatistic{} && period != "" }
	if open(s) || open(o) {
		return (open(s) || s.Statistic == period) && (open(o) || o.Statistic == period)
	}
	return s.Statistic == o.Statistic && (s.Interval == o.Interval || s.Statistic != "" && (s.Interval == 0 || o.Interval == 0))
}

// IsOpen reports whether the statistic or its interval is not stated; period is as in Matches.
func (s TimeStatistic) IsOpen(period string) bool {
	return s.Interval == 0 && (s.Statistic != "" || period != "")
}

// VariableStatistic is the statistic over time of a variable's fields at one lead.
type VariableStatistic struct {
	Variable string
	Lead     Lead
	TimeStatistic
}

// statisticInFile is the JSON form of VariableStatistic, with durations as in configuration files.
type statisticInFile struct {
	Variable  string `json:"variable"`
	Lead      string `json:"lead"`
	Statistic string `json:"statistic"`
	Interval  string `json:"interval"` // "0h": not stated
}

// MarshalJSON encodes durations as in configuration files.
func (s VariableStatistic) MarshalJSON() ([]byte, error) {
	return json.Marshal(statisticInFile{s.Variable, s.Lead.String(), s.Statistic, s.Interval.String()})
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (s *VariableStatistic) UnmarshalJSON(text []byte) error {
	var f statisticInFile
	if err := json.Unmarshal(text, &f); err != nil {
		return err
	}
	lead, err := time.ParseDuration(f.Lead)
	if err != nil {
		return err
	}
	interval, err := time.ParseDuration(f.Interval)
	*s = VariableStatistic{f.Variable, Lead(lead), TimeStatistic{f.Statistic, Lead(interval)}}
	return err
}

// StatisticOf returns the statistic over time of a variable's fields at a lead.
func (a Axes) StatisticOf(variable string, lead Lead) TimeStatistic {
	i := slices.IndexFunc(a.Statistics, func(s VariableStatistic) bool { return s.Variable == variable && s.Lead == lead })
	if i < 0 {
		return TimeStatistic{}
	}
	return a.Statistics[i].TimeStatistic
}

// Derivation computes a field from others of one input: the sum of consecutive intervals, the difference of two
// sums from one start.
//
// Missing: a point that is missing in one term is missing.
type Derivation struct {
	TimeStatistic        // of the result
	Terms         []Term // by end of their intervals
	// NeverNegative: differences below 0 are errors, except for those of packing, which become 0.
	NeverNegative bool
}

// Term is a field that enters a Derivation. Weight applies to sums and means; extremes have none.
type Term struct {
	Entry
	Weight float64
}

// String describes the derivation for warnings: "sum over 6h from sum over 24h - sum over 18h".
func (d *Derivation) String() string {
	s := d.TimeStatistic.String() + " from "
	for i := len(d.Terms) - 1; i >= 0; i-- {
		t := d.Terms[i]
		sign := ", "
		if t.Weight < 0 {
			sign = " minus "
		}
		if i < len(d.Terms)-1 {
			s += sign
		}
		s += fmt.Sprintf("%s at lead %s", t.TimeStatistic(), t.Lead)
	}
	return s
}
