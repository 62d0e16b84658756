package desk

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"regexp"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/published"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/report"
)

// Source gives the desk the products that it shows.
type Source interface {
	// Inits lists the initialisations with products, the newest first. Those in the future are not among them.
	Inits() []string
	// Products returns the products of an initialisation; published.ErrNoProducts without them.
	Products(name string) (*Products, error)
	// Members returns the statistics of the members that the products of an initialisation were made from; nil if they
	// are not kept.
	Members(name string) (*scoring.MapExample, error)
}

// Desk makes the page. Its methods may be called from several goroutines.
type Desk struct {
	source   Source
	reader   *published.Reader
	renderer *renderer
}

// New returns a desk for the products of a source, which a reader opens.
func New(s Source, r *published.Reader) *Desk { return &Desk{s, r, newRenderer()} }

// Page is what the service states about itself.
type Page struct {
	Headline Headline
	Notices  []Notice
	Facts    []report.Fact // about the newest products and the model
	Warnings []string
	Tables   []report.Table
	Links    []report.Link
}

// Answer is the response to a request for the page.
type Answer struct {
	Code     int    // of HTTP
	Location string // address of the page for a click on a map; "": none
	Text     []byte // HTML
	Faults   []error
}

// Answer renders the page with the map and the meteogram of a query. Its errors are part of the page, with code 404 for an
// initialisation, variable, lead or statistic that does not exist, and 400 for a place that is none. Faults are those of
// product files and of drawing.
//
// Errors: those of the template.
func (d *Desk) Answer(ctx context.Context, p Page, q url.Values) (Answer, error) {
	a := Answer{Code: http.StatusOK}
	v := view{Page: p, Choice: d.choice(q)}
	s, err := d.choose(ctx, q)
	if s != nil && err == nil {
		var at *report.Place
		if at, err = d.place(ctx, s, q); at != nil {
			s.at = at
			a.Code, a.Location = http.StatusSeeOther, "/?"+s.query().Encode()+"#meteogram"
			return a, nil
		}
	}
	var unknown *unknownError
	var badPlace *badPlaceError
	switch {
	case errors.As(err, &unknown):
		a.Code, v.ChartError = http.StatusNotFound, unknown.Error()
	case errors.As(err, &badPlace):
		a.Code, v.MeteogramError = http.StatusBadRequest, badPlace.Error()
	case err != nil && !errors.Is(err, published.ErrNoProducts):
		a.Faults, v.ChartError = append(a.Faults, err), exit.OneLine(err)
	}
	if s != nil {
		a.Faults = append(a.Faults, v.show(ctx, d, s)...)
	}
	if v.MeteogramCode != 0 {
		a.Code = v.MeteogramCode
	}
	var b bytes.Buffer
	if err := page.Execute(&b, &v); err != nil {
		return a, fmt.Errorf("page: %w", err)
	}
	a.Text = b.Bytes()
	return a, nil
}

// view is the data of the template.
type view struct {
	Page
	Choice         *choice // nil without products
	Chart          *shown
	ChartError     string
	Meteogram      *meteogram
	MeteogramError string
	MeteogramCode  int // of HTTP; 0: that of the page
}

// shown is a chart with the place of its meteogram.
type shown struct {
	*chart
	Maps []shownMap
}

// shownMap is a map that can be clicked on.
type shownMap struct {
	report.Figure
	Inputs []clickInput
	Marker template.CSS // position of the place; "": none
}

// clickInput is an image input over a map.
type clickInput struct {
	Name  string
	Width int
}

// show adds the map and the meteogram of a selection.
func (v *view) show(ctx context.Context, d *Desk, s *selection) (faults []error) {
	if v.Choice == nil { // the products came after it was made
		v.Choice = &choice{}
	}
	v.Choice.fill(s)
	c, err := d.chartOf(ctx, s)
	if err != nil {
		faults, v.ChartError = append(faults, err), exit.OneLine(err)
	} else {
		v.Chart = &shown{chart: c}
		for j, f := range c.Figures {
			m := shownMap{Figure: f}
			for _, w := range clickWidths {
				m.Inputs = append(m.Inputs, clickInput{clickName(j, w), w})
			}
			if s.at != nil {
				if x, y, ok := c.panel.Position(j, *s.at); ok {
					m.Marker = template.CSS(fmt.Sprintf("left: %.3f%%; top: calc(var(--w) * %.5f)", 100*x, y))
				}
			}
			v.Chart.Maps = append(v.Chart.Maps, m)
		}
	}
	if s.at == nil {
		return faults
	}
	var badPlace *badPlaceError
	switch v.Meteogram, err = d.meteogramOf(ctx, s); {
	case errors.As(err, &badPlace):
		v.MeteogramCode, v.MeteogramError = http.StatusBadRequest, badPlace.Error()
	case err != nil:
		faults, v.MeteogramError = append(faults, err), exit.OneLine(err)
	}
	return faults
}

