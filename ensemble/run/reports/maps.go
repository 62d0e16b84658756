package reports

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/postproc/report"
	"github.com/ensemble-weather/ensemble/postproc/significance"
)

// mapTarget are the maps of one target.
type mapTarget struct {
	e        *scoring.MapExample
	variable ensemble.Variable
	level    ensemble.Level
	lead     ensemble.Lead
	show     report.Display
	panels   []report.Panel
}

// targetsOf lists the targets of an example.
func targetsOf(e *scoring.MapExample) (out []*mapTarget) {
	for _, f := range e.Fields {
		lead := cmp.Or(f.Lead, e.Lead)
		if slices.ContainsFunc(out, func(t *mapTarget) bool {
			return t.variable.Name == f.Variable && t.level == f.Level && t.lead == lead
		}) {
			continue
		}
		v, ok := ensemble.VariableNamed(f.Variable)
		if !ok || v.LongName == "" {
			v.Name, v.LongName = f.Variable, f.Variable
		}
		out = append(out, &mapTarget{e: e, variable: v, level: f.Level, lead: lead, show: report.DisplayOf(v)})
	}
	return out
}

// fields returns the fields of a kind.
func (t *mapTarget) fields(kind string) (out []scoring.MapField) {
	for _, f := range t.e.Fields {
		if f.Variable == t.variable.Name && f.Level == t.level && cmp.Or(f.Lead, t.e.Lead) == t.lead && f.Kind == kind {
			out = append(out, f)
		}
	}
	return out
}

// field returns the field of a kind as displayed; nil without.
func (t *mapTarget) field(kind string, offset float64) []float32 {
	if f := t.fields(kind); len(f) > 0 {
		return t.show.Values(f[0].Values, offset)
	}
	return nil
}

// name is "Temperature at 850 hPa".
func (t *mapTarget) name() string { return report.QuantityName(t.variable.Name, t.level.String()) }

// add adds a panel of the maps that have values.
func (t *mapTarget) add(what string, p report.Panel, maps ...report.Map) {
	p.Title, p.Valid, p.Variable, p.Lead = t.name()+": "+what, t.e.Init.Valid(t.lead), t.name(), t.lead.String()
	for _, m := range maps {
		if m.Values != nil {
			m.Grid = cmp.Or(m.Grid, t.e.Grid)
			p.Maps = append(p.Maps, m)
		}
	}
	if len(p.Maps) > 0 {
		t.panels = append(t.panels, p)
	}
}

// Panels lays out a map example, for each target: its means; its spreads and what the network changed,
// folded; the probability of an event; isolines of all members; and the members, folded. Maps of the same
// quantity at different leads share their colours.
func Panels(e *scoring.MapExample) []report.Panel {
	all := targetsOf(e)
	for _, t := range all {
		t.means()
		t.event()
		t.stamps()
	}
	var out []report.Panel
	for _, t := range all {
		for i := range t.panels {
			p := &t.panels[i]
			for _, o := range all {
				if o.name() == t.name() {
					for _, q := range o.panels {
						if q.Title == p.Title {
							for _, m := range q.Maps {
								p.SameScale = append(p.SameScale, m.Values)
							}
						}
					}
				}
			}
		}
		out = append(out, t.panels...)
	}
	return out
}

// means adds the panels of means, spreads and differences.
func (t *mapTarget) means() {
	e, d := t.e, t.show
	raw, mean, analysis := t.field(scoring.ShowRawMean, d.Offset), t.field(scoring.ShowMean, d.Offset), t.field(scoring.ShowAnalysis, d.Offset)
	interval := 0.0
	if d.Intervals != nil {
		interval = report.IsolineInterval(d.Intervals, raw, mean)
	}
	t.add("mean", report.Panel{Unit: d.Unit, Isolines: interval, Palette: d.Palette}, report.Map{Title: fmt.Sprintf("mean of %d members", e.Used), Values: raw},
		report.Map{Title: "post-processed mean", Values: mean}, report.Map{Title: "analysis", Values: analysis})
	t.add("spread", report.Panel{Unit: d.Change, Palette: report.Probabilities, Folded: true}, report.Map{Title: fmt.Sprintf("spread of %d members", e.Used), Values: t.field(scoring.ShowRawSpread, 0)},
		report.Map{Title: fmt.Sprintf("spread of %d estimated from %d", e.Full, e.Used), Values: t.field(scoring.ShowEstimate, 0)},
		report.Map{Title: fmt.Sprintf("spread of all %d members", e.Full), Values: t.field(scoring.ShowFullSpread, 0)},
		report.Map{Title: "post-processed spread", Values: t.field(scoring.ShowSpread, 0)})
	if mean == nil || raw == nil {
		return
	}
	maps := []report.Map{{Title: "post-processed minus raw mean", Values: Difference(mean, raw)}}
	if analysis != nil {
		maps = append(maps, report.Map{Title: "raw mean minus analysis", Values: Difference(raw, analysis)}, report.Map{Title: "post-processed mean minus analysis", Values: Difference(mean, analysis)})
	}
	t.add("difference", report.Panel{Unit: d.Change, Diverging: true, Folded: true}, maps...)
}

