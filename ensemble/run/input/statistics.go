package input

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	fio "github.com/ensemble-weather/ensemble/io"
)

// StatisticRequest states which of a variable's statistics over time are read, where the input has several, and
// which are computed from those of other intervals. The zero value reads the only ones that the input has.
type StatisticRequest struct {
	Choices   []StatisticChoice
	Intervals Intervals
	// Known names what defines the statistics of the axes: "the model", "the products"; "" if the input does. They are
	// computed from other intervals if the input lacks them.
	Known string
}

// StatisticChoice selects the fields of a variable. Statistic "" and Interval 0 select any.
type StatisticChoice struct {
	Variable  string
	Statistic string // config.InstantStatistic or a CF cell method
	Interval  ensemble.Lead
}

// Intervals states over which intervals statistics are used. The zero value uses those of the input.
type Intervals struct {
	FromStart bool          // from the initialisation to each lead
	Length    ensemble.Lead // of all intervals; 0 without
}

// IsSet reports whether intervals are requested.
func (i Intervals) IsSet() bool { return i != Intervals{} }

// length returns the requested length of the interval that ends at a lead.
func (i Intervals) length(lead ensemble.Lead) ensemble.Lead {
	if i.FromStart {
		return lead
	}
	return i.Length
}

// choice returns the choice for a variable.
func (r StatisticRequest) choice(variable string) StatisticChoice {
	for _, c := range r.Choices {
		if c.Variable == variable {
			return c
		}
	}
	return StatisticChoice{Variable: variable}
}

// accepts reports whether fields with a statistic are among those that are chosen. period is Variable.Period.
func (c StatisticChoice) accepts(s ensemble.TimeStatistic, period string) bool {
	want := ensemble.TimeStatistic{Statistic: c.Statistic, Interval: c.Interval}
	switch {
	case c.Statistic == config.InstantStatistic:
		return s == ensemble.TimeStatistic{}
	case c.Statistic == "" && c.Interval == 0:
		return true
	case c.Statistic == "":
		want.Statistic = cmp.Or(s.Statistic, period)
	case c.Interval == 0:
		want.Interval = s.Interval
	}
	return want.Statistic != "" && want.Matches(s, period)
}

// complete returns a statistic with what a choice adds to it, if the input does not state it.
func (c StatisticChoice) complete(s ensemble.TimeStatistic, period string) ensemble.TimeStatistic {
	if !s.IsOpen(period) || c.Statistic == config.InstantStatistic {
		return s
	}
	if c.Interval > 0 {
		s = ensemble.TimeStatistic{Statistic: cmp.Or(s.Statistic, c.Statistic, period), Interval: c.Interval}
	}
	return s
}

// periodOf returns the statistic of a variable that has no instantaneous values.
func periodOf(variable string) string {
	v, _ := ensemble.VariableNamed(variable)
	return v.Period
}

// found is the statistics of a variable's fields at one lead, with a field of each.
type found struct {
	statistics []ensemble.TimeStatistic
	first      map[ensemble.TimeStatistic]ensemble.Entry
}

// add adds a field.
func (f *found) add(e ensemble.Entry) {
	s := e.TimeStatistic()
	if _, known := f.first[s]; known {
		return
	}
	if f.first == nil {
		f.first = map[ensemble.TimeStatistic]ensemble.Entry{}
	}
	f.first[s] = e
	f.statistics = append(f.statistics, s)
	slices.SortFunc(f.statistics, func(a, b ensemble.TimeStatistic) int {
		return cmp.Or(cmp.Compare(a.Statistic, b.Statistic), cmp.Compare(a.Interval, b.Interval))
	})
}

// chosen is the statistic in the input that is read, and its meaning, which may complete it.
type chosen struct{ native, meaning ensemble.TimeStatistic }

// variableAt is a variable at a lead.
type variableAt struct {
	variable string
	lead     ensemble.Lead
}

