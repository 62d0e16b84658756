package notebooks

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/report"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// Meteogram draws the raw ensemble at the grid point nearest to a place against the lead time: largest and smallest
// member, mean with an interval of one spread, and the analysis if the dataset has it.
//
// Errors, stored in the picture: as Init.Member; 64 for a latitude outside -90 to 90.
func (c Init) Meteogram(name string, lat, lon float64) *Picture {
	if c.err != nil {
		return &Picture{err: c.err}
	}
	at, err := c.dataset.findVariable(name)
	if err != nil {
		return &Picture{err: err}
	}
	forecasts, err := c.dataset.read(c.Files, func(e ensemble.Entry) bool {
		return e.Product == ensemble.MemberField && e.Variable == at.variable && e.Level == *at.level && e.Init == c.Init
	})
	if err != nil {
		return &Picture{err: err}
	}
	if len(forecasts) == 0 {
		return &Picture{err: &exit.Error{Code: exit.NotYet, What: fmt.Sprintf("no fields of %s", at), At: c.Init.String(), Fix: "choose another initialisation time; `ensemble check` lists missing fields"}}
	}
	k, err := nearestPoint(forecasts[0].Grid, lat, lon)
	if err != nil {
		return &Picture{err: err}
	}
	values := map[ensemble.Lead][]float64{} // of the members
	for _, f := range forecasts {
		values[f.Key.Lead] = append(values[f.Key.Lead], float64(f.Values[k]))
	}
	analysed, err := c.analysed(at, lat, lon)
	if err != nil {
		return &Picture{err: err}
	}
	lines := []report.Line{{Name: "largest member"}, {Name: "mean ± spread"}, {Name: "smallest member"}, {Name: "analysis"}}
	add := func(l *report.Line, lead ensemble.Lead, v float64) {
		l.X, l.Y = append(l.X, lead.Hours()), append(l.Y, v)
	}
	for _, lead := range c.dataset.summary.Leads {
		members, ok := values[lead]
		if !ok {
			continue
		}
		mean, spread := meanAndSpread(members)
		add(&lines[0], lead, slices.Max(members))
		add(&lines[1], lead, mean)
		lines[1].Low, lines[1].High = append(lines[1].Low, mean-spread), append(lines[1].High, mean+spread)
		add(&lines[2], lead, slices.Min(members))
		if v, ok := analysed[lead]; ok {
			add(&lines[3], lead, v)
		}
	}
	if len(lines[3].X) == 0 {
		lines = lines[:3]
	}
	f, g := &Field{Field: forecasts[0]}, forecasts[0].Grid
	return chartOf(&report.Chart{Title: fmt.Sprintf("%s, init %s, at %.1f° north, %.1f° east", f.quantity(), c.Init, g.LatAt(k/g.NX, k%g.NX), g.LonAt(k/g.NX, k%g.NX)),
		X: "lead time (h)", Y: fmt.Sprintf("%s (%s)", at, f.Unit), Lines: lines})
}

