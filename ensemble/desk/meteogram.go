package desk

import (
	"context"
	"fmt"
	"html"
	"html/template"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/regrid"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/postproc/report"
)

// meteogram is all leads of a target at one place.
type meteogram struct {
	Title, Unit string
	// Wide and Narrow are the same picture for wide and narrow screens.
	Wide, Narrow template.HTML
	Legend       []legendEntry
	Table        report.Table // a row for each lead
}

// legendEntry explains a sign of a meteogram.
type legendEntry struct {
	Sign template.HTML
	Text string
}

// step is one lead of a meteogram.
//
// Unit: of the display; probabilities in %.
type step struct {
	lead   ensemble.Lead
	valid  ensemble.Valid
	values map[statistic]float64
}

// value is a statistic of the step; NaN without.
func (s *step) value(of statistic) float64 {
	if v, ok := s.values[of]; ok {
		return v
	}
	return math.NaN()
}

// meteogramOf returns the meteogram of a selection at its place, from the cache or drawn.
//
// Errors: *badPlaceError for a place outside of the grid; those of reading.
func (d *Desk) meteogramOf(ctx context.Context, s *selection) (*meteogram, error) {
	key := fmt.Sprintf("meteogram %s %s %s %g %g", s.products.Name, s.products.version(), s.target.id, s.at.Lat, s.at.Lon)
	v, err := d.renderer.get(ctx, key, func(ctx context.Context) (any, int, error) {
		raw, err := d.source.Members(s.products.Name)
		if err != nil {
			return nil, 0, err
		}
		steps, all, err := s.steps(ctx, raw)
		if err != nil {
			return nil, 0, err
		}
		m := s.meteogram(steps, all)
		return m, len(m.Wide) + len(m.Narrow) + 200*len(m.Table.Rows)*len(m.Table.Columns), nil
	})
	if err != nil {
		return nil, err
	}
	return v.(*meteogram), nil
}

// steps reads the target at the place of the selection, for all leads, and lists the statistics that occur.
func (s *selection) steps(ctx context.Context, raw *scoring.MapExample) (steps []step, all []statistic, err error) {
	fields, err := s.read(ctx, func(k fieldKey) bool { return k.target == s.target.id }, s.around)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range rawFields(raw, s.catalogue, s.target) {
		if !slices.ContainsFunc(fields, func(o field) bool { return o.statistic == f.statistic && o.lead == f.lead }) {
			fields = append(fields, f)
		}
	}
	d := s.target.display()
	at := &ensemble.Grid{Kind: ensemble.Points, NX: 1, NY: 1, Lat: []float64{s.at.Lat}, Lon: []float64{s.at.Lon}}
	weights := map[*ensemble.Grid]*regrid.Weights{}
	covered := false
	for _, f := range fields {
		w := weights[f.grid]
		if w == nil {
			if w, err = regrid.New(f.grid, at, regrid.Options{}); err != nil {
				return nil, nil, err
			}
			weights[f.grid] = w
		}
		covered = covered || w.Covered() > 0
		var value [1]float32
		regrid.Apply(w, value[:], f.values)
		v := float64(value[0])
		switch {
		case f.statistic.kind == probability:
			v *= 100
		case f.statistic.isChange():
			v *= d.Factor
		default:
			v = v*d.Factor + d.Offset
		}
		i := slices.IndexFunc(steps, func(x step) bool { return x.lead == f.lead })
		if i < 0 {
			i, steps = len(steps), append(steps, step{f.lead, s.init.Valid(f.lead), map[statistic]float64{}})
		}
		if steps[i].values[f.statistic] = v; !slices.Contains(all, f.statistic) {
			all = append(all, f.statistic)
		}
	}
	if !covered {
		return nil, nil, &badPlaceError{fmt.Sprintf("The products do not cover %s %s.", report.LatitudeText(s.at.Lat), report.LongitudeText(s.at.Lon))}
	}
	slices.SortFunc(steps, func(a, b step) int { return int(a.lead - b.lead) })
	slices.SortFunc(all, statistic.compare)
	return steps, all, nil
}