// choice is the form.
type choice struct {
	Inits, Variables, Leads, Statistics []option
	Lat, Lon                            string
	Hidden                              []report.Fact // the selection without a place, by the names of a query
	Earlier, Later                      string        // addresses of the neighbouring leads; "": none
	Note                                string
}

// option is an option of a select.
type option struct {
	Value, Text string
	Chosen      bool
}

// maxInits is the largest number of initialisations in the form. Others are reached by their address.
const maxInits = 200

// choice returns the form with the initialisations only; nil without any. It keeps the place of a query as it is.
func (d *Desk) choice(q url.Values) *choice {
	c := &choice{Lat: q.Get("lat"), Lon: q.Get("lon")}
	names := d.source.Inits()
	if len(names) == 0 {
		return nil
	}
	if chosen := q.Get("init"); slices.Contains(names[min(len(names), maxInits):], chosen) {
		names = append([]string{chosen}, names[:maxInits]...)
	}
	for _, n := range names[:min(len(names), maxInits+1)] {
		c.Inits = append(c.Inits, option{n, initText(n), n == cmp.Or(q.Get("init"), names[0])})
	}
	return c
}

// initText is the name of an initialisation for display: "2026-01-01 00:00Z".
func initText(name string) string {
	for len(name) < len("200601021504") {
		name += "0"
	}
	return name[:4] + "-" + name[4:6] + "-" + name[6:8] + " " + name[8:10] + ":" + name[10:12] + "Z"
}

// fill adds the choices of a selection.
func (c *choice) fill(s *selection) {
	d := s.target.display()
	for i := range s.targets {
		t := &s.targets[i]
		c.Variables = append(c.Variables, option{t.id, t.name(), t == s.target})
	}
	leads := s.leadsOf(s.target)
	for i, l := range leads {
		c.Leads = append(c.Leads, option{l.String(), fmt.Sprintf("%s, valid %s", l, s.valid(l)), l == s.lead})
		if l == s.lead && i > 0 {
			c.Earlier = s.address(leads[i-1])
		}
		if l == s.lead && i+1 < len(leads) {
			c.Later = s.address(leads[i+1])
		}
	}
	for _, x := range s.statistics(s.target, nil) {
		c.Statistics = append(c.Statistics, option{x.id(), x.text(d), x == s.statistic})
	}
	for _, name := range []string{"init", "variable", "lead", "show"} {
		c.Hidden = append(c.Hidden, report.Fact{Name: name, Text: s.query().Get(name)})
	}
	if s.at != nil {
		c.Lat, c.Lon = degrees(s.at.Lat), degrees(s.at.Lon)
	}
	c.Note = s.note
}

// address is the address of the selection at another lead.
func (s *selection) address(l ensemble.Lead) string {
	other := *s
	other.lead = l
	return "/?" + other.query().Encode() + "#map"
}

// signs are the shapes of the states, which differ without colour.
var signs = map[State]template.HTML{
	Failed:   `<path d="M8 2h8l6 6v8l-6 6H8l-6-6V8z"/><path class="hole" d="M8 8l8 8M16 8l-8 8"/>`,
	Late:     `<path d="M12 2L23 22H1z"/><path class="hole" d="M12 9v6M12 18v1"/>`,
	None:     `<circle class="open" cx="12" cy="12" r="9"/>`,
	Stale:    `<rect x="2" y="2" width="20" height="20"/><path class="hole" d="M12 6v7h5"/>`,
	Changed:  `<path class="open" d="M12 2l10 10-10 10L2 12z"/>`,
	Degraded: `<path d="M12 1l11 11-11 11L1 12z"/><path class="hole" d="M7 12h10"/>`,
	Fresh:    `<circle cx="12" cy="12" r="10"/><path class="hole" d="M7 12l4 4 7-8"/>`,
}

// sign is the shape of a state.
func sign(s State) template.HTML {
	return `<svg class="sign" viewBox="0 0 24 24" aria-hidden="true">` + signs[s] + `</svg>`
}

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"styles": report.Styles, "dark": report.DarkStyles, "shapes": report.Shapes, "sign": sign,
	"word": func(s State) string { return words[s] }, "unbroken": unbroken,
}).Parse(pageText))

// wholeWords are the dates, times and options of commands in a text, in which browsers break lines after hyphens.
var wholeWords = regexp.MustCompile(`\b\d{4}-\d\d-\d\d(?: \d\d:\d\dZ)?|--[a-z-]+`)

// unbroken escapes a text for HTML in which no line breaks within wholeWords.
func unbroken(text string) template.HTML {
	return template.HTML(wholeWords.ReplaceAllString(template.HTMLEscapeString(text), `<span class="whole">$0</span>`))
}