// ChooseStatistics selects, for each variable of the axes and each lead, the fields with one statistic over time, and
// derives those that are requested and missing. It returns the axes with the statistics, and the catalogue with only
// these fields of the variables.
//
// Faults: exit 64 if the choice is not unique; 65 if the input has other statistics than the axes require.
func ChooseStatistics(c *ensemble.Catalogue, axes ensemble.Axes, r StatisticRequest) (ensemble.Axes, *ensemble.Catalogue, []Fault) {
	onAxes := func(e ensemble.Entry) bool {
		return e.Product == ensemble.MemberField && slices.Contains(axes.Variables, e.Variable) && ensemble.FindLevel(axes.Levels, e.Variable, e.Level) >= 0
	}
	if r.Known == "" && len(r.Choices) == 0 && !slices.ContainsFunc(c.Entries, func(e ensemble.Entry) bool { return e.Statistic != "" && onAxes(e) }) {
		return axes, c, nil
	}
	d := newPartIndex(forecastSpan)
	have := map[variableAt]*found{}
	for _, e := range c.Entries {
		if onAxes(e) {
			d.add(e)
			at := variableAt{e.Variable, e.Lead}
			if have[at] == nil {
				have[at] = &found{}
			}
			have[at].add(e)
		}
	}
	s := statisticSelection{request: r, axes: axes, out: map[variableAt]chosen{}}
	var derived []ensemble.Entry
	for _, v := range axes.Variables {
		for _, lead := range axes.Leads {
			at := variableAt{v, lead}
			if want, ok := s.wanted(at, d.statistics(v)); ok {
				some := d.derive(v, want, func(e ensemble.Entry) bool { return e.Lead == lead })
				for _, e := range some {
					if have[at] == nil {
						have[at] = &found{}
					}
					have[at].add(e)
				}
				derived = append(derived, some...)
			}
			switch over := d.statistics(v); {
			case have[at] != nil:
				s.choose(at, have[at], d)
			case lead == 0 && over != nil:
				s.faults = append(s.faults, Fault{Kind: FaultInterval, Code: exit.BadData, What: fmt.Sprintf("%s has no field at lead 0h", v),
					Why: fmt.Sprintf("the input has it as %s over an interval, and none ends at the initialisation", strings.Join(over, ", ")), Fix: "remove 0h from data.leads, or the variable from data.variables"})
			}
		}
	}
	if len(derived) > 0 {
		s.faults = append(s.faults, Fault{Kind: FaultInterval, What: humanise.Count(len(derived), "field") + " computed from other intervals",
			Why: derived[0].Key.String() + ": " + derived[0].Derivation.String(), Fields: len(derived)})
	}
	axes.Statistics = s.statistics
	return axes, s.filter(c, derived, onAxes), s.faults
}

// statisticSelection is the state of ChooseStatistics.
type statisticSelection struct {
	request    StatisticRequest
	axes       ensemble.Axes
	out        map[variableAt]chosen
	statistics []ensemble.VariableStatistic
	faults     []Fault
	ambiguous  map[string]bool // variables whose choice is not unique, reported once
}

// wanted returns the statistic that is derived where it is missing; ok is false if none is. have are the statistics of
// the variable's intervals.
func (s *statisticSelection) wanted(at variableAt, have []string) (want ensemble.TimeStatistic, ok bool) {
	if s.request.Known != "" {
		want = s.axes.StatisticOf(at.variable, at.lead)
		return want, want.Statistic != "" && want.Interval > 0
	}
	c := s.request.choice(at.variable)
	if !s.request.Intervals.IsSet() || c.Statistic == config.InstantStatistic {
		return want, false
	}
	have = slices.DeleteFunc(slices.Clone(have), func(x string) bool { return c.Statistic != "" && x != c.Statistic })
	want.Interval = s.request.Intervals.length(at.lead)
	if len(have) != 1 || want.Interval <= 0 || want.Interval > at.lead {
		return want, false
	}
	want.Statistic = have[0]
	return want, true
}