// around is the window of a grid that interpolation to the place of the selection needs: whole rows, so that it
// may cross the first meridian. Of projected grids it is all.
func (s *selection) around(g *ensemble.Grid) ensemble.Window {
	if g.Kind != ensemble.RegularLatLon && g.Kind != ensemble.RegularGaussian || g.NY < 5 {
		return ensemble.Window{}
	}
	j := sort.Search(g.NY, func(j int) bool { return g.Lat[j] <= s.at.Lat }) // the first row south of it
	first := min(max(j-2, 0), g.NY-4)
	return ensemble.Window{Rows: [2]int{first, first + 4}, Cols: [2]int{0, g.NX}}
}

// boxes are the intervals of the boxes of a meteogram, the widest first: pairs of quantiles q and 1−q, or, without any, a
// spread on both sides of a mean.
type boxes struct {
	pairs          [][2]statistic
	centre, spread statistic // of the last resort; kind "": none
	raw, rawSpread bool
	line           statistic // that connects the leads; kind "": none
}

// boxesOf selects the boxes from the statistics that occur.
func boxesOf(all []statistic) (b boxes) {
	has := func(k statisticKind) bool { return slices.Contains(all, statistic{kind: k}) }
	for _, q := range all {
		for _, o := range all {
			if q.kind == quantile && o.kind == quantile && q.quantile < o.quantile && math.Abs(q.quantile+o.quantile-1) < 1e-9 {
				b.pairs = append(b.pairs, [2]statistic{q, o})
			}
		}
	}
	b.raw, b.rawSpread = has(rawMean), has(rawMean) && has(rawSpread)
	switch median := (statistic{kind: quantile, quantile: 0.5}); {
	case slices.Contains(all, median):
		b.line = median
	case has(mean):
		b.line = statistic{kind: mean}
	case has(rawMean):
		b.line = statistic{kind: rawMean}
	case has(spread):
		b.line = statistic{kind: spread}
	case has(ensembleSpread):
		b.line = statistic{kind: ensembleSpread}
	}
	if b.pairs == nil && b.line.kind != "" && !b.line.isChange() {
		for _, k := range []statisticKind{spread, ensembleSpread} {
			if has(k) {
				b.centre, b.spread = b.line, statistic{kind: k}
				break
			}
		}
	}
	return b
}

// intervals returns the ends of the boxes at a step, the widest first.
func (b *boxes) intervals(x *step) (out [][2]float64) {
	for _, p := range b.pairs {
		out = append(out, [2]float64{x.value(p[0]), x.value(p[1])})
	}
	if b.spread.kind != "" {
		m, s := x.value(b.centre), x.value(b.spread)
		out = append(out, [2]float64{m - s, m + s})
	}
	return out
}

// meteogram draws the steps and lists their numbers.
func (s *selection) meteogram(steps []step, all []statistic) *meteogram {
	d := s.target.display()
	m := &meteogram{Title: fmt.Sprintf("%s at %s %s", s.target.name(), report.LatitudeText(s.at.Lat), report.LongitudeText(s.at.Lon)), Unit: unitText(d.Unit)}
	b := boxesOf(all)
	alt := m.Title + ", initialisation " + minute(s.init.Time) + ". The table below has its numbers."
	m.Wide, m.Narrow = drawMeteogram(steps, &b, m.Unit, alt, 860), drawMeteogram(steps, &b, m.Unit, alt, 380)
	m.Legend = b.legend(d)
	m.Table = report.Table{Title: "Numbers of the meteogram", Columns: []string{"valid (UTC)", "lead"}}
	for _, x := range all {
		u := unitText(d.Unit)
		switch {
		case x.kind == probability:
			u = "%"
		case x.isChange():
			u = unitText(d.Change)
		}
		m.Table.Columns = append(m.Table.Columns, strings.TrimSuffix(fmt.Sprintf("%s (%s)", x.text(d), u), " ()"))
	}
	low, high := b.bounds(steps)
	digits := min(max(int(math.Ceil(1.5-math.Log10(high-low))), 1), 9) // less than a thirtieth of the range
	for i := range steps {
		row := []string{minute(steps[i].valid.Time), steps[i].lead.String()}
		for _, x := range all {
			n := digits
			if x.kind == probability {
				n = 1
			}
			row = append(row, report.Decimals(steps[i].value(x), n))
		}
		m.Table.Rows = append(m.Table.Rows, row)
	}
	return m
}

