package report

import (
	_ "embed"
	"fmt"
	"html"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// pictureStyles are the CSS rules of pictures, on a page and in standalone files.
//
//go:embed picture.css
var pictureStyles string

// darkStyles replace colours of pictureStyles in the dark colour scheme.
//
//go:embed dark.css
var darkStyles string

// Picture is a drawing as a standalone SVG file, for notebooks and other pages.
type Picture struct {
	Title string
	SVG   []byte
}

// viewBox matches the start tag of an SVG element, with its other attributes, width and
// height.
var viewBox = regexp.MustCompile(`^<svg([^>]*) viewBox="0 0 ([0-9.]+) ([0-9.]+)"`)

// Standalone makes a standalone SVG file of an SVG element of a page, with a title, CSS rules and
// a white background. Its width is that of the viewBox, at most that of a notebook's page.
//
// Errors: none; an element without a viewBox from 0 0 is returned unchanged.
func Standalone(title, svg, styles string) Picture {
	m := viewBox.FindStringSubmatchIndex(svg)
	if m == nil {
		return Picture{title, []byte(svg)}
	}
	w, errW := strconv.ParseFloat(svg[m[4]:m[5]], 64)
	h, errH := strconv.ParseFloat(svg[m[6]:m[7]], 64)
	if errW != nil || errH != nil {
		return Picture{title, []byte(svg)}
	}
	fit := min(1, standaloneWidth/w)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s" font-family="%s"%s`, num(w*fit), num(h*fit), pictureFonts, svg[m[2]:m[1]])
	end := strings.IndexByte(svg[m[1]:], '>') + m[1] + 1
	fmt.Fprintf(&b, `%s<title>%s</title><style>%s</style><rect width="100%%" height="100%%" fill="#fff"/>%s`,
		svg[m[1]:end], html.EscapeString(title), strings.TrimSpace(styles), svg[end:])
	return Picture{title, []byte(b.String())}
}

// standaloneWidth is the largest width of a standalone picture, that of a notebook's page.
//
// Unit: pixels.
const standaloneWidth = 920

// pictureFonts is the font family of pages and pictures.
const pictureFonts = `system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Liberation Sans', Arial, sans-serif`

// Picture draws the chart below its title as a standalone picture.
func (c *Chart) Picture() Picture {
	const top = 26.0
	plot := c.svg()
	m := viewBox.FindStringSubmatch(plot)
	w, h := m[2], m[3]
	height, _ := strconv.ParseFloat(h, 64) // it is a number of svg
	svg := fmt.Sprintf(`<svg class="chart" viewBox="0 0 %s %s" role="img"><text x="8" y="17" font-size="14" font-weight="600">%s</text><svg y="%s" width="%s" height="%s"%s`,
		w, num(height+top), html.EscapeString(c.Title), num(top), w, h, strings.TrimPrefix(plot, "<svg")) + "</svg>"
	return Standalone(c.Title, svg, pictureStyles)
}

// Histograms draws the rank histograms over the whole area and all dates, one picture for each
// system with members.
func Histograms(r *score.Result) (out []Picture) {
	for i := range r.Ranks {
		if h := &r.Ranks[i]; score.IsOverall(h.Region, h.Season) {
			out = append(out, Standalone(fmt.Sprintf("%s: %s", about(h.Variable, h.Level, h.Lead), h.System), rankSVG(h), pictureStyles))
		}
	}
	return out
}

// Diagrams draws the diagrams of a result (reliability, PIT, ROC, economic value,
// spread-skill) over the whole area and all dates; with ids only these scores.
func Diagrams(r *score.Result, ids ...string) (out []Picture) {
	for _, d := range r.Diagrams {
		if !score.IsOverall(d.Region, d.Season) || len(ids) > 0 && !slices.Contains(ids, d.ID) {
			continue
		}
		for _, g := range diagrams([]score.Diagram{d}) {
			out = append(out, Standalone(fmt.Sprintf("%s: %s", about(d.Variable, d.Level, d.Lead), g.Name), string(g.SVG), pictureStyles))
		}
	}
	return out
}

// ScoreTables compares the systems: a table for each variable, level and lead, with the scores
// of these ids or with all of them.
//
// Shape: Rows [system][system, members, score …]; systems without any of the scores are left
// out. Intervals are in brackets.
func ScoreTables(r *score.Result, ids ...string) (out answer.Sections) {
	for _, t := range targets(r) {
		// shown are the indices of the selected columns.
		table := answer.Section{Title: t.Name + ". " + t.About, Columns: answer.TextColumns("system", "members")}
		var shown []int
		for i, c := range t.Columns {
			if len(ids) > 0 && !slices.Contains(ids, c.ID) {
				continue
			}
			shown = append(shown, i)
			name := c.Name
			if c.Unit != "" {
				name += " (" + c.Unit + ")"
			}
			table.Columns = append(table.Columns, answer.Column{Name: name + ", " + c.Better})
		}
		for _, row := range t.Rows {
			cells := []any{row.System, row.Members}
			judged := false // the system has one of the scores
			for _, i := range shown {
				c := row.Cells[i]
				judged = judged || c.Interval != ""
				if c.Interval == noInterval {
					c.Interval = ""
				}
				cells = append(cells, strings.TrimSpace(c.Value+" "+bracketed(c.Interval)))
			}
			if judged {
				table.Rows = append(table.Rows, cells)
			}
		}
		out = append(out, table)
	}
	return out
}

// SkillTables lists the skill scores of systems relative to others, a table for each variable,
// level and lead, with paired intervals and the decision that follows from them.
//
// Shape: Rows [comparison][score, system, reference, skill score, interval, verdict].
func SkillTables(r *score.Result, ids ...string) (out answer.Sections) {
	for _, t := range targets(r) {
		table := answer.Section{Title: t.Name, Columns: answer.TextColumns("score", "system", "reference", "skill score", "interval", "verdict")}
		for _, g := range t.Gains {
			if len(ids) == 0 || slices.Contains(ids, g.ID) {
				table.Rows = append(table.Rows, []any{g.ID, g.System, g.Reference, g.Value, g.Interval, g.Verdict})
			}
		}
		out = append(out, table)
	}
	return out
}

// bracketed puts a text in brackets unless it is empty.
func bracketed(s string) string {
	if s == "" {
		return ""
	}
	return "(" + s + ")"
}

// about is the heading of a target: "Temperature at 850 hPa, lead 48 h".
func about(variable, level, lead string) string {
	return keyOf(QuantityName(variable, level), spaced(lead))
}

// SkillPictures draws the skill scores with their paired intervals about a line at zero: a
// picture for each variable, level and lead, with the scores of these ids or with all. The
// verdict stands to the right of each interval.
func SkillPictures(r *score.Result, ids ...string) (out []Picture) {
	const w, row, plot = 780.0, 24.0, 290.0
	for _, t := range targets(r) {
		gains := slices.DeleteFunc(slices.Clone(t.Gains), func(g comparison) bool { return len(ids) > 0 && !slices.Contains(ids, g.ID) })
		if len(gains) == 0 {
			continue
		}
		var b strings.Builder
		fmt.Fprintf(&b, `<svg class="gains" viewBox="0 0 %s %s" role="img" aria-label="%s">`, num(w), num(row*float64(len(gains)+1)), html.EscapeString("skill scores of "+t.Name))
		fmt.Fprintf(&b, `<text class="name" x="8" y="16" font-weight="600">%s</text>`, html.EscapeString(t.Name+": skill score; left of the line worse, right better"))
		for i, g := range gains {
			y := row * float64(i+1)
			fmt.Fprintf(&b, `<text class="name" x="8" y="%s">%s</text>`, num(y+14), html.EscapeString(fmt.Sprintf("%s: %s over %s", g.ID, g.System, g.Reference)))
			fmt.Fprintf(&b, `<svg x="%s" y="%s" width="200" height="18"%s`, num(plot), num(y), strings.TrimPrefix(string(g.Plot), "<svg"))
			fmt.Fprintf(&b, `<text class="name" x="%s" y="%s">%s (%s) %s</text>`, num(plot+214), num(y+14), html.EscapeString(g.Value), html.EscapeString(g.Interval), html.EscapeString(g.Verdict))
		}
		b.WriteString("</svg>")
		out = append(out, Standalone(t.Name+": skill scores", b.String(), pictureStyles))
	}
	return out
}