// event adds the probability that a threshold in the middle of the field is exceeded, and the isolines
// of the threshold in all members.
func (t *mapTarget) event() {
	d := t.show
	mean, level, ok := t.fields(scoring.ShowMean), 0.0, false
	if mean == nil {
		mean = t.fields(scoring.ShowRawMean)
	}
	if mean == nil {
		return
	}
	probability := t.fields(scoring.ShowProbability)
	if len(probability) > 0 {
		level, ok = probability[0].Threshold, true
	} else if level, ok = scoring.EventThreshold(t.variable.Name, mean[0].Values); !ok {
		return
	}
	level = math.Round(1e6*(d.Factor*level+d.Offset)) / 1e6
	what := fmt.Sprintf("%g %s", level, strings.Replace(d.Unit, "degC", "°C", 1))
	for _, f := range probability {
		p := make([]float32, len(f.Values))
		for i, v := range f.Values {
			p[i] = 100 * v
		}
		t.add("probability above "+what, report.Panel{Unit: "%", Probability: true, PageOnly: true, Note: "From: " + f.Source + "."}, report.Map{Title: "P( > " + what + ")", Values: p})
	}
	members := t.fields(scoring.ShowMember)
	if len(members) == 0 {
		return
	}
	shown := d.Values(mean[0].Values, d.Offset)
	s := &report.Spaghetti{Level: level}
	for _, m := range members {
		s.Lines = append(s.Lines, report.SpaghettiLine{Name: fmt.Sprintf("%d raw members", len(members)), Kind: "member", Values: d.Values(m.Values, d.Offset)})
	}
	s.Lines = append(s.Lines, report.SpaghettiLine{Name: "post-processed mean", Kind: "mean", Values: t.e.Thin(shown)})
	if analysis := t.field(scoring.ShowAnalysis, d.Offset); analysis != nil {
		s.Lines = append(s.Lines, report.SpaghettiLine{Name: "analysis", Kind: "analysis", Values: t.e.Thin(analysis)})
	}
	t.add("isolines of "+what, report.Panel{Unit: d.Unit, PageOnly: true, Note: "Close together: the members agree."},
		report.Map{Title: what + " in every member", Grid: t.e.CoarseGrid(), Values: t.e.Thin(shown), Spaghetti: s})
}

// mostStamps limits the stamps of a target.
const mostStamps = 12

// stamps adds the members as small maps on one scale.
func (t *mapTarget) stamps() {
	members, d := t.fields(scoring.ShowMember), t.show
	if len(members) == 0 {
		return
	}
	shown := min(len(members), mostStamps)
	p := report.Panel{Unit: d.Unit, Palette: d.Palette, Stamps: true, Folded: true, PageOnly: true}
	if shown < len(members) {
		p.Note = fmt.Sprintf("%d of %d members.", shown, len(members))
	}
	var maps []report.Map
	for i := range shown {
		m := i * len(members) / shown
		maps = append(maps, report.Map{Title: fmt.Sprintf("member %d", m+1), Grid: t.e.CoarseGrid(), Values: d.Values(members[m].Values, d.Offset)})
		if d.Intervals != nil {
			p.Isolines = report.IsolineInterval(d.Intervals, maps[0].Values) * 2
		}
	}
	t.add("members", p, maps...)
}

// PlacePanels lays out the differences of the CRPS by place, in the unit of scores. Differences that are not significant at a false
// discovery rate of 10 % are pale.
func PlacePanels(e *scoring.MapExample) (out []report.Panel) {
	for _, t := range targetsOf(e) {
		p := report.Panel{Unit: t.variable.Unit, Diverging: true, PageOnly: true, Variable: t.name(), Lead: t.lead.String(), Title: t.name() + ": change of CRPS by the network"}
		tests := t.fields(scoring.ShowP)
		for _, f := range t.fields(scoring.ShowDifference) {
			test := slices.IndexFunc(tests, func(p scoring.MapField) bool { return p.Reference == f.Reference })
			if test < 0 {
				p.Maps = append(p.Maps, report.Map{Title: f.NoTest, Grid: t.e.CoarseGrid(), Values: f.Values, Reference: f.Reference})
				continue
			}
			values := make([]float64, len(f.Values))
			for k, v := range tests[test].Values {
				values[k] = float64(v)
			}
			decided, _ := significance.FalseDiscovery(values, scoring.FieldFalseDiscoveries)
			muted := make([]bool, len(decided))
			grid := t.e.CoarseGrid()
			var better, worse, all float64
			for k, w := range grid.Weights() {
				v := f.Values[k]
				if v != v {
					continue
				}
				all += w
				switch muted[k] = !decided[k]; {
				case decided[k] && v < 0:
					better += w
				case decided[k] && v > 0:
					worse += w
				}
			}
			of := "area"
			if grid.Kind == ensemble.Points {
				of = "stations"
			}
			p.Maps = append(p.Maps, report.Map{Title: fmt.Sprintf("better on %.0f %% of the %s, worse on %.0f %%", 100*better/all, of, 100*worse/all),
				Grid: grid, Values: f.Values, Muted: muted, Reference: f.Reference, WorseShare: worse / all})
		}
		if len(p.Maps) > 0 {
			out = append(out, p)
		}
	}
	return out
}