// legend explains the signs of a meteogram.
func (b *boxes) legend(d report.Display) (out []legendEntry) {
	add := func(sign, text string) {
		out = append(out, legendEntry{template.HTML(`<svg viewBox="0 0 24 12" aria-hidden="true">` + sign + `</svg>`), text})
	}
	for i, p := range b.pairs {
		add(fmt.Sprintf(`<rect class="box box%d" x="4" y="1" width="16" height="10"/>`, b.shade(i)), fmt.Sprintf("%s to %s %% of the calibrated distribution", plain(100*p[0].quantile), plain(100*p[1].quantile)))
	}
	if b.spread.kind != "" {
		add(`<rect class="box box1" x="4" y="1" width="16" height="10"/>`, fmt.Sprintf("%s ± %s", b.centre.text(d), b.spread.text(d)))
	}
	if b.line.kind != "" && b.line.kind != rawMean {
		add(`<path class="middle" d="M1 6h22"/>`, map[bool]string{true: "median", false: b.line.text(d)}[b.line.kind == quantile])
	}
	if b.rawSpread {
		add(rawSign(12, 6, 0, 12), "mean of the members ± their spread")
	} else if b.raw {
		add(rawSign(12, 6, 6, 6), "mean of the members")
	}
	return out
}

// shade is the style of box i: the innermost has the strongest colour.
func (b *boxes) shade(i int) int { return min(2, len(b.pairs)-1-i) }

// rawSign is the sign of the members' mean with a line from low to high.
func rawSign(x, y, low, high float64) string {
	return fmt.Sprintf(`<path class="raw" d="M%s %sV%s"/><path class="raw diamond" d="M%s %sl4 4l-4 4l-4 -4z"/>`, num(x), num(low), num(high), num(x), num(y-4))
}

// Margins of a meteogram in SVG units.
const (
	plotLeft, plotRight, plotTop, plotBottom = 46.0, 12.0, 30.0, 40.0
	plotHeight                               = 300.0
)

