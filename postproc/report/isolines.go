package report

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// lattice is a field sampled at equal steps over the visible area, for isolines. Row 0 is the
// northernmost. Isolines of the grid itself would have corners at its lines; those of the
// interpolated field agree with the bands of the raster below them.
type lattice struct {
	// Nodes along x and y.
	nx, ny int
	// [ny*nx], NaN where the nearest grid point is missing.
	values []float64
}

// latticeStep is the distance of lattice nodes. The time of sampling increases with the square of its
// inverse, the bytes of the lines with its inverse.
//
// Unit: SVG units.
const latticeStep = 3.5

// sample interpolates values at the nodes of a lattice over a map of this width, in the same way as
// raster.
func (v *view) sample(values []float32, mw float64) *lattice {
	l := &lattice{nx: max(2, int(mw/latticeStep)), ny: max(2, int(mw*v.aspect/latticeStep))}
	xs := interpolationPoints(v.cols, l.nx, func(i int) float64 { return v.x0 + float64(i)/float64(l.nx-1)*(v.x1-v.x0) })
	ys := interpolationPoints(v.rows, l.ny, func(j int) float64 { return v.y1 - float64(j)/float64(l.ny-1)*(v.y1-v.y0) })
	l.values = make([]float64, l.nx*l.ny)
	for j := range ys {
		for i := range xs {
			l.values[j*l.nx+i] = v.value(values, &xs[i], &ys[j])
		}
	}
	return l
}

// isolines returns the lines on which the field has a value, by marching squares: a crossing on
// each edge between two nodes on different sides of the value, interpolated linearly, and
// crossings of one cell connected. In a saddle the mean of the four nodes decides. Closed lines end at their
// first point.
//
// Of the sixteen cases of a cell two are saddles, where opposite nodes are on the same side; the mean is
// the value of the bilinear interpolation in the middle of the cell. A node that has exactly the value
// counts as above it, so every edge has none or one crossing, and lines neither branch nor cross.
//
// Unit: of points: node indices along x and y. Missing: cells with a missing node have no line.
// Cost: one pass over the nodes for each value.
// Source: Maple 2003, doi:10.1109/GMAG.2003.1219671 (marching squares).
func (l *lattice) isolines(level float64) (out [][]point) {
	// next has the neighbours of each crossed edge: edge 2k runs from node k to the right, 2k+1 down.
	next := map[int][]int{}
	connect := func(a, b int) { next[a], next[b] = append(next[a], b), append(next[b], a) }
	for j := range l.ny - 1 {
		for i := range l.nx - 1 {
			k := j*l.nx + i
			a, b, c, d := l.values[k], l.values[k+1], l.values[k+l.nx+1], l.values[k+l.nx] // clockwise from the upper left
			if math.IsNaN(a + b + c + d) {
				continue
			}
			edges := [4]int{2 * k, 2*(k+1) + 1, 2 * (k + l.nx), 2*k + 1}
			above := [4]bool{a >= level, b >= level, c >= level, d >= level}
			var crossed []int
			for e := range 4 {
				if above[e] != above[(e+1)%4] {
					crossed = append(crossed, edges[e])
				}
			}
			switch {
			case len(crossed) == 2:
				connect(crossed[0], crossed[1])
			case len(crossed) == 4 && ((a+b+c+d)/4 >= level) == above[0]: // the saddle joins the upper left and the lower right
				connect(crossed[0], crossed[1])
				connect(crossed[2], crossed[3])
			case len(crossed) == 4:
				connect(crossed[3], crossed[0])
				connect(crossed[1], crossed[2])
			}
		}
	}
	edges := make([]int, 0, len(next))
	for e := range next {
		edges = append(edges, e)
	}
	slices.Sort(edges)
	done := map[int]bool{}
	for _, ends := range []bool{true, false} { // open lines begin at an end, closed ones anywhere
		for _, e := range edges {
			if done[e] || ends && len(next[e]) != 1 {
				continue
			}
			line := []point{l.crossing(e, level)}
			done[e] = true
			at := e
			for moved := true; moved; {
				moved = false
				for _, n := range next[at] {
					if !done[n] {
						line, at, moved = append(line, l.crossing(n, level)), n, true
						done[n] = true
						break
					}
				}
			}
			if !ends && slices.Contains(next[at], e) {
				line = append(line, line[0])
			}
			out = append(out, line)
		}
	}
	return out
}

// crossing is the point of an edge at which the field has the value, by linear interpolation between its
// nodes a and b:
//
//	f = (level − a) / (b − a)
//
// The nodes are on different sides of the value, so b differs from a.
func (l *lattice) crossing(edge int, level float64) point {
	k := edge / 2
	p := point{float64(k % l.nx), float64(k / l.nx)}
	step := 1
	if edge%2 == 1 {
		step = l.nx
	}
	f := (level - l.values[k]) / (l.values[k+step] - l.values[k])
	if edge%2 == 1 {
		p.y += f
	} else {
		p.x += f
	}
	return p
}

