package report

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/postproc/score"
)

// diagram is a drawn Diagram with its table. The table has the numbers of the picture, for readers who
// do not see it and for copies.
//
// Shape: Rows [row][column].
type diagram struct {
	// Name is the system and the kind of diagram, with the threshold if there is one.
	Name string
	SVG  template.HTML
	// Columns are those of the score, then the ends of the interval.
	Columns []string
	Rows    [][]string
}

// diagrams draws the diagrams of a target for which figureOf defines a picture, in the order of the
// result. A diagram without rows is left out.
func diagrams(all []score.Diagram) (out []diagram) {
	for i := range all {
		d := &all[i]
		p := figureOf(d)
		if p == nil || len(d.Rows) == 0 {
			continue
		}
		name := d.System + ": " + p.what
		if s := score.ByID(d.ID); s.IsPerThreshold() {
			name += " above " + short(float64(d.Threshold))
		}
		g := diagram{Name: name, SVG: template.HTML(p.svg(name)), Columns: append(slices.Clone(d.Columns), d.IntervalColumn+", low", "high")} // text in it is escaped
		for k, row := range d.Rows {
			var cells []string
			for _, v := range append(slices.Clone(row), d.Low[k], d.High[k]) {
				cells = append(cells, short(float64(v)))
			}
			g.Rows = append(g.Rows, cells)
		}
		out = append(out, g)
	}
	return out
}

// figure is a small picture of points with intervals, over a common x axis. The ranges of the axes are
// fixed for probabilities, so that figures of different systems compare, and computed else.
type figure struct {
	// Title and axis labels.
	what, x, y string
	points     []mark
	// Connect the points.
	line bool
	// Draw bars from 0 instead of points.
	bars bool
	// Draw the line y = x, on which the points of a calibrated forecast lie.
	diagonal bool
	// Horizontal line: a flat histogram, or the frequency of the event; NaN: none.
	level float64
	// Both axes are logarithmic.
	log bool
	// Ranges of the x and y axis.
	low, high [2]float64
	// name and secondName stand in a legend; second are the points of another system; "" and nil: none.
	name, secondName string
	second           []mark
}

// mark is a point with its interval; size is proportional to its number of cases.
//
// Missing: low and high are NaN without an interval.
type mark struct{ x, y, low, high, size float64 }

// figureOf selects the columns, axes and reference lines of a diagram; nil if there is no
// picture of the score. Columns are found by name, as Score.Diagram defines them.
//
//	PIT histogram       share by forecast probability; level 1/bins
//	reliability         frequency by forecast probability; diagonal, level base rate
//	ROC                 hit rate by false-alarm rate; diagonal
//	economic value      value by cost-loss ratio
//	spread and skill    RMSE by spread, both logarithmic; diagonal
//
// The axes are fractions from 0 to 1 without unit, except those of spread and skill, which have the unit
// of the variable and the same range. They are logarithmic because its bins are equal fractions of an
// octave, and because an error of 10 % then has the same length everywhere. Its bins of less than
// 0.2 % of the cases are left out: their RMSE depends on a few dates. The y axis of the histogram ends
// 8 % above the highest bar or interval.
//
// Missing: rows without x or y are left out.
// Source: package score, Diagram of each score: PITFlatness, ReliabilityDiagram, ROCArea,
// EconomicValue, SpreadSkillBins.
func figureOf(d *score.Diagram) *figure {
	p := &figure{level: math.NaN(), low: [2]float64{0, 0}, high: [2]float64{1, 1}}
	// col is the value of a named column; add appends a point for each row.
	col := func(row []score.Number, name string) float64 { return float64(row[slices.Index(d.Columns, name)]) }
	add := func(x, y string, size string) {
		for k, row := range d.Rows {
			m := mark{col(row, x), col(row, y), float64(d.Low[k]), float64(d.High[k]), 1}
			if size != "" {
				m.size = col(row, size)
			}
			if !math.IsNaN(m.x) && !math.IsNaN(m.y) {
				p.points = append(p.points, m)
			}
		}
	}
	switch d.ID {
	case score.PITFlatness.ID:
		p.what, p.x, p.y, p.bars = "PIT histogram", "forecast probability below the reference", "share", true
		add("pit", "share", "")
		most := 0.0
		for _, m := range p.points {
			most = math.Max(most, m.y)
			if !math.IsNaN(m.high) { // few dates have no intervals
				most = math.Max(most, m.high)
			}
		}
		p.level, p.high[1] = 1/float64(len(d.Rows)), most*1.08
	case score.ReliabilityDiagram.ID:
		p.what, p.x, p.y, p.diagonal = "reliability", "forecast probability", "frequency", true
		add("probability", "frequency", "share")
		if len(d.Rows) > 0 {
			p.level = col(d.Rows[0], "base_rate")
		}
	case score.ROCArea.ID:
		p.what, p.x, p.y, p.diagonal, p.line = "ROC", "false-alarm rate", "hit rate", true, true
		p.points = []mark{{0, 0, math.NaN(), math.NaN(), 1}} // the origin: no warnings
		add("false_alarm_rate", "hit_rate", "")
	case score.EconomicValue.ID:
		p.what, p.x, p.y, p.line = "economic value", "cost over loss", "value", true
		add("cost_loss", "value", "")
	case score.SpreadSkillBins.ID:
		p.what, p.x, p.y, p.diagonal, p.log = "spread and skill", "spread ("+unit(d.Unit)+")", "RMSE of the mean ("+unit(d.Unit)+")", true, true
		add("spread", "rmse", "share")
		p.points = slices.DeleteFunc(p.points, func(m mark) bool { return m.size < 0.002 || !(m.y > 0) })
		low, high := math.Inf(1), math.Inf(-1)
		for _, m := range p.points {
			low, high = math.Min(low, math.Min(m.x, m.y)), math.Max(high, math.Max(m.x, m.y))
		}
		if len(p.points) == 0 {
			return nil
		}
		p.low, p.high = [2]float64{low / 1.2, low / 1.2}, [2]float64{high * 1.2, high * 1.2}
	default:
		return nil
	}
	return p
}