// meanAndSpread returns the mean and the standard deviation with divisor M−1 of the members.
func meanAndSpread(members []float64) (mean, spread float64) {
	m := float64(len(members))
	for _, v := range members {
		mean += v / m
	}
	for _, v := range members {
		spread += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(spread / (m - 1))
}

// analysed returns the analyses at the valid times of all lead times, at the grid point nearest to a place. It is empty
// for a dataset without analyses.
func (c Init) analysed(at variableLevel, lat, lon float64) (map[ensemble.Lead]float64, error) {
	d := c.dataset
	out := map[ensemble.Lead]float64{}
	if d.analyses == nil {
		return out, nil
	}
	leads := map[time.Time]ensemble.Lead{}
	for _, l := range d.summary.Leads {
		leads[c.Init.Valid(l).Time] = l
	}
	found, err := d.read(d.analyses, func(e ensemble.Entry) bool {
		_, needed := leads[e.Valid().Time]
		return needed && e.Product == ensemble.MemberField && e.Variable == at.variable && e.Level == *at.level
	})
	for _, f := range found {
		k, err := nearestPoint(f.Grid, lat, lon)
		if err != nil {
			return nil, err
		}
		out[leads[f.Key.Valid().Time]] = float64(f.Values[k])
	}
	return out, err
}

// ByLead draws a score of all systems against the lead time, with its intervals: one picture for each variable and
// level. id is an identifier that `ensemble scores` lists.
//
// Errors, stored in the pictures: those of the scores; 64 for a score that was not computed.
func (s *Scores) ByLead(id string) *Pictures {
	if s.err != nil {
		return &Pictures{err: s.err}
	}
	var charts []*report.Chart
	var known []string
	for _, v := range s.result.Scores {
		if !score.IsOverall(v.Region, v.Season) || !math.IsNaN(float64(v.Threshold)) {
			continue
		}
		if !slices.Contains(known, v.ID) {
			known = append(known, v.ID)
		}
		if v.ID != id {
			continue
		}
		label := id
		if v.Unit != "" && v.Unit != "1" {
			label += " (" + v.Unit + ")"
		}
		l := lineOf(&charts, report.Chart{Title: fmt.Sprintf("%s of %s", id, report.QuantityName(v.Variable, v.Level)), X: "lead time (h)", Y: label}, v.System)
		l.X, l.Y = append(l.X, v.LeadH), append(l.Y, float64(v.Value))
		l.Low, l.High = append(l.Low, float64(v.CILow)), append(l.High, float64(v.CIHigh))
	}
	if charts == nil {
		return &Pictures{err: &exit.Error{Code: exit.Usage, What: fmt.Sprintf("no score %q", id), At: "ByLead", Why: "the scores are " + strings.Join(known, ", "), Fix: "choose one of these; ens.Metrics selects more"}}
	}
	return picturesOf(charts)
}

// ByDate draws the CRPS of each initialisation time and system: one picture for each variable, level and lead time.
//
// Errors, stored in the pictures: those of the scores; 66 for scores without a table of dates.
func (s *Scores) ByDate() *Pictures {
	if s.err != nil {
		return &Pictures{err: s.err}
	}
	dates, err := runJob(func(ctx context.Context, _ job) ([]score.DateScore, error) {
		whole, _, err := trained.ReadDates(ctx, s.dir)
		return whole, err
	})
	if err != nil {
		return &Pictures{err: err}
	}
	var charts []*report.Chart
	for _, d := range dates {
		if s.only != nil && !slices.Contains(s.only, d.System) {
			continue
		}
		at, err := time.Parse(time.RFC3339, d.Init)
		if err != nil {
			return &Pictures{err: &exit.Error{Code: exit.BadData, What: "invalid initialisation time in the table of dates", At: s.dir, Why: err.Error(), Fix: "verify again"}}
		}
		l := lineOf(&charts, report.Chart{Title: fmt.Sprintf("CRPS of %s, lead %s", report.QuantityName(d.Variable, d.Level), d.Lead), X: "initialisation", Y: "CRPS", Dates: true}, d.System)
		l.X, l.Y = append(l.X, float64(at.Unix())/86400), append(l.Y, float64(d.CRPS))
	}
	return picturesOf(charts)
}

// lineOf returns the line of a system in the chart with the title of c. It adds the chart and the line if needed.
func lineOf(charts *[]*report.Chart, c report.Chart, system string) *report.Line {
	i := slices.IndexFunc(*charts, func(o *report.Chart) bool { return o.Title == c.Title })
	if i < 0 {
		i, *charts = len(*charts), append(*charts, &c)
	}
	chart := (*charts)[i]
	j := slices.IndexFunc(chart.Lines, func(l report.Line) bool { return l.Name == system })
	if j < 0 {
		j, chart.Lines = len(chart.Lines), append(chart.Lines, report.Line{Name: system})
	}
	return &chart.Lines[j]
}

// picturesOf draws charts with the values of their lines in ascending order of x.
func picturesOf(charts []*report.Chart) *Pictures {
	p := &Pictures{}
	for _, c := range charts {
		for i := range c.Lines {
			sortByX(&c.Lines[i])
		}
		p.All = append(p.All, chartOf(c))
	}
	return p
}

// sortByX sorts the values of a line.
func sortByX(l *report.Line) {
	order := make([]int, len(l.X))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(l.X[a], l.X[b]) })
	for _, values := range []*[]float64{&l.X, &l.Y, &l.Low, &l.High} {
		if *values == nil {
			continue
		}
		sorted := make([]float64, len(order))
		for i, k := range order {
			sorted[i] = (*values)[k]
		}
		*values = sorted
	}
}