// levels returns the multiples of an interval within the range of a field, ascending; nil without an
// interval, without values, and for more than maxIsolines. Multiples, and not fractions of the range,
// make the lines of all maps comparable, as on the charts of weather services.
func levels(values []float32, interval float64) (out []float64) {
	low, high := math.Inf(1), math.Inf(-1)
	for _, x := range values {
		if v := float64(x); !math.IsNaN(v) && !math.IsInf(v, 0) {
			low, high = math.Min(low, v), math.Max(high, v)
		}
	}
	if !(interval > 0) || (high-low)/interval > maxIsolines {
		return nil
	}
	for k := math.Ceil(low / interval); k*interval <= high; k++ {
		out = append(out, k*interval)
	}
	return out
}

// maxIsolines limits the isolines of a map. Beyond it the lines merge, and an interval in a wrong unit
// would make a page of any size.
const maxIsolines = 60

// IsolineInterval returns the smallest of some intervals, ascending, with at most 14 isolines in
// the range of the fields; the largest if all give more. More lines leave no space for their labels.
//
// Unit: that of the fields. Missing: NaN and infinities are ignored; without values the result is the
// smallest.
func IsolineInterval(intervals []float64, fields ...[]float32) float64 {
	low, high := math.Inf(1), math.Inf(-1)
	for _, f := range fields {
		for _, x := range f {
			if v := float64(x); !math.IsNaN(v) && !math.IsInf(v, 0) {
				low, high = math.Min(low, v), math.Max(high, v)
			}
		}
	}
	for _, step := range intervals {
		if (high-low)/step <= 14 {
			return step
		}
	}
	return intervals[len(intervals)-1]
}

// isolinesSVG draws the isolines of a map with labels. Every fifth line is thick, 0 °C dashed too. Labels are
// upright as far as possible, away from each other, the extremes and the frame. Thin lines are one path
// and thick ones another, which takes fewer bytes than a path for each. Stamps have no labels.
//
// Unit: the width is in SVG units. Missing: a map of stations has no isolines.
func (c *picture) isolinesSVG(mw float64) string {
	v := c.view
	if v.cols == nil || v.rows == nil {
		return ""
	}
	l := v.sample(c.m.Values, mw)
	place := l.placer(v, mw)
	var thin, thick, freezing, labels strings.Builder
	var used []point // centres of what labels must not cover
	if c.low >= 0 {
		for _, k := range []int{c.low, c.high} {
			p := v.place(k)
			used = append(used, point{marginLeft + (p.x-v.x0)/(v.x1-v.x0)*mw, marginTop + (v.y1-p.y)/(v.y1-v.y0)*mw*v.aspect})
		}
	}
	inside := func(p point) bool {
		return p.x > marginLeft+14 && p.x < marginLeft+mw-14 && p.y > marginTop+9 && p.y < marginTop+mw*v.aspect-9
	}
	for _, level := range levels(c.m.Values, c.panel.Isolines) {
		d := &thin
		switch {
		case level == 0 && c.panel.Unit == degreesC:
			d = &freezing
		case math.Mod(math.Round(level/c.panel.Isolines), 5) == 0:
			d = &thick
		}
		for _, line := range l.isolines(level) {
			for i := range line {
				line[i] = place(line[i])
			}
			d.WriteString(polyline(simplified(line)))
			if at, angle, ok := labelPlace(line, used, inside); ok && !c.panel.Stamps {
				used = append(used, at)
				fmt.Fprintf(&labels, `<text transform="translate(%s %s) rotate(%s)" y="3.3" text-anchor="middle">%s</text>`, num(at.x), num(at.y), num(angle), decimals(level, places(c.panel.Isolines)))
			}
		}
	}
	extra := ""
	if freezing.Len() > 0 {
		extra = fmt.Sprintf(`<path class="freezing" d="%s"/>`, freezing.String())
	}
	return fmt.Sprintf(`<g class="iso"><path d="%s"/><path class="thick" d="%s"/>%s%s</g>`, thin.String(), thick.String(), extra, labels.String())
}

// placer converts lattice indices to SVG units.
func (l *lattice) placer(v *view, mw float64) func(point) point {
	return func(p point) point {
		return point{marginLeft + p.x/float64(l.nx-1)*mw, marginTop + p.y/float64(l.ny-1)*mw*v.aspect}
	}
}

// labelPlace selects the place of the label of an isoline: the point where the line is closest to
// horizontal, if the line is at least 70 units long, the place inside, and nothing that is used is near.
func labelPlace(line, used []point, inside func(point) bool) (at point, angle float64, ok bool) {
	length := 0.0
	for i := 1; i < len(line); i++ {
		length += math.Hypot(line[i].x-line[i-1].x, line[i].y-line[i-1].y)
	}
	if length < 70 {
		return at, 0, false
	}
	flattest := 50.0 // steeper labels are hard to read
	for i := max(3, len(line)/8); i < len(line)-max(3, len(line)/8); i++ {
		a, b := line[i-3], line[i+3]
		turn := math.Atan2(b.y-a.y, b.x-a.x) * 180 / math.Pi
		if turn > 90 {
			turn -= 180
		} else if turn < -90 {
			turn += 180
		}
		free := inside(line[i]) && !slices.ContainsFunc(used, func(u point) bool { return math.Hypot((u.x-line[i].x)/58, (u.y-line[i].y)/26) < 1 })
		if free && math.Abs(turn) < flattest {
			at, angle, flattest, ok = line[i], turn, math.Abs(turn), true
		}
	}
	return at, angle, ok
}

