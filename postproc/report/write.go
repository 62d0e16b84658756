package report

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"runtime"
	"slices"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"
)

// sortScript sorts tables that are Sortable. Pages without such tables contain no script.
//
//go:embed sort.js
var sortScript string

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"capital":   capitalise,
	"spaced":    spaced,
	"thousands": thousands,
	"bytes":     func(n int64) string { return thousands(int(n)) },
	"first":     func(all []File) []File { return all[:min(len(all), mostInputs)] },
	"more":      func(all []File) int { return max(0, len(all)-mostInputs) },
	"styles":    Styles,
	"dark":      DarkStyles,
	"shapes":    Shapes,
}).Parse(pageText))

// mostInputs is the number of input files on a page.
const mostInputs = 500

// htmlOf marks text as HTML that is escaped already.
func htmlOf(s string) template.HTML { return template.HTML(s) }

// capitalise converts the first letter to upper case; it may have several bytes.
func capitalise(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return s
	}
	return string(unicode.ToUpper(r)) + s[n:]
}

// pageData is the data of the page template: the page with rendered pictures and formatted tables.
type pageData struct {
	*Page
	glance
	mapSection
	// Pickers are those that exist.
	Pickers []*picker
	// Curves are Page.Charts; ByLead are scores as a function of lead.
	Curves []curve
	ByLead []curve
	// Targets are the scores; Notes defines them; Divisors and Bootstrap describe spread and
	// intervals.
	Targets   []target
	Notes     []note
	Divisors  []Fact
	Bootstrap string
	// "": none.
	Script template.HTML
	// SHA-256 of the script in base64, for the content security policy.
	ScriptSum string
	// Others are the other files of a report of several; nil: none.
	Others *others
	allTargets
}

// allTargets holds all variables and leads, from which Glance, Maps and Targets of a file are selected.
type allTargets struct {
	panes  []pane
	groups [][]mapRow
	scored []target
}

// glance is the upper part of a page: three lines, and pictures of each target.
type glance struct {
	Brief  []briefLine
	Skill  *glanceFigure
	Glance []chosen[pane]
	Picker *picker
}

// mapSection holds the maps, grouped by variable and lead.
type mapSection struct {
	// HasMaps: the page needs the shapes that maps refer to.
	HasMaps   bool
	Maps      []chosen[[]mapRow]
	MapPicker *picker
}

// mapRow is a rendered Panel.
type mapRow struct {
	// Title is that of the panel, When the valid time.
	Title, When string
	// As in Panel.
	Variable, Lead, Note   string
	Folded, Stamps, Single bool
	Tall                   bool // higher than wide, or nearly
	Legend                 []Fact
	// Columns is the number of maps side by side.
	Columns  int
	Pictures []Figure
	// Bar is the colour bar.
	Bar template.HTML
}

// curve is a rendered Chart with its table.
type curve struct {
	*Chart
	SVG  template.HTML
	Rows [][]string
}

