package input

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/humanise"
)

// interval is an interval of time: from start, excluded, to end, in nanoseconds of one clock.
type interval struct{ start, end time.Duration }

// length is the length of the interval.
func (i interval) length() time.Duration { return i.end - i.start }

// series identifies fields that differ by their intervals only.
type series struct {
	variable, statistic, levelType string
	level                          ensemble.Level
	member                         ensemble.Member
	init                           ensemble.Init // zero for analyses, whose intervals are on one clock
	centre                         string
}

// span returns the series of a field, and its interval on the clock of the series.
type span func(e ensemble.Entry) (series, interval)

// forecastSpan counts from the initialisation.
func forecastSpan(e ensemble.Entry) (series, interval) {
	id := e.Identity()
	return series{e.Variable, e.Statistic, id.LevelType, e.Level, e.Member, e.Init, id.Centre}, interval{time.Duration(e.Lead - e.Interval), time.Duration(e.Lead)}
}

// analysisSpan counts from 1970, so that intervals of several initialisations join.
func analysisSpan(e ensemble.Entry) (series, interval) {
	s, _ := forecastSpan(e)
	s.init, s.centre = ensemble.Init{}, ""
	end := time.Duration(e.Valid().UnixNano())
	return s, interval{end - time.Duration(e.Interval), end}
}

// part is a field with its interval.
type part struct {
	interval
	entry ensemble.Entry
}

// partIndex computes statistics over intervals from those over others.
type partIndex struct {
	span  span
	parts map[series]map[time.Duration][]part // by end, with the shortest lead for each interval
	order []series
	kinds kindVariants
}

// newPartIndex returns an index without fields.
func newPartIndex(of span) *partIndex {
	return &partIndex{of, map[series]map[time.Duration][]part{}, nil, kindVariants{}}
}

// derivable are the statistics that follow from those over parts of the interval.
var derivable = []string{"sum", "mean", "maximum", "minimum"}

// add adds a field.
func (d *partIndex) add(e ensemble.Entry) {
	if e.Interval <= 0 || !slices.Contains(derivable, e.Statistic) {
		return
	}
	s, i := d.span(e)
	if d.parts[s] == nil {
		d.parts[s] = map[time.Duration][]part{}
		d.order = append(d.order, s)
	}
	at := d.parts[s][i.end]
	if k := slices.IndexFunc(at, func(p part) bool { return p.interval == i }); k < 0 {
		d.parts[s][i.end] = append(at, part{i, e})
	} else if e.Lead < at[k].entry.Lead {
		at[k].entry = e
	}
}

// statistics lists the statistics of a variable's intervals.
func (d *partIndex) statistics(variable string) (out []string) {
	for _, s := range d.order {
		if s.variable == variable && !slices.Contains(out, s.statistic) {
			out = append(out, s.statistic)
		}
	}
	slices.Sort(out)
	return out
}

// derive computes the fields of a variable with a statistic that are missing, where accept is true for the field that
// ends at the same time.
func (d *partIndex) derive(variable string, want ensemble.TimeStatistic, accept func(e ensemble.Entry) bool) (out []ensemble.Entry) {
	for _, s := range d.order {
		if s.variable != variable || s.statistic != want.Statistic {
			continue
		}
		ends := make([]time.Duration, 0, len(d.parts[s]))
		for end, p := range d.parts[s] {
			if accept(p[0].entry) {
				ends = append(ends, end)
			}
		}
		slices.Sort(ends)
		known := slices.Sorted(maps.Keys(d.parts[s]))
		for _, end := range ends {
			i := interval{end - time.Duration(want.Interval), end}
			if slices.ContainsFunc(d.parts[s][end], func(p part) bool { return p.interval == i }) {
				continue
			}
			if terms := cover(d.parts[s], known, want.Statistic, i); terms != nil && onOneGrid(terms) {
				out = append(out, d.entry(want, terms))
			}
		}
	}
	return out
}

// signed is a part with its sign: −1 for the earlier of two accumulations from one start.
type signed struct {
	part
	sign float64
}

// onOneGrid reports whether all parts have one grid.
func onOneGrid(parts []signed) bool {
	return !slices.ContainsFunc(parts, func(p signed) bool {
		return p.entry.Grid != parts[0].entry.Grid && !p.entry.Grid.SameAs(parts[0].entry.Grid, GridTolerance)
	})
}

// cover finds the fewest parts whose intervals, added and subtracted, are an interval; nil if there are none. Extremes
// need intervals that lie inside. ends are the keys of byEnd, ascending.
func cover(byEnd map[time.Duration][]part, ends []time.Duration, statistic string, want interval) []signed {
	linear := statistic == "sum" || statistic == "mean"
	best := map[time.Duration][]signed{}
	var to func(end time.Duration) []signed
	to = func(end time.Duration) []signed {
		if known, ok := best[end]; ok {
			return known
		}
		best[end] = nil
		var found []signed
		try := func(first []signed, start time.Duration) {
			if start < want.start {
				return
			}
			if start > want.start {
				rest := to(start)
				if rest == nil {
					return
				}
				first = slices.Concat(first, rest)
			}
			if found == nil || len(first) < len(found) {
				found = first
			}
		}
		for _, p := range byEnd[end] {
			try([]signed{{p, 1}}, p.start)
			if !linear {
				continue
			}
			for _, earlier := range ends {
				k := slices.IndexFunc(byEnd[earlier], func(q part) bool { return q.start == p.start })
				if k >= 0 && earlier < end && p.start < want.start {
					try([]signed{{p, 1}, {byEnd[earlier][k], -1}}, earlier)
				}
			}
		}
		best[end] = found
		return found
	}
	return to(want.end)
}

// entry returns the field that is computed from parts.
func (d *partIndex) entry(want ensemble.TimeStatistic, parts []signed) ensemble.Entry {
	last := parts[0].entry
	known, _ := ensemble.VariableNamed(last.Variable)
	bounded, _ := known.NonNegative()
	out := &ensemble.Derivation{TimeStatistic: want}
	slices.SortFunc(parts, func(a, b signed) int { return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(a.start, b.start)) })
	for _, p := range parts {
		t := ensemble.Term{Entry: p.entry, Weight: p.sign}
		if want.Statistic == "mean" {
			t.Weight *= float64(p.length()) / float64(want.Interval)
		}
		out.NeverNegative = out.NeverNegative || bounded && p.sign < 0
		out.Terms = append(out.Terms, t)
	}
	e := last
	e.Kind, e.Derivation = d.kinds.with(e.Kind, want), out
	return e
}

// describe lists the intervals of the series of a field, by end.
func (d *partIndex) describe(e ensemble.Entry) string {
	s, _ := d.span(e)
	var all []interval
	for _, at := range d.parts[s] {
		for _, p := range at {
			all = append(all, p.interval)
		}
	}
	slices.SortFunc(all, func(a, b interval) int { return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(a.start, b.start)) })
	var words []string
	for i, x := range all {
		if i == humanise.MaxListed {
			words = append(words, fmt.Sprintf("and %d more", len(all)-i))
			break
		}
		words = append(words, fmt.Sprintf("%s to %s", ensemble.Lead(x.start), ensemble.Lead(x.end)))
	}
	return e.Variable + " has " + strings.Join(words, ", ")
}