// tolerance is the largest distance of a line from its simplification, in SVG units: a fifth of a pixel
// at the usual width.
const tolerance = 0.2

// simplified leaves out points that are nearer than tolerance to the line without them: the point that
// is farthest from the chord between both ends is kept if it exceeds the tolerance, and both halves are
// simplified; else all points between the ends are left out.
//
// Cost: for n points about n log n distances, n² for lines that turn everywhere.
// Source: Douglas and Peucker 1973, doi:10.3138/FM57-6770-U75U-7727.
func simplified(line []point) []point {
	if len(line) < 3 {
		return line
	}
	a, b := line[0], line[len(line)-1]
	far, at := tolerance, 0
	length := math.Hypot(b.x-a.x, b.y-a.y)
	for i := 1; i < len(line)-1; i++ {
		d := math.Hypot(line[i].x-a.x, line[i].y-a.y) // closed lines end at their first point
		if length > 0 {
			d = math.Abs((b.x-a.x)*(a.y-line[i].y)-(a.x-line[i].x)*(b.y-a.y)) / length
		}
		if d > far {
			far, at = d, i
		}
	}
	if at == 0 {
		return []point{a, b}
	}
	return append(simplified(line[:at+1]), simplified(line[at:])[1:]...)
}

// polyline formats a line as SVG path data, relative and with one decimal, to keep the page small. Each
// point is relative to the rounded previous one, so rounding errors do not add up. Points that
// round to the previous one are left out.
//
// Source: SVG 2, section 9.3 (path data: M absolute, l relative).
func polyline(line []point) string {
	var b strings.Builder
	var px, py int
	for i, p := range line {
		x, y := int(math.Round(p.x*10)), int(math.Round(p.y*10))
		switch {
		case i == 0:
			fmt.Fprintf(&b, "M%s %sl", tenth(x), tenth(y))
		case x != px || y != py:
			fmt.Fprintf(&b, "%s %s ", tenth(x-px), tenth(y-py))
		}
		px, py = x, y
	}
	return strings.TrimSuffix(strings.TrimSpace(b.String()), "l")
}

// tenth formats a number of tenths.
func tenth(n int) string {
	s := fmt.Sprintf("%.1f", float64(n)/10)
	return strings.TrimSuffix(s, ".0")
}

// Spaghetti are isolines of one value in several fields, on one map. Where the lines of the members
// diverge the forecast is uncertain. A value is chosen instead of a field of spread because it shows the
// position of troughs and ridges in each member.
//
// Unit: Level that of the panel.
type Spaghetti struct {
	Level float64
	Lines []SpaghettiLine
}

// SpaghettiLine is one field of a Spaghetti.
//
// Shape: Values [NY*NX] on the grid of the map.
type SpaghettiLine struct {
	// Name stands in the legend; lines with the same name have one entry.
	Name string
	// Kind is the style of the line: "member", "mean" or "analysis".
	Kind   string
	Values []float32
}

// spaghettiSVG draws the lines, the analysis below the others, as a path with a title for each field, which
// browsers show when the pointer is on it. Fields that do not fill the grid are left out.
func (c *picture) spaghettiSVG(mw float64) string {
	v := c.view
	if v.cols == nil || v.rows == nil {
		return ""
	}
	var b strings.Builder
	for _, kind := range spaghettiKinds {
		for _, s := range c.m.Spaghetti.Lines {
			if s.Kind != kind || len(s.Values) != c.m.Grid.Size() {
				continue
			}
			l := v.sample(s.Values, mw)
			place := l.placer(v, mw)
			var d strings.Builder
			for _, line := range l.isolines(c.m.Spaghetti.Level) {
				for i := range line {
					line[i] = place(line[i])
				}
				d.WriteString(polyline(simplified(line)))
			}
			fmt.Fprintf(&b, `<path class="strand %s" d="%s"><title>%s</title></path>`, s.Kind, d.String(), html.EscapeString(s.Name))
		}
	}
	return b.String()
}

// spaghettiKinds are the styles of lines, in the order of drawing.
var spaghettiKinds = []string{"analysis", "member", "mean"}

// legend is the legend of the lines: a sample of each style with the first name that has it.
func (s *Spaghetti) legend() (out []Fact) {
	for _, kind := range spaghettiKinds {
		if i := slices.IndexFunc(s.Lines, func(l SpaghettiLine) bool { return l.Kind == kind }); i >= 0 {
			out = append(out, Fact{kind, s.Lines[i].Name})
		}
	}
	return out
}