// Write writes the page as one HTML file of any size; Parts bounds it. It loads no other files, can be opened from disk and
// prints on A4. It contains a script only if a table is Sortable; its digest is in the content
// security policy, which forbids all other scripts.
//
// Panels are rendered in parallel, since images take most of the time. The page consists of status and warnings, maps, tables,
// scores with diagrams, charts, and the record: configuration, inputs and environment.
//
// Errors: a map without values or of another size than its grid; those of the writer.
func (p *Page) Write(w io.Writer) error {
	s, err := p.data()
	if err != nil {
		return err
	}
	text, err := s.text(nil)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// data renders the pictures and formats the tables of a page.
//
// Errors: those of drawPanels.
func (p *Page) data() (*pageData, error) {
	s := &pageData{Page: p, allTargets: allTargets{scored: targets(p.Scores)}, Notes: notes(p.Scores), Divisors: divisors(p.Scores), Bootstrap: resampling(p.Scores)}
	if slices.ContainsFunc(p.Tables, func(t Table) bool { return t.Sortable }) {
		sum := sha256.Sum256([]byte(sortScript))
		s.Script, s.ScriptSum = template.HTML("<script>"+sortScript+"</script>"), base64.StdEncoding.EncodeToString(sum[:])
	}
	maps, err := drawPanels(p.Panels, p.Places)
	if err != nil {
		return nil, err
	}
	places := maps[len(p.Panels):]
	maps = maps[:len(p.Panels):len(p.Panels)]
	for _, d := range p.Rendered {
		maps = append(maps, d.row)
	}
	s.HasMaps = len(maps)+len(places) > 0
	s.Brief = briefLines(p)
	if p.Scores != nil {
		if f, ok := skillChart(p.Scores.Briefs(), p.Scores.Bootstrap.Confidence); ok {
			s.Skill = &f
		}
	}
	s.panes, s.groups = panes(p, places), grouped(maps)
	for i := range p.Charts {
		c := &p.Charts[i]
		s.Curves = append(s.Curves, curve{c, template.HTML(c.svg()), c.table()}) // text in it is escaped
	}
	for _, c := range byLead(p.Scores) {
		s.ByLead = append(s.ByLead, curve{&c, template.HTML(c.svg()), c.table()})
	}
	return s, nil
}

// drawPanels renders all panels of two lists, in parallel. The resolution of the images follows from the area
// of all these maps, so that the page stays small with many maps.
//
// Shape: result [panel of all lists], in their order.
// Errors: those of drawPanel.
func drawPanels(lists ...[]Panel) ([]mapRow, error) {
	all := slices.Concat(lists...)
	out := make([]mapRow, len(all))
	var area float64
	var targets []string
	for i := range all {
		area += all[i].area()
		if key := keyOf(all[i].Variable, all[i].Lead); !slices.Contains(targets, key) {
			targets = append(targets, key)
		}
	}
	area *= min(1, partTargets/float64(max(1, len(targets)))) // the others are in other files
	var drawn errgroup.Group
	drawn.SetLimit(runtime.GOMAXPROCS(0))
	for i := range all {
		drawn.Go(func() error {
			r, err := drawPanel(&all[i], resolution(area))
			if err == nil {
				out[i] = *r
			}
			return err
		})
	}
	return out, drawn.Wait()
}

// grouped joins the rows of the same variable and lead, those that are not folded first. Rows without a
// variable are one group.
func grouped(rows []mapRow) (out [][]mapRow) {
	for _, r := range rows {
		i := slices.IndexFunc(out, func(g []mapRow) bool { return g[0].Variable == r.Variable && g[0].Lead == r.Lead })
		if i < 0 {
			i, out = len(out), append(out, nil)
		}
		out[i] = append(out[i], r)
	}
	for _, g := range out {
		slices.SortStableFunc(g, func(a, b mapRow) int { return folded(a) - folded(b) })
	}
	return out
}

// folded is 1 for folded rows.
func folded(r mapRow) int {
	if r.Folded {
		return 1
	}
	return 0
}

// chosen is an alternative of a picker.
type chosen[T any] struct {
	// ID of the element.
	ID string
	Of T
}

// picker chooses one of several alternatives by radio buttons, without a script: a row for each variable
// with a button for each lead. Browsers without the CSS selector :has show all alternatives.
type picker struct {
	Name string
	Rows []pickerRow
}

// pickerRow is a row of a picker.
type pickerRow struct {
	Label   string
	Buttons []pickerButton
}

// pickerButton is a radio button for the element Of.
type pickerButton struct {
	ID, Of, Label string
	First         bool
}

// choose makes the picker of alternatives with their variable and lead; nil for fewer than two.
func choose[T any](name string, all []T, key func(T) (variable, lead string)) (out []chosen[T], p *picker) {
	p = &picker{Name: name}
	for i, a := range all {
		id := fmt.Sprintf("%s%d", name, i+1)
		out = append(out, chosen[T]{id, a})
		variable, lead := key(a)
		k := slices.IndexFunc(p.Rows, func(r pickerRow) bool { return r.Label == variable })
		if k < 0 {
			k, p.Rows = len(p.Rows), append(p.Rows, pickerRow{Label: variable})
		}
		p.Rows[k].Buttons = append(p.Rows[k].Buttons, pickerButton{"r" + id, id, spaced(lead), i == 0})
	}
	if len(all) < 2 {
		return out, nil
	}
	if len(p.Rows) == len(all) { // one lead: a single row of variables
		row := pickerRow{}
		for _, r := range p.Rows {
			r.Buttons[0].Label = r.Label
			row.Buttons = append(row.Buttons, r.Buttons[0])
		}
		p.Rows = []pickerRow{row}
	}
	return out, p
}

// check returns an error for maps that do not fill their grid, before any picture is rendered.
func (p *Panel) check() error {
	for _, m := range p.Maps {
		if m.Grid == nil || len(m.Values) == 0 || len(m.Values) != m.Grid.Size() {
			return fmt.Errorf("report: map %q of %q: %d values do not fill its grid", m.Title, p.Title, len(m.Values))
		}
	}
	return nil
}

// Render renders the pictures of a panel once, for pages that are written repeatedly.
//
// Errors: a map without values or of another size than its grid.
func (p *Panel) Render() (RenderedPanel, error) {
	r, err := drawPanel(p, resolution(fullResolution))
	if err != nil {
		return RenderedPanel{}, err
	}
	return RenderedPanel{*r}, nil
}

// drawPanel renders the maps of a panel on a common colour scale, in one to three columns, with
// the table of their extremes.
//
// Errors: as Panel.check; those of the PNG encoder.
//
// Unit: pixels is the resolution in pixels per SVG unit.
func drawPanel(p *Panel, pixels float64) (*mapRow, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	s := newScale(p)
	r := &mapRow{Title: spaced(p.Title), When: p.when(), Columns: p.columns(),
		Variable: spaced(p.Variable), Lead: spaced(p.Lead), Note: p.Note, Folded: p.Folded, Stamps: p.Stamps, Single: len(p.Maps) == 1 && p.Variable != ""}
	if p.Stamps {
		pixels = min(pixels, 1.5)
	}
	missing := false
	for j := range p.Maps {
		c := newPicture(p, j, s)
		svg, err := c.svg(p.mapWidth(), pixels)
		if err != nil {
			return nil, err
		}
		r.Tall = r.Tall || c.view.aspect > 0.7
		f := Figure{Title: c.m.Title, SVG: template.HTML(svg), Low: "–", High: "–", Mean: "–", // text in it is escaped
			Missing: thousands(c.missing) + " of " + thousands(len(c.m.Values)), Unit: unit(p.Unit), Reference: c.m.Reference}
		if c.low >= 0 {
			f.Low, f.LowAt = s.text(float64(c.m.Values[c.low])), c.where(c.low)
			f.High, f.HighAt = s.text(float64(c.m.Values[c.high])), c.where(c.high)
			f.Mean = s.text(c.mean)
		}
		missing = missing || c.missing > 0
		r.Pictures = append(r.Pictures, f)
	}
	if len(p.Maps) > 0 && p.Maps[0].Spaghetti != nil {
		r.Legend = p.Maps[0].Spaghetti.legend()
		return r, nil
	}
	r.Bar = template.HTML(s.bar(p.Unit, missing)) // text in it is escaped
	return r, nil
}