// svg draws the figure: ticks, reference lines, the line, bars or dots with whiskers for the intervals, then
// the second system as open squares without fill, so that both can be distinguished without colour.
// The area of a dot is proportional to its number of cases: a dot off the diagonal matters less if it is
// small. Values beyond the y axis are drawn at its end.
//
// Unit: SVG units of a 300 × 236 viewBox.
func (p *figure) svg(name string) string {
	const w, h, left, right, top, bottom = 300.0, 236.0, 46.0, 10.0, 8.0, 38.0
	// scale maps a value to 0…1 along an axis.
	scale := func(axis int, v float64) float64 {
		low, high := p.low[axis], p.high[axis]
		if p.log {
			return (math.Log(v) - math.Log(low)) / (math.Log(high) - math.Log(low))
		}
		return (v - low) / (high - low)
	}
	// x and y are SVG coordinates; y is limited to the plot.
	x := func(v float64) float64 { return left + scale(0, v)*(w-left-right) }
	y := func(v float64) float64 {
		return h - bottom - math.Min(math.Max(scale(1, v), 0), 1)*(h-top-bottom)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="plot" viewBox="0 0 %s %s" role="img" aria-label="%s">`, num(w), num(h), html.EscapeString(p.alt(name)))
	// Ticks and grid lines. A narrow logarithmic range has too few round powers: use linear ticks.
	for axis := range 2 {
		marks, places := ticks(p.low[axis], p.high[axis], p.log)
		if p.log && len(marks) < 3 {
			marks, places = ticks(p.low[axis], p.high[axis], false)
		}
		for _, t := range marks {
			if axis == 0 {
				fmt.Fprintf(&b, `<path class="frame" d="M%s %sv4"/><text class="tick" x="%s" y="%s" text-anchor="middle">%s</text>`, num(x(t)), num(h-bottom), num(x(t)), num(h-bottom+15), decimals(t, places))
			} else {
				fmt.Fprintf(&b, `<path class="grid" d="M%s %sH%s"/><text class="tick" x="%s" y="%s" text-anchor="end">%s</text>`, num(left), num(y(t)), num(w-right), num(left-5), num(y(t)+4), decimals(t, places))
			}
		}
	}
	fmt.Fprintf(&b, `<path class="frame" d="M%s %sH%s"/>`, num(left), num(h-bottom), num(w-right))
	// Reference lines: y = x of a calibrated forecast, and a constant level.
	if p.diagonal {
		fmt.Fprintf(&b, `<path class="ideal" d="M%s %sL%s %s"/>`, num(x(p.low[0])), num(y(p.low[0])), num(x(p.high[0])), num(y(p.high[0])))
	}
	if !math.IsNaN(p.level) {
		fmt.Fprintf(&b, `<path class="level" d="M%s %sH%s"/>`, num(left), num(y(p.level)), num(w-right))
	}
	if p.line {
		path := "M"
		for i, m := range p.points {
			if i > 0 {
				path += "L"
			}
			path += num(x(m.x)) + " " + num(y(m.y))
		}
		fmt.Fprintf(&b, `<path class="line line0" d="%s"/>`, path)
	}
	// Points or bars, with whiskers for the intervals. most is the largest number of cases.
	var most float64
	for _, m := range p.points {
		most = math.Max(most, m.size)
	}
	each := (w - left - right) / float64(max(1, len(p.points)))
	for _, m := range p.points {
		if p.bars {
			fmt.Fprintf(&b, `<rect class="share" x="%s" y="%s" width="%s" height="%s"/>`, num(x(m.x)-each*0.4), num(y(m.y)), num(each*0.8), num(y(0)-y(m.y)))
		}
		if !math.IsNaN(m.low) {
			fmt.Fprintf(&b, `<path class="whisker" d="M%s %sV%s"/>`, num(x(m.x)), num(y(m.low)), num(y(m.high)))
		}
		if !p.bars {
			r := 3.4
			if p.line {
				r = 1.8
			} else if most > 0 {
				r = 1.8 + 3.6*math.Sqrt(m.size/most) // the area is proportional to the number of cases
			}
			fmt.Fprintf(&b, `<circle class="dot" cx="%s" cy="%s" r="%s"/>`, num(x(m.x)), num(y(m.y)), num(r))
		}
	}
	for _, m := range p.second {
		if !math.IsNaN(m.low) {
			fmt.Fprintf(&b, `<path class="whisker second" d="M%s %sV%s"/>`, num(x(m.x)), num(y(m.low)), num(y(m.high)))
		}
		fmt.Fprintf(&b, `<rect class="second" x="%s" y="%s" width="5.6" height="5.6"/>`, num(x(m.x)-2.8), num(y(m.y)-2.8))
	}
	if p.secondName != "" {
		const end, low = w - right - 6, h - bottom - 10 // in the lower right corner, where spread exceeds the error
		fmt.Fprintf(&b, `<circle class="dot" cx="%s" cy="%s" r="3.4"/><text class="tick" x="%s" y="%s" text-anchor="end">%s</text><rect class="second" x="%s" y="%s" width="5.6" height="5.6"/><text class="tick" x="%s" y="%s" text-anchor="end">%s</text>`,
			num(end), num(low-16), num(end-8), num(low-12), html.EscapeString(p.name), num(end-2.8), num(low-2.8), num(end-8), num(low+4), html.EscapeString(p.secondName))
	}
	fmt.Fprintf(&b, `<text class="tick" x="%s" y="%s" text-anchor="middle">%s</text>`, num((left+w-right)/2), num(h-5), html.EscapeString(p.x))
	fmt.Fprintf(&b, `<text class="tick" transform="translate(11 %s) rotate(-90)" text-anchor="middle">%s</text></svg>`, num((top+h-bottom)/2), html.EscapeString(p.y))
	return b.String()
}

// alt describes the figure as text, for screen readers: axes, then each point with its
// interval.
func (p *figure) alt(name string) string {
	s := fmt.Sprintf("%s. %s by %s:", name, capitalise(p.y), p.x)
	for _, m := range p.points {
		s += fmt.Sprintf(" %s at %s", short(m.y), short(m.x))
		if !math.IsNaN(m.low) {
			s += fmt.Sprintf(" (%s to %s)", short(m.low), short(m.high))
		}
		s += ";"
	}
	if p.second != nil {
		s = strings.TrimSuffix(s, ";") + ". " + p.secondName + ":"
		for _, m := range p.second {
			s += fmt.Sprintf(" %s at %s;", short(m.y), short(m.x))
		}
	}
	return strings.TrimSuffix(s, ";") + "."
}

// byLead draws spread and RMSE of the mean as a function of lead, for every variable and
// level with at least two leads, for the first three systems. Spread and RMSE agree for a
// calibrated ensemble. Three systems have two lines each, as many as there are styles (lineStyles). x is the
// lead in hours, y has the unit of the variable.
//
// Source: Fortin et al. 2014, doi:10.1175/JHM-D-14-0008.1.
func byLead(r *score.Result) (out []Chart) {
	if r == nil {
		return nil
	}
	type key struct{ variable, level string }
	var keys []key
	for _, v := range r.Scores {
		if k := (key{v.Variable, v.Level}); !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	for _, k := range keys {
		var systems []string
		leads := map[float64]bool{}
		c := Chart{X: "lead (h)"}
		// line appends a score to the line of this name.
		line := func(name string, v *score.Value) {
			i := slices.IndexFunc(c.Lines, func(l Line) bool { return l.Name == name })
			if i < 0 {
				i, c.Lines = len(c.Lines), append(c.Lines, Line{Name: name})
			}
			c.Lines[i].X, c.Lines[i].Y = append(c.Lines[i].X, v.LeadH), append(c.Lines[i].Y, float64(v.Value))
		}
		for i := range r.Scores {
			v := &r.Scores[i]
			if k != (key{v.Variable, v.Level}) || !score.IsOverall(v.Region, v.Season) || v.ID != score.RMSE.ID && v.ID != score.SpreadScore.ID {
				continue
			}
			if len(systems) < 3 && !slices.Contains(systems, v.System) {
				systems = append(systems, v.System)
			}
			if !slices.Contains(systems, v.System) {
				continue
			}
			leads[v.LeadH] = true
			c.Y = unit(v.Unit)
			line(v.System+", "+map[bool]string{true: "RMSE", false: "spread"}[v.ID == score.RMSE.ID], v)
		}
		if len(leads) < 2 {
			continue
		}
		c.Title = QuantityName(k.variable, k.level) + ": spread and RMSE of the mean by lead"
		for i := range c.Lines {
			sortLine(&c.Lines[i])
		}
		out = append(out, c)
	}
	return out
}

// sortLine sorts the points of a line by x, since the leads of a result may be in any order. Intervals
// are sorted with their points.
func sortLine(l *Line) {
	at := make([]int, len(l.X))
	for i := range at {
		at[i] = i
	}
	slices.SortFunc(at, func(a, b int) int {
		switch {
		case l.X[a] < l.X[b]:
			return -1
		case l.X[a] > l.X[b]:
			return 1
		}
		return 0
	})
	for _, of := range []*[]float64{&l.X, &l.Y, &l.Low, &l.High} {
		if len(*of) != len(at) {
			continue
		}
		sorted := make([]float64, len(at))
		for i, k := range at {
			sorted[i] = (*of)[k]
		}
		*of = sorted
	}
}

// parts is the table of scores by region and season, without intervals.
type parts struct {
	Columns []string
	// Region, season, system, then a value for each column.
	Rows [][]string
}

// partsOf makes the table of scores by region and season; nil if nothing is scored by either. A
// score that a system does not have is "–".
func partsOf(values []score.Value) *parts {
	t := &parts{}
	type key struct{ region, season, system string }
	var rows []key
	cells := map[key]map[string]string{}
	for _, v := range values {
		if score.IsOverall(v.Region, v.Season) {
			continue
		}
		// k identifies the row, name the column.
		name, k := score.Label(v.ID, v.Threshold), key{v.Region, v.Season, v.System}
		if !slices.Contains(t.Columns, name) {
			t.Columns = append(t.Columns, name)
		}
		if cells[k] == nil {
			cells[k] = map[string]string{}
			rows = append(rows, k)
		}
		cells[k][name] = figures(float64(v.Value))
	}
	if len(rows) == 0 {
		return nil
	}
	for _, k := range rows {
		row := []string{strings.ReplaceAll(k.region, "_", " "), k.season, k.system}
		for _, c := range t.Columns {
			text := cells[k][c]
			if text == "" {
				text = "–"
			}
			row = append(row, text)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
