package report

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// lineStyles is the number of styles of lines in picture.css. They differ in colours and dashes, so that
// they can be distinguished without colour (WCAG 2.2, success criterion 1.4.1). The colours have a contrast
// of at least 4.5 to the background, light and dark (1.4.3); a test computes it from picture.css. Further
// lines repeat the styles, so their labels are connected to their ends.
const lineStyles = 6

// svg draws the chart with a label at the end of each line. A value (x, y) is at
//
//	left + (x−x0)/(x1−x0) · plot width,   h − bottom − (u(y)−u(y0))/(u(y1)−u(y0)) · plot height
//
// with u the identity or log₁₀. Labels that would overlap are moved apart and connected to
// their lines.
//
// Names at the ends of lines need no legend, whose colours a reader would have to match.
//
// Unit: SVG units of a 760 × 300 viewBox, of 520 × 300 if Narrow. Missing: values that cannot be drawn
// interrupt a line; a single value between two of them is a dot. A line without values has no label.
func (c *Chart) svg() string {
	const h, left, right, top, bottom = 300.0, 58.0, 176.0, 10.0, 42.0
	w := 760.0
	if c.Narrow {
		w = 520
	}
	x0, x1, y0, y1 := c.ranges()
	// up is the coordinate of y before scaling: v or its logarithm.
	up := func(v float64) float64 { return v }
	if c.LogY {
		up = math.Log10
	}
	x := func(v float64) float64 { return left + (v-x0)/(x1-x0)*(w-left-right) }
	y := func(v float64) float64 { return h - bottom - (up(v)-up(y0))/(up(y1)-up(y0))*(h-top-bottom) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="chart" viewBox="0 0 %s %s" role="img" aria-label="%s">`, num(w), num(h), html.EscapeString(c.alt()))
	// Horizontal grid lines, then the x axis with its ticks, then the axis titles.
	yTicks, yPlaces := ticks(y0, y1, c.LogY)
	for _, t := range yTicks {
		fmt.Fprintf(&b, `<path class="grid" d="M%s %sH%s"/><text class="tick" x="%s" y="%s" text-anchor="end">%s</text>`,
			num(left), num(y(t)), num(w-right), num(left-7), num(y(t)+4), decimals(t, yPlaces))
	}
	xTicks, xLabels := c.xTicks(x0, x1)
	for i, t := range xTicks {
		fmt.Fprintf(&b, `<path class="frame" d="M%s %sv4"/><text class="tick" x="%s" y="%s" text-anchor="middle">%s</text>`,
			num(x(t)), num(h-bottom), num(x(t)), num(h-bottom+17), xLabels[i])
	}
	fmt.Fprintf(&b, `<path class="frame" d="M%s %sH%s"/>`, num(left), num(h-bottom), num(w-right))
	fmt.Fprintf(&b, `<text class="tick" x="%s" y="%s" text-anchor="middle">%s</text>`, num((left+w-right)/2), num(h-6), html.EscapeString(c.X))
	fmt.Fprintf(&b, `<text class="tick" transform="translate(13 %s) rotate(-90)" text-anchor="middle">%s</text>`, num((top+h-bottom)/2), html.EscapeString(c.yTitle()))
	if c.Zero {
		fmt.Fprintf(&b, `<path class="zero" d="M%s %sH%s"/>`, num(left), num(y(0)), num(w-right))
	}
	c.intervals(&b, x, y)
	type end struct { // end of a line at y, with its label at to
		y, to float64
		line  int
	}
	var ends []end
	// The lines. pen is the SVG path command: M begins a section, L continues it.
	for k, l := range c.Lines {
		var d strings.Builder
		pen, points := "M", 0
		last := math.NaN()
		for i, v := range l.Y {
			if !c.shows(v) {
				pen = "M"
				continue
			}
			fmt.Fprintf(&d, "%s%s %s", pen, num(x(l.X[i])), num(y(v)))
			pen, last, points = "L", y(v), points+1
			if points == 1 && (i == len(l.Y)-1 || !c.shows(l.Y[i+1])) { // a single value: a dot
				fmt.Fprintf(&b, `<circle class="line%d dot" cx="%s" cy="%s" r="3"/>`, k%lineStyles, num(x(l.X[i])), num(y(v)))
			}
		}
		fmt.Fprintf(&b, `<path class="line line%d" d="%s"/>`, k%lineStyles, d.String())
		if !math.IsNaN(last) {
			ends = append(ends, end{last, last, k})
		}
	}
	slices.SortStableFunc(ends, func(a, b end) int { return cmp.Compare(a.y, b.y) })
	// Labels are at least gap apart: first moved down, then up from the lower edge.
	const gap = 15.0
	for i := 1; i < len(ends); i++ {
		ends[i].to = math.Max(ends[i].to, ends[i-1].to+gap)
	}
	for i := len(ends) - 1; i >= 0; i-- {
		limit := h - bottom
		if i < len(ends)-1 {
			limit = ends[i+1].to - gap
		}
		ends[i].to = math.Min(ends[i].to, limit)
	}
	// The labels: a connector, a sample of the line, and its name.
	for _, e := range ends {
		fmt.Fprintf(&b, `<path class="lead" d="M%s %sL%s %s"/><path class="line line%d" d="M%s %sh26"/><text class="name" x="%s" y="%s">%s</text>`,
			num(w-right+2), num(e.y), num(w-right+12), num(e.to), e.line%lineStyles, num(w-right+13), num(e.to), num(w-right+44), num(e.to+4), html.EscapeString(abbreviated(c.Lines[e.line].Name)))
	}
	b.WriteString(`</svg>`)
	return b.String()
}

// intervals draws the intervals of the values as whiskers. An interval with an end that cannot be drawn, such
// as 0 on a logarithmic axis, is left out.
func (c *Chart) intervals(b *strings.Builder, x, y func(float64) float64) {
	for k, l := range c.Lines {
		for i := range l.Low {
			if c.shows(l.Low[i]) && c.shows(l.High[i]) {
				fmt.Fprintf(b, `<path class="line%d interval" d="M%s %sV%s"/>`, k%lineStyles, num(x(l.X[i])), num(y(l.Low[i])), num(y(l.High[i])))
			}
		}
	}
}

// yTitle is the title of the y axis. It states a logarithmic scale, which ticks alone do not show over a
// short range.
func (c *Chart) yTitle() string {
	if c.LogY {
		return c.Y + " (logarithmic)"
	}
	return c.Y
}

// shows reports whether a value can be drawn: it is finite, and positive on a logarithmic axis.
// Other values interrupt the line.
func (c *Chart) shows(v float64) bool {
	return !math.IsNaN(v) && !math.IsInf(v, 0) && (v > 0 || !c.LogY)
}

// ranges returns the ranges of both axes. They contain all values that can be drawn, with a
// margin of 5 % (a factor of 1.1 on a logarithmic axis) in y. A single x gets ±0.5. Without
// values they are 0 to 1 and 1 to 2.
func (c *Chart) ranges() (x0, x1, y0, y1 float64) {
	x0, x1, y0, y1 = math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	for _, l := range c.Lines {
		for i, v := range l.Y {
			if c.shows(v) {
				x0, x1 = math.Min(x0, l.X[i]), math.Max(x1, l.X[i])
				y0, y1 = math.Min(y0, v), math.Max(y1, v)
				if i < len(l.Low) && c.shows(l.Low[i]) && c.shows(l.High[i]) {
					y0, y1 = math.Min(y0, l.Low[i]), math.Max(y1, l.High[i])
				}
			}
		}
	}
	if x0 > x1 {
		x0, x1, y0, y1 = 0, 1, 1, 2
	}
	if c.Zero {
		y0, y1 = math.Min(y0, 0), math.Max(y1, 0)
	}
	if x0 == x1 {
		x0, x1 = x0-0.5, x1+0.5
	}
	if c.LogY {
		return x0, x1, y0 / 1.1, y1 * 1.1
	}
	rim := (y1 - y0) * 0.05
	if rim == 0 {
		rim = math.Max(math.Abs(y0)*0.1, 1e-12)
	}
	return x0, x1, y0 - rim, y1 + rim
}

// ticks returns round numbers within a range, and the number of decimals to print them: about
// six multiples of a round step, or on a logarithmic axis 1, 2 and 5 times powers of ten
// (only powers of ten over three decades or more). A logarithmic axis over less than a factor of
// five has equal steps, since it may contain fewer than three of these numbers.
//
// Tolerances of 1e-9 of a step keep ticks at the ends of the range in spite of rounding.
func ticks(low, high float64, log bool) (out []float64, after int) {
	if log && high/low > 5 {
		for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
			for _, k := range []float64{1, 2, 5} {
				if t := k * math.Pow(10, e); t >= low && t <= high && (k == 1 || high/low < 1000) {
					out = append(out, t)
				}
			}
		}
		return out, int(math.Max(0, -math.Floor(math.Log10(low))))
	}
	step := roundStep((high - low) / 6)
	for k := math.Ceil(low/step - 1e-9); k*step <= high+step*1e-9; k++ {
		out = append(out, k*step)
	}
	return out, places(step)
}

// xTicks returns ticks of the x axis and their labels: round numbers, or dates.
func (c *Chart) xTicks(low, high float64) (at []float64, labels []string) {
	if c.Dates {
		return dateTicks(low, high)
	}
	at, after := ticks(low, high, false)
	for _, t := range at {
		labels = append(labels, decimals(t, after))
	}
	return at, labels
}

// dateTicks returns about six times within a range of at least two days: first days of years, of a round number of
// months, or days at equal steps.
//
// Unit: days since 1970-01-01 00 UTC.
func dateTicks(low, high float64) (at []float64, labels []string) {
	add := func(t time.Time, layout string) {
		if day := float64(t.Unix()) / 86400; day >= low && day <= high {
			at, labels = append(at, day), append(labels, t.Format(layout))
		}
	}
	begin := time.Unix(int64(low*86400), 0).UTC()
	if months := (high - low) / 30.4; months >= 4 {
		step := 60
		for _, s := range []int{1, 2, 3, 6, 12, 24} {
			if months/float64(s) <= 8 {
				step = s
				break
			}
		}
		for t := time.Date(begin.Year(), 1, 1, 0, 0, 0, 0, time.UTC); float64(t.Unix()) <= high*86400; t = t.AddDate(0, step, 0) {
			add(t, "2006-01")
		}
		return at, labels
	}
	step := max(1, int(math.Ceil((high-low)/7)))
	for t := begin.Truncate(24 * time.Hour); float64(t.Unix()) <= high*86400; t = t.AddDate(0, 0, step) {
		add(t, "01-02")
	}
	return at, labels
}

// short formats a number with at most five significant digits and a Unicode minus; "–" for NaN.
// Absolute values below 1e-12 are rounding errors and printed as 0.
func short(v float64) string {
	if math.IsNaN(v) {
		return "–"
	}
	if math.Abs(v) < 1e-12 {
		v = 0
	}
	return strings.Replace(strconv.FormatFloat(v, 'g', 5, 64), "-", "−", 1)
}

// alt describes the chart as text, for screen readers: title, axes, and for each line its first,
// last and lowest value. The lowest is the best of a loss and of a CRPS. The table below the chart has all
// values.
func (c *Chart) alt() string {
	s := fmt.Sprintf("Line chart. %s: %s over %s.", c.Title, c.yTitle(), c.X)
	for _, l := range c.Lines {
		first, last, best := -1, -1, -1
		for i, v := range l.Y {
			if c.shows(v) {
				if first < 0 {
					first = i
				}
				last = i
				if best < 0 || v < l.Y[best] {
					best = i
				}
			}
		}
		if first < 0 {
			s += fmt.Sprintf(" %s: no values.", l.Name)
			continue
		}
		s += fmt.Sprintf(" %s: from %s at %s to %s at %s, lowest %s at %s.", l.Name, short(l.Y[first]), short(l.X[first]),
			short(l.Y[last]), short(l.X[last]), short(l.Y[best]), short(l.X[best]))
	}
	return s
}

// table is the chart as rows of text: an x, then the y of each line, "–" where a line has no value.
//
// Shape: [x, ascending and without duplicates][1+line].
func (c *Chart) table() [][]string {
	var xs []float64
	for _, l := range c.Lines {
		xs = append(xs, l.X...)
	}
	slices.Sort(xs)
	xs = slices.Compact(xs)
	rows := make([][]string, len(xs))
	for k, x := range xs {
		rows[k] = append(rows[k], short(x))
		for _, l := range c.Lines {
			text := "–"
			if i := slices.Index(l.X, x); i >= 0 {
				text = short(l.Y[i])
			}
			rows[k] = append(rows[k], text)
		}
	}
	return rows
}