// choose selects one of the statistics of a variable at a lead.
func (s *statisticSelection) choose(at variableAt, f *found, d *partIndex) {
	period := periodOf(at.variable)
	set := func(native, meaning ensemble.TimeStatistic) {
		s.out[at] = chosen{native, meaning}
		if meaning != (ensemble.TimeStatistic{}) {
			s.statistics = append(s.statistics, ensemble.VariableStatistic{Variable: at.variable, Lead: at.lead, TimeStatistic: meaning})
		}
	}
	if s.request.Known != "" {
		want := s.axes.StatisticOf(at.variable, at.lead)
		native, ok := matching(f.statistics, want, period)
		if !ok {
			s.faults = append(s.faults, WindowFault(at.variable, want, s.request.Known, f.statistics[0], "the input", fixOtherInterval).AtEntry(f.first[f.statistics[0]]))
			return
		}
		if native != want {
			s.warnOpen(at.variable, native, want, f.first[native])
		}
		set(native, want)
		return
	}
	choice := s.request.choice(at.variable)
	left := slices.DeleteFunc(slices.Clone(f.statistics), func(x ensemble.TimeStatistic) bool { return !choice.accepts(x, period) })
	if i := s.request.Intervals; i.IsSet() {
		if of := slices.DeleteFunc(slices.Clone(left), func(x ensemble.TimeStatistic) bool { return x.Statistic == "" || x.Interval != i.length(at.lead) }); len(of) > 0 {
			left = of
		} else if slices.ContainsFunc(left, func(x ensemble.TimeStatistic) bool { return x.Statistic != "" }) && !slices.Contains(left, ensemble.TimeStatistic{}) {
			e := f.first[left[0]]
			s.faults = append(s.faults, Fault{Kind: FaultInterval, Code: exit.BadData, What: fmt.Sprintf("%s over %s at lead %s cannot be computed", at.variable, i.length(at.lead), at.lead),
				Why: "the intervals of the input leave a gap or overlap: " + d.describe(e), Fix: "add the files of the missing intervals, or set another data.intervals"}.AtEntry(e))
			return
		}
	}
	switch {
	case len(left) == 0:
		e := f.first[f.statistics[0]]
		s.faults = append(s.faults, Fault{Kind: FaultInterval, Code: exit.BadData, What: fmt.Sprintf("no %s over the requested interval at lead %s", at.variable, at.lead),
			Why: fmt.Sprintf("the input has it %s", joinStatistics(f.statistics)), Fix: "correct statistic and interval, or compute other intervals with data.intervals"}.AtEntry(e))
	case len(left) > 1:
		if s.ambiguous == nil {
			s.ambiguous = map[string]bool{}
		}
		if !s.ambiguous[at.variable] {
			s.faults = append(s.faults, ambiguousFault(at, left, f))
		}
		s.ambiguous[at.variable] = true
	default:
		meaning := choice.complete(left[0], period)
		if meaning != left[0] {
			s.warnOpen(at.variable, left[0], meaning, f.first[left[0]])
		}
		set(left[0], meaning)
	}
}

// warnOpen warns that an interval was taken from elsewhere.
func (s *statisticSelection) warnOpen(variable string, native, meaning ensemble.TimeStatistic, e ensemble.Entry) {
	s.faults = append(s.faults, openWarning(variable, native, meaning).AtEntry(e))
}

// openWarning returns the warning about fields that do not state what they are used as.
func openWarning(variable string, native, meaning ensemble.TimeStatistic) Fault {
	have := native.String()
	if native == (ensemble.TimeStatistic{}) {
		have = "without statistic and interval"
	}
	return Fault{Kind: FaultInterval, What: fmt.Sprintf("%s is %s in the input and used as %s", variable, have, meaning)}
}

// matching returns the statistic that a wanted one matches: itself, or one that leaves open what is wanted. If several
// match, none does.
func matching(have []ensemble.TimeStatistic, want ensemble.TimeStatistic, period string) (ensemble.TimeStatistic, bool) {
	if slices.Contains(have, want) {
		return want, true
	}
	of := slices.DeleteFunc(slices.Clone(have), func(x ensemble.TimeStatistic) bool { return !x.Matches(want, period) })
	if len(of) != 1 {
		return ensemble.TimeStatistic{}, false
	}
	return of[0], true
}

// joinStatistics lists statistics in a sentence.
func joinStatistics(all []ensemble.TimeStatistic) string {
	return strings.Join(humanise.Strings(all), ", ")
}

// ambiguousFault reports a variable with several statistics at one lead, and the lines that select each.
func ambiguousFault(at variableAt, left []ensemble.TimeStatistic, f *found) Fault {
	var lines []string
	for _, x := range left {
		lines = append(lines, fmt.Sprintf("`%s`", configLine(at.variable, x)))
	}
	return Fault{Kind: FaultInterval, Code: exit.Usage, What: fmt.Sprintf("%s has several statistics over time at lead %s", at.variable, at.lead), Why: joinStatistics(left),
		Fix: "select one in data.statistics, and for a target in data.targets: " + strings.Join(lines, " or ")}.AtEntry(f.first[left[0]])
}

