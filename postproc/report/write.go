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
	"styles":    func() template.CSS { return template.CSS(pictureStyles) },
}).Parse(pageText))

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
	// CoastID and CoastPath define the coastlines once for all maps; CoastPath is empty
	// without maps.
	CoastID   string
	CoastPath string
	Maps      []mapRow
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
}

// mapRow is a rendered Panel.
type mapRow struct {
	// Title is that of the panel, When the valid time.
	Title, When string
	// Columns is the number of maps side by side.
	Columns  int
	Pictures []mapFigure
	// Bar is the colour bar.
	Bar template.HTML
}

// mapFigure is a rendered Map with its statistics.
type mapFigure struct {
	Title string
	SVG   template.HTML
	// Low and High are minimum and maximum, LowAt and HighAt their locations; "–" without
	// values.
	Low, LowAt   string
	High, HighAt string
	// Mean is area-weighted; Missing counts the missing points.
	Mean, Missing, Unit string
}

// curve is a rendered Chart with its table.
type curve struct {
	*Chart
	SVG  template.HTML
	Rows [][]string
}

// Write writes the page as one HTML file. It loads no other files, can be opened from disk and
// prints on A4. It contains a script only if a table is Sortable; its digest is in the content
// security policy, which forbids all other scripts.
//
// Panels are rendered in parallel. The page consists of status and warnings, maps, tables,
// scores with diagrams, charts, and the record: configuration, inputs and environment.
//
// Errors: a map without values or of another size than its grid; those of the writer.
func (p *Page) Write(w io.Writer) error {
	s := pageData{Page: p, CoastID: coastID, Targets: targets(p.Scores), Notes: notes(p.Scores), Divisors: divisors(p.Scores), Bootstrap: resampling(p.Scores)}
	if slices.ContainsFunc(p.Tables, func(t Table) bool { return t.Sortable }) {
		sum := sha256.Sum256([]byte(sortScript))
		s.Script, s.ScriptSum = template.HTML("<script>"+sortScript+"</script>"), base64.StdEncoding.EncodeToString(sum[:])
	}
	s.Maps = make([]mapRow, len(p.Panels))
	var drawn errgroup.Group
	drawn.SetLimit(runtime.GOMAXPROCS(0))
	for i := range p.Panels {
		drawn.Go(func() error {
			r, err := drawPanel(&p.Panels[i])
			if err == nil {
				s.Maps[i] = *r
			}
			return err
		})
	}
	if err := drawn.Wait(); err != nil {
		return err
	}
	for _, d := range p.Rendered {
		s.Maps = append(s.Maps, d.row)
	}
	if len(s.Maps) > 0 {
		s.CoastPath = coastPath()
	}
	for i := range p.Charts {
		c := &p.Charts[i]
		s.Curves = append(s.Curves, curve{c, template.HTML(c.svg()), c.table()}) // text in it is escaped
	}
	for _, c := range byLead(p.Scores) {
		s.ByLead = append(s.ByLead, curve{&c, template.HTML(c.svg()), c.table()})
	}
	if err := pageTemplate.Execute(w, &s); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
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
	r, err := drawPanel(p)
	if err != nil {
		return RenderedPanel{}, err
	}
	return RenderedPanel{*r}, nil
}

// drawPanel renders the maps of a panel on a common colour scale, in one to three columns, with
// the table of their extremes.
//
// Errors: as Panel.check; those of the PNG encoder.
func drawPanel(p *Panel) (*mapRow, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	s := newScale(p)
	r := &mapRow{Title: spaced(p.Title), When: p.when(), Columns: []int{1, 1, 2, 3, 2}[min(len(p.Maps), 4)]}
	if len(p.Maps) > 4 {
		r.Columns = 3
	}
	missing := false
	for j := range p.Maps {
		c := newPicture(p, j, s)
		svg, err := c.svg([]float64{0, 760, 560, 420}[r.Columns])
		if err != nil {
			return nil, err
		}
		f := mapFigure{Title: c.m.Title, SVG: template.HTML(svg), Low: "–", High: "–", Mean: "–", // text in it is escaped
			Missing: thousands(c.missing) + " of " + thousands(len(c.m.Values)), Unit: unit(p.Unit)}
		if c.low >= 0 {
			f.Low, f.LowAt = s.text(float64(c.m.Values[c.low])), c.where(c.low)
			f.High, f.HighAt = s.text(float64(c.m.Values[c.high])), c.where(c.high)
			f.Mean = s.text(c.mean)
		}
		missing = missing || c.missing > 0
		r.Pictures = append(r.Pictures, f)
	}
	r.Bar = template.HTML(s.bar(p.Unit, missing)) // text in it is escaped
	return r, nil
}