// drawMeteogram draws the steps as boxes over the valid time, with a line through the median or mean, and the members' mean
// beside them.
//
// Unit: width in SVG units, which are CSS pixels at the intended size.
func drawMeteogram(steps []step, b *boxes, unit, alt string, width float64) template.HTML {
	low, high := b.bounds(steps)
	hours := func(i int) float64 { return steps[i].lead.Hours() }
	last := len(steps) - 1
	x := func(i int) float64 {
		if last == 0 {
			return (plotLeft + width - plotRight) / 2
		}
		return plotLeft + 28 + (hours(i)-hours(0))/(hours(last)-hours(0))*(width-plotLeft-plotRight-56)
	}
	y := func(v float64) float64 { return plotTop + (high-v)/(high-low)*(plotHeight-plotTop-plotBottom) }
	half := 16.0 // half the width of the widest box
	for i := 1; i <= last; i++ {
		half = math.Min(half, (x(i)-x(i-1))/3)
	}
	var s strings.Builder
	fmt.Fprintf(&s, `<svg class="meteogram" viewBox="0 0 %s %s" role="img" aria-label="%s">`, num(width), num(plotHeight), html.EscapeString(alt))
	at, texts := report.Ticks(low, high)
	for k, t := range at {
		class := "grid"
		if t == 0 {
			class = "zero"
		}
		fmt.Fprintf(&s, `<path class="%s" d="M%s %sH%s"/><text class="tick" x="%s" y="%s" text-anchor="end">%s</text>`, class, num(plotLeft), num(y(t)), num(width-plotRight), num(plotLeft-6), num(y(t)+4), texts[k])
	}
	fmt.Fprintf(&s, `<text class="tick unit" x="%s" y="12" text-anchor="end">%s</text>`, num(plotLeft-6), html.EscapeString(unit))
	free := math.Inf(-1) // end of the last label
	for i := range steps {
		fmt.Fprintf(&s, `<path class="frame" d="M%s %sv4"/>`, num(x(i)), num(plotHeight-plotBottom))
		if x(i)-26 < free {
			continue
		}
		free = x(i) + 30
		t := steps[i].valid.UTC()
		fmt.Fprintf(&s, `<text class="tick" x="%s" y="%s" text-anchor="middle">%s</text><text class="tick" x="%s" y="%s" text-anchor="middle">%s</text>`,
			num(x(i)), num(plotHeight-plotBottom+17), t.Format("15:04"), num(x(i)), num(plotHeight-plotBottom+32), t.Format("2 Jan"))
	}
	fmt.Fprintf(&s, `<path class="frame" d="M%s %sH%s"/>`, num(plotLeft), num(plotHeight-plotBottom), num(width-plotRight))
	var line strings.Builder
	for i := range steps {
		all := b.intervals(&steps[i])
		for k, ends := range all {
			if w := half * float64(k+1) / float64(len(all)); !math.IsNaN(ends[0] + ends[1]) {
				shade := 1
				if b.pairs != nil {
					shade = b.shade(k)
				}
				fmt.Fprintf(&s, `<rect class="box box%d" x="%s" y="%s" width="%s" height="%s"/>`, shade, num(x(i)-w), num(y(ends[1])), num(2*w), num(math.Max(0.5, y(ends[0])-y(ends[1]))))
			}
		}
		if v := steps[i].value(b.line); !math.IsNaN(v) && b.line.kind != "" && b.line.kind != rawMean {
			fmt.Fprintf(&line, "%s%s %sH%s", map[bool]string{true: "M", false: "L"}[line.Len() == 0], num(x(i)-half), num(y(v)), num(x(i)+half))
		}
	}
	fmt.Fprintf(&s, `<path class="middle" d="%s"/>`, line.String())
	for i := range steps {
		if v := steps[i].value(statistic{kind: rawMean}); !math.IsNaN(v) {
			d := steps[i].value(statistic{kind: rawSpread})
			if math.IsNaN(d) {
				d = 0
			}
			s.WriteString(rawSign(x(i)+half+7, y(v), y(v+d), y(v-d)))
		}
	}
	s.WriteString(`</svg>`)
	return template.HTML(s.String()) // text in it is escaped
}

// bounds is the range of the y axis: all that is drawn, with a margin.
func (b *boxes) bounds(steps []step) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	add := func(v float64) {
		if !math.IsNaN(v) {
			low, high = math.Min(low, v), math.Max(high, v)
		}
	}
	for i := range steps {
		for _, ends := range b.intervals(&steps[i]) {
			add(ends[0])
			add(ends[1])
		}
		add(steps[i].value(b.line))
		m, d := steps[i].value(statistic{kind: rawMean}), steps[i].value(statistic{kind: rawSpread})
		add(m)
		add(m - d)
		add(m + d)
	}
	if low > high {
		return 0, 1
	}
	rim := math.Max((high-low)*0.08, 1e-6*math.Max(1, math.Abs(high)))
	return low - rim, high + rim
}

// num formats a coordinate with one decimal.
func num(v float64) string {
	return strings.TrimSuffix(strings.Replace(fmt.Sprintf("%.1f", v), "-0.0", "0", 1), ".0")
}