// configLine returns the line of a configuration that selects a statistic.
func configLine(variable string, s ensemble.TimeStatistic) string {
	switch {
	case s.Statistic == "":
		return fmt.Sprintf("{variable: %s, statistic: %s}", variable, config.InstantStatistic)
	case s.Interval == 0:
		return fmt.Sprintf("{variable: %s, statistic: %s}", variable, s.Statistic)
	}
	return fmt.Sprintf("{variable: %s, statistic: %s, interval: %s}", variable, s.Statistic, s.Interval)
}

// fixOtherInterval is the remedy for statistics over other intervals than those required.
const fixOtherInterval = "give fields over the same interval; a training computes them with data.intervals"

// WindowFault reports fields of one variable that are compared although they are statistics over different intervals, or
// different statistics. It is the one message about it, of every command.
func WindowFault(variable string, a ensemble.TimeStatistic, where string, b ensemble.TimeStatistic, other, fix string) Fault {
	f := Fault{Kind: FaultInterval, Code: exit.BadData, What: fmt.Sprintf("%s: windows of %s and %s", variable, windowLength(a), windowLength(b)),
		Why: fmt.Sprintf("%s in %s, %s in %s", a, where, b, other), Fix: fix}
	if a.Statistic != b.Statistic && a.Statistic != "" && b.Statistic != "" {
		f.What = fmt.Sprintf("%s: %s and %s", variable, a.Statistic, b.Statistic)
	}
	return f
}

