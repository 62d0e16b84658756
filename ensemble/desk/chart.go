package desk

import (
	"context"
	"fmt"
	"html/template"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/postproc/report"
)

// maxShared is the number of points of all leads up to which they are read, so that their maps share a colour scale.
const maxShared = 8 << 20

// chart is a drawn map, beside that of the input members if there is one.
type chart struct {
	Title, When, Note string
	Figures           []report.Figure
	Bar               template.HTML
	panel             report.Panel // without values, for positions
}

// companions are the statistics of the input members that are drawn beside those of the products.
var companions = map[statisticKind]statisticKind{mean: rawMean, spread: rawSpread, ensembleSpread: rawSpread}

// chartOf returns the chart of a selection, from the cache or drawn.
func (d *Desk) chartOf(ctx context.Context, s *selection) (*chart, error) {
	key := fmt.Sprintf("map %s %s %s %s %s", s.products.Name, s.products.version(), s.target.id, s.lead, s.statistic.id())
	v, err := d.renderer.get(ctx, key, func(ctx context.Context) (any, int, error) {
		raw, err := d.source.Members(s.products.Name)
		if err != nil {
			return nil, 0, err
		}
		c, err := s.draw(ctx, raw)
		if err != nil {
			return nil, 0, err
		}
		bytes := 0
		for _, f := range c.Figures {
			bytes += len(f.SVG)
		}
		return c, bytes, nil
	})
	if err != nil {
		return nil, err
	}
	return v.(*chart), nil
}

// draw reads the fields of a chart and draws it. Fields of all leads, raw and post-processed, have one colour scale
// and one interval of isolines, unless they are too large.
func (s *selection) draw(ctx context.Context, raw *scoring.MapExample) (*chart, error) {
	companion := companions[s.statistic.kind]
	e := s.entries[fieldKey{s.target.id, s.lead, s.statistic}]
	shared := s.statistic.kind != probability && e.Grid.Size()*len(s.leads) <= maxShared
	fields, err := s.read(ctx, func(k fieldKey) bool {
		return k.target == s.target.id && (shared || k.lead == s.lead) && (k.statistic == s.statistic || companion != "" && k.statistic.kind == companion)
	}, nil)
	if err != nil {
		return nil, err
	}
	isRaw := func(f field) bool { return f.statistic.kind == companion }
	if !slices.ContainsFunc(fields, isRaw) {
		for _, f := range rawFields(raw, s.catalogue, s.target) {
			if isRaw(f) && (shared || f.lead == s.lead) && f.grid.SameAs(e.Grid, 1e-3) {
				fields = append(fields, f)
			}
		}
	}
	p := s.panel(fields)
	drawn, err := p.Render()
	if err != nil {
		return nil, err
	}
	c := &chart{Title: p.Title, When: s.valid(s.lead), Figures: drawn.Figures(), Bar: drawn.Bar()}
	if !shared && s.statistic.kind != probability {
		c.Note = "The colour scale is that of this lead alone: the fields of all leads are too large."
	}
	for i := range p.Maps {
		p.Maps[i].Values = nil
	}
	p.SameScale = nil
	c.panel = p
	return c, nil
}

// panel lays out the maps of the selected lead.
func (s *selection) panel(fields []field) report.Panel {
	d, kind := s.target.display(), s.statistic.kind
	offset := d.Offset
	if s.statistic.isChange() {
		offset = 0
	}
	p := report.Panel{Title: s.target.name() + ": " + s.statistic.text(d), Unit: d.Unit, Palette: d.Palette, Valid: s.init.Valid(s.lead)}
	switch {
	case kind == probability:
		p.Unit, p.Probability, p.Palette = "%", true, nil
		d.Factor, offset = 100, 0
	case s.statistic.isChange():
		p.Unit, p.Palette = d.Change, report.Probabilities
	}
	own, members := report.Map{Title: s.title()}, report.Map{}
	for _, f := range fields {
		values := d.Values(f.values, offset)
		p.SameScale = append(p.SameScale, values)
		switch {
		case f.lead != s.lead:
		case f.statistic == s.statistic:
			own.Grid, own.Values = f.grid, values
		default:
			members = report.Map{Title: fmt.Sprintf("%s %s", map[bool]string{true: "spread of", false: "mean of"}[s.statistic.isChange()], humanise.Count(len(s.products.Manifest.MembersUsed), "raw member")), Grid: f.grid, Values: values}
		}
	}
	if d.Intervals != nil && !s.statistic.isChange() && kind != probability {
		p.Isolines = report.IsolineInterval(d.Intervals, p.SameScale...)
	}
	if members.Values != nil {
		p.Maps = append(p.Maps, members)
	}
	p.Maps = append(p.Maps, own)
	return p
}

// title is the title of the map of the products.
func (s *selection) title() string {
	switch s.statistic.kind {
	case mean:
		return "post-processed mean"
	case spread:
		return "post-processed spread"
	}
	return s.statistic.text(s.target.display())
}

// valid is the valid time of a lead.
func (s *selection) valid(l ensemble.Lead) string { return minute(s.init.Valid(l).Time) }