// windowLength formats the length of an interval: "24 h".
func windowLength(s ensemble.TimeStatistic) string {
	d := time.Duration(s.Interval)
	switch {
	case s.Statistic == "":
		return "0 h"
	case s.Interval == 0:
		return "unknown length"
	case d%time.Hour == 0:
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return d.String()
}

// filter returns the catalogue without the fields that were not chosen.
func (s *statisticSelection) filter(c *ensemble.Catalogue, derived []ensemble.Entry, onAxes func(ensemble.Entry) bool) *ensemble.Catalogue {
	out := *c
	out.Entries = make([]ensemble.Entry, 0, len(c.Entries)+len(derived))
	kinds := kindVariants{}
	for _, e := range slices.Concat(c.Entries, derived) {
		if onAxes(e) {
			if pick, ok := s.out[variableAt{e.Variable, e.Lead}]; ok {
				if e.TimeStatistic() != pick.native {
					continue
				}
				e.Kind = kinds.with(e.Kind, pick.meaning)
			}
		}
		out.Entries = append(out.Entries, e)
	}
	slices.SortStableFunc(out.Entries, ensemble.Entry.Compare)
	return &out
}

// kindVariants holds copies of kinds with another statistic, one each.
type kindVariants map[kindVariant]*ensemble.Kind

type kindVariant struct {
	of *ensemble.Kind
	ensemble.TimeStatistic
}

// with returns a kind with a statistic.
func (k kindVariants) with(of *ensemble.Kind, s ensemble.TimeStatistic) *ensemble.Kind {
	if of.TimeStatistic() == s {
		return of
	}
	at := kindVariant{of, s}
	if k[at] == nil {
		other := *of
		other.Statistic, other.Interval = s.Statistic, s.Interval
		k[at] = &other
	}
	return k[at]
}

// AnalysisRequest states which analyses are read.
type AnalysisRequest struct {
	Variables  []string
	Levels     []ensemble.Level
	Valids     []ensemble.Valid
	Statistics map[string]ensemble.TimeStatistic // of the forecasts, by variable; absent: instantaneous
	// Derive: statistics that are missing are computed from those over other intervals.
	Derive bool
}

// filter returns whether a field of a catalogue is one of the requested variables and levels, without a member. If the
// catalogue has no field without a member, those of the control are used.
func (r AnalysisRequest) filter(c *ensemble.Catalogue) func(e ensemble.Entry) bool {
	member := ensemble.NoMember
	if !slices.ContainsFunc(c.Entries, func(e ensemble.Entry) bool { return e.Member == member && e.Product == ensemble.MemberField }) {
		member = 0
	}
	return func(e ensemble.Entry) bool {
		return e.Product == ensemble.MemberField && e.Member == member && slices.Contains(r.Variables, e.Variable) && ensemble.FindLevel(r.Levels, e.Variable, e.Level) >= 0
	}
}

// AnalysisTimes returns the requested valid times with an analysis of all variables and levels.
//
// Errors: those of SelectAnalyses about statistics over time.
func AnalysisTimes(in *fio.Input, r AnalysisRequest) (map[ensemble.Valid]bool, error) {
	_, used, found := ChooseAnalyses(in.Catalogue(), r)
	if _, err := SplitFaults(found); err != nil {
		return nil, err
	}
	ofTarget, count := r.filter(used), map[ensemble.Key]bool{}
	for _, e := range used.Entries {
		if e.Lead == 0 && ofTarget(e) {
			count[ensemble.Key{Variable: e.Variable, Level: e.Level, Init: e.Init}] = true
		}
	}
	out := map[ensemble.Valid]bool{}
	for _, v := range r.Valids {
		out[v] = true
		for _, name := range r.Variables {
			for _, l := range r.Levels {
				out[v] = out[v] && count[ensemble.Key{Variable: name, Level: l.ForVariable(name), Init: ensemble.Init(v)}]
			}
		}
	}
	return out, nil
}

// ChooseAnalyses selects the analyses with the statistics of the forecasts, as fields at lead 0 of their valid times. It
// returns the statistics, completed by those of the analyses.
//
// Faults: exit 65 if the analyses have other statistics; 64 if the choice is not unique.
func ChooseAnalyses(c *ensemble.Catalogue, r AnalysisRequest) (map[string]ensemble.TimeStatistic, *ensemble.Catalogue, []Fault) {
	ofTarget := r.filter(c)
	if len(r.Statistics) == 0 && !slices.ContainsFunc(c.Entries, func(e ensemble.Entry) bool { return e.Statistic != "" && ofTarget(e) }) {
		return nil, c, nil
	}
	requested := map[ensemble.Valid]bool{}
	for _, v := range r.Valids {
		requested[v] = true
	}
	d := newPartIndex(analysisSpan)
	have := map[string]*found{}
	for _, e := range c.Entries {
		if !ofTarget(e) {
			continue
		}
		d.add(e)
		if requested[e.Valid()] && (e.Lead == 0 || e.Statistic != "") {
			if have[e.Variable] == nil {
				have[e.Variable] = &found{}
			}
			have[e.Variable].add(e)
		}
	}
	var faults []Fault
	meanings := map[string]ensemble.TimeStatistic{}
	picks := map[string]chosen{}
	var derived []ensemble.Entry
	for _, v := range r.Variables {
		want := r.Statistics[v]
		if have[v] == nil {
			have[v] = &found{}
		}
		if r.Derive && want.Statistic != "" && want.Interval > 0 {
			some := d.derive(v, want, func(e ensemble.Entry) bool { return requested[e.Valid()] })
			for _, e := range some {
				have[v].add(e)
			}
			derived = append(derived, some...)
		}
		if have[v].statistics == nil {
			meanings[v] = want
			continue
		}
		pick, fault := chooseAnalysis(v, want, have[v])
		faults = append(faults, fault...)
		picks[v], meanings[v] = pick, pick.meaning
	}
	if len(derived) > 0 {
		faults = append(faults, Fault{Kind: FaultInterval, What: humanise.Count(len(derived), "analysis field") + " computed from other intervals",
			Why: derived[0].Key.String() + ": " + derived[0].Derivation.String(), Fields: len(derived)})
	}
	return meanings, normaliseAnalyses(c, derived, picks, ofTarget), faults
}

// chooseAnalysis selects one of the statistics of a variable's analyses.
func chooseAnalysis(v string, want ensemble.TimeStatistic, have *found) (chosen, []Fault) {
	period := periodOf(v)
	native, ok := matching(have.statistics, want, period)
	if !ok {
		of := slices.DeleteFunc(slices.Clone(have.statistics), func(x ensemble.TimeStatistic) bool { return !x.Matches(want, period) })
		if len(of) > 1 {
			return chosen{}, []Fault{ambiguousFault(variableAt{v, 0}, of, have)}
		}
		// Of several, the one closest to what is wanted explains most.
		near := have.statistics[0]
		for _, x := range have.statistics {
			if x.Statistic == want.Statistic {
				near = x
			}
		}
		e := have.first[near]
		return chosen{}, []Fault{WindowFault(v, want, "the forecasts", near, "the analyses", fixOtherInterval).AtEntry(e)}
	}
	meaning := native
	if native.IsOpen(period) && !want.IsOpen(period) {
		meaning = want
	}
	out := chosen{native, meaning}
	switch {
	case native != meaning:
		return out, []Fault{openWarning(v, native, meaning).AtEntry(have.first[native])}
	case want != meaning:
		return out, []Fault{{Kind: FaultInterval, What: fmt.Sprintf("%s of the forecasts is used as %s, as the analyses are", v, meaning)}}
	}
	return out, nil
}

// normaliseAnalyses returns the catalogue with only the chosen analyses of each variable, at lead 0 of their valid times.
// Of several at one valid time, the one with the shortest lead is used.
func normaliseAnalyses(c *ensemble.Catalogue, derived []ensemble.Entry, picks map[string]chosen, ofTarget func(ensemble.Entry) bool) *ensemble.Catalogue {
	out := *c
	out.Entries = make([]ensemble.Entry, 0, len(c.Entries)+len(derived))
	kinds := kindVariants{}
	shortest := map[ensemble.Key]ensemble.Lead{}
	atValid := func(e ensemble.Entry) ensemble.Key {
		k := e.Key
		k.Init, k.Lead = ensemble.Init(e.Valid()), 0
		return k
	}
	all := slices.Concat(c.Entries, derived)
	isPicked := func(e ensemble.Entry) (chosen, bool) {
		pick, ok := picks[e.Variable]
		return pick, ok && ofTarget(e) && e.TimeStatistic() == pick.native && (e.Lead == 0 || e.Statistic != "")
	}
	for _, e := range all {
		if _, ok := isPicked(e); ok {
			if l, seen := shortest[atValid(e)]; !seen || e.Lead < l {
				shortest[atValid(e)] = e.Lead
			}
		}
	}
	for _, e := range all {
		pick, ok := isPicked(e)
		if _, known := picks[e.Variable]; known && ofTarget(e) && !ok {
			continue
		}
		if ok {
			if e.Lead != shortest[atValid(e)] {
				continue
			}
			e.Key, e.Kind = atValid(e), kinds.with(e.Kind, pick.meaning)
		}
		out.Entries = append(out.Entries, e)
	}
	slices.SortStableFunc(out.Entries, ensemble.Entry.Compare)
	return &out
}

// TargetStatistics returns the statistics over time of targets, by variable. Those of one variable must be equal at all
// leads, as one analysis verifies each valid time.
//
// Errors: exit 65 if they differ.
func TargetStatistics(axes ensemble.Axes, variables []string, leads []ensemble.Lead) (map[string]ensemble.TimeStatistic, error) {
	out := map[string]ensemble.TimeStatistic{}
	for _, v := range variables {
		for i, lead := range leads {
			s := axes.StatisticOf(v, lead)
			if i > 0 && s != out[v] {
				return nil, WindowFault(v, out[v], "the forecasts at lead "+leads[0].String(), s, "the forecasts at lead "+lead.String(),
					"set data.intervals, for example to 24h, so that all leads have the same").AsError()
			}
			out[v] = s
		}
	}
	return out, nil
}

// OpenStatistics warns about targets whose interval neither forecasts nor analyses state.
func OpenStatistics(axes ensemble.Axes, variables []string, leads []ensemble.Lead) (warnings []string) {
	for _, v := range variables {
		if s := axes.StatisticOf(v, leads[0]); s.IsOpen(periodOf(v)) {
			warnings = append(warnings, fmt.Sprintf("no file states over which interval %s is a %s, so its products will not: set it in data.targets, for example {variable: %s, levels: [%s], interval: 24h}",
				v, cmp.Or(s.Statistic, periodOf(v)), v, axes.Levels[0]))
		}
	}
	return warnings
}

// CompleteStatistics returns axes with the statistics of the analyses where those of the forecasts are not stated.
func CompleteStatistics(axes ensemble.Axes, leads []ensemble.Lead, meanings map[string]ensemble.TimeStatistic) ensemble.Axes {
	axes.Statistics = slices.Clone(axes.Statistics)
	for _, v := range axes.Variables {
		s, ok := meanings[v]
		if !ok || s == (ensemble.TimeStatistic{}) {
			continue
		}
		for _, lead := range leads {
			i := slices.IndexFunc(axes.Statistics, func(x ensemble.VariableStatistic) bool { return x.Variable == v && x.Lead == lead })
			if i >= 0 {
				axes.Statistics[i].TimeStatistic = s
			} else {
				axes.Statistics = append(axes.Statistics, ensemble.VariableStatistic{Variable: v, Lead: lead, TimeStatistic: s})
			}
		}
	}
	return axes
}
