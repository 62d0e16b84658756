package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/postproc/report/coastline"
)

// picture is the content of one map in the plane of its view. mapsvg.go and png.go draw it.
type picture struct {
	panel *Panel
	m     *Map
	scale *scale
	view  *view
	// Grid points of minimum and maximum; -1: no values.
	low, high int
	// Number of missing points.
	missing int
	// Area-weighted.
	mean  float64
	lines [][]point
	// Longitudes along the lower edge.
	below []label
	// Latitudes along the left edge.
	left []label
}

// isPale reports whether most of the background is light, so that white lines would be
// invisible: difference maps, maps without values, and stations.
func (c *picture) isPale() bool {
	return c.panel.Diverging || c.panel.Probability || c.panel.Palette != nil || c.low < 0 || c.m.Grid.Kind == ensemble.Points || c.m.Spaghetti != nil
}

// label is a text at a position along an edge.
//
// Unit: at is a coordinate of the plane.
type label struct {
	at   float64
	text string
}

// newPicture computes view, extremes, mean and graticule of map j of a panel. The mean is weighted by the
// area of the grid cells, Σ wₖxₖ/Σ wₖ over the points with a value. Of equal extremes the first is marked.
//
// Missing: NaN and infinities are counted as missing. Without values low and high are −1 and the mean NaN.
func newPicture(p *Panel, j int, s *scale) *picture {
	m := &p.Maps[j]
	c := &picture{panel: p, m: m, scale: s, view: newView(m.Grid), low: -1, high: -1}
	weights := m.Grid.Weights()
	var sum, area float64
	for k, x := range m.Values {
		v := float64(x)
		if math.IsNaN(v) || math.IsInf(v, 0) {
			c.missing++
			continue
		}
		if c.low < 0 || x < m.Values[c.low] {
			c.low = k
		}
		if c.high < 0 || x > m.Values[c.high] {
			c.high = k
		}
		sum, area = sum+v*weights[k], area+weights[k]
	}
	c.mean = sum / area
	c.graticule()
	return c
}

// graticule selects meridians and parallels at round angles, and their labels. On projections
// they are curves, see curvedGraticule.
//
// Lines on the border of the visible area are not drawn, since the frame is, but labelled.
func (c *picture) graticule() {
	v, g := c.view, c.m.Grid
	if g.Kind == ensemble.Projected {
		c.curvedGraticule()
		return
	}
	for _, x := range roundAngles(v.x0, v.x1) {
		if x > v.x0 && x < v.x1 {
			c.lines = append(c.lines, []point{{x, v.y0}, {x, v.y1}})
		}
		c.below = append(c.below, label{x, longitude(x)})
	}
	for _, y := range roundAngles(v.y0, v.y1) {
		if y > v.y0 && y < v.y1 {
			c.lines = append(c.lines, []point{{v.x0, y}, {v.x1, y}})
		}
		c.left = append(c.left, label{y, latitude(y)})
	}
}

// roundAngles returns three to seven round angles between low and high: the multiples of the
// largest of 60, 30, 15, 10, 5, 2, 1, 0.5, 0.2 and 0.1 degrees with at least three intervals.
func roundAngles(low, high float64) (out []float64) {
	step := 0.1
	for _, s := range []float64{60, 30, 15, 10, 5, 2, 1, 0.5, 0.2} {
		if (high-low)/s >= 3 {
			step = s
			break
		}
	}
	for k := math.Ceil(low/step - 1e-9); k*step <= high+1e-9; k++ {
		out = append(out, k*step)
	}
	return out
}

// curvedGraticule draws meridians and parallels on a projection, and labels them where they
// cross the lower and the left edge.
//
// Meridians and parallels are sampled as lines of points on the globe and mapped by inverse.
// The crossings are found by linear interpolation between the grid points along the edges.
func (c *picture) curvedGraticule() {
	v, g := c.view, c.m.Grid
	if v.projected == nil {
		return
	}
	lon, _ := longitudes(g.Lon, false)
	west, eastmost := bounds(lon)
	meridians := roundAngles(west, eastmost)
	if eastmost-west > 200 { // around a pole: the lower edge crosses only some meridians
		meridians = nil
		for l := -180.0; l < 180; l += 30 {
			meridians = append(meridians, l)
		}
	}
	// fine is the step of the sampled lines in degrees.
	south, north := bounds(g.Lat)
	fine := math.Max(0.1, (north-south)/200)
	for _, l := range meridians {
		c.lines = append(c.lines, v.project(sampleLine(south, north, fine, func(t float64) (float64, float64) { return l, t }))...)
	}
	for _, b := range roundAngles(south, north) {
		if math.Abs(b) < 89.9 {
			c.lines = append(c.lines, v.project(sampleLine(west, eastmost, fine, func(t float64) (float64, float64) { return t, b }))...)
		}
	}
	// bottom and leftmost are the offsets of the lowest row and the first column in the fields.
	bottom, leftmost := v.rows[0].index*g.NX, v.cols[0].index
	for _, l := range meridians {
		for i := 1; i < g.NX; i++ {
			a, b := v.cols[i-1], v.cols[i]
			// p and q are the distances of two neighbours from the meridian: a change of sign is a
			// crossing, unless it is that at the date line.
			p, q := east(g.Lon[bottom+a.index]-l), east(g.Lon[bottom+b.index]-l)
			if p*q <= 0 && math.Abs(p-q) < 90 && p != q {
				c.below = append(c.below, label{a.at + (b.at-a.at)*p/(p-q), longitude(l)})
				break
			}
		}
	}
	for _, l := range roundAngles(south, north) {
		for j := 1; j < g.NY; j++ {
			a, b := v.rows[j-1], v.rows[j]
			p, q := g.Lat[a.index*g.NX+leftmost]-l, g.Lat[b.index*g.NX+leftmost]-l
			if p*q <= 0 && p != q {
				c.left = append(c.left, label{a.at + (b.at-a.at)*p/(p-q), latitude(l)})
				break
			}
		}
	}
}

// bounds returns the least and the largest number.
func bounds(x []float64) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, v := range x {
		low, high = math.Min(low, v), math.Max(high, v)
	}
	return low, high
}

// sampleLine samples a line of at(t) for t between from and to, in steps of about fine. Projected
// meridians and parallels are curves, so two points are not enough.
func sampleLine(from, to, fine float64, at func(float64) (lon, lat float64)) []coastline.Point {
	n := max(2, int((to-from)/fine))
	out := make([]coastline.Point, n+1)
	for k := range out {
		lon, lat := at(from + (to-from)*float64(k)/float64(n))
		out[k] = coastline.Point{Lon: lon, Lat: lat}
	}
	return out
}

// project maps a line on the globe to the plane, as the sections inside the area. A point that
// is outside or not on the grid ends a section; sections of one point are dropped.
func (v *view) project(line []coastline.Point) [][]point {
	var out [][]point
	var piece []point
	// flush ends the present section.
	flush := func() {
		if len(piece) > 1 {
			out = append(out, piece)
		}
		piece = nil
	}
	for _, p := range line {
		q, ok := v.projected.find(p.Lon, p.Lat)
		if !ok || !v.inside(q) {
			flush()
			continue
		}
		piece = append(piece, q)
	}
	flush()
	return out
}

// coast returns the coastlines within the area, in the plane. Lines on longitude and latitude
// are repeated every 360° as the area requires, and kept whole if any point is visible; the
// drawing clips them.
func (c *picture) coast() (out [][]point) {
	v := c.view
	if c.m.Grid.Kind == ensemble.Projected {
		if v.projected != nil {
			for _, l := range coastline.Lines() {
				out = append(out, v.project(l)...)
			}
		}
		return out
	}
	for _, l := range coastline.Lines() {
		for _, shift := range v.turns() {
			var line []point
			seen := false
			for _, p := range l {
				q := point{p.Lon + shift, p.Lat}
				seen = seen || v.inside(q)
				line = append(line, q)
			}
			if seen {
				out = append(out, line)
			}
		}
	}
	return out
}

// outline returns the outline of the map in the plane. On longitude and latitude it is repeated at
// -360°, 0 and 360°; the drawing clips it to the visible area.
func (c *picture) outline() (out [][]point) {
	v := c.view
	if c.m.Grid.Kind == ensemble.Projected {
		var line []coastline.Point
		for _, p := range c.m.Outline {
			line = append(line, coastline.Point(p))
		}
		if v.projected != nil {
			out = v.project(line)
		}
		return out
	}
	for _, shift := range []float64{-360, 0, 360} {
		var line []point
		for _, p := range c.m.Outline {
			line = append(line, point{p.Lon + shift, p.Lat})
		}
		out = append(out, line)
	}
	return out
}

// turns returns the multiples of 360° by which coastlines in -180 to 180 are repeated to fill
// the area. A region across the date line shows two copies.
func (v *view) turns() (out []float64) {
	for _, t := range []float64{-360, 0, 360} {
		if v.x0 < 180+t && v.x1 > -180+t {
			out = append(out, t)
		}
	}
	return out
}

// longitude formats an angle: 30° W, 0°, 180°.
func longitude(x float64) string {
	x = east(x)
	if a := math.Abs(x); a > 1e-6 && a < 180-1e-6 {
		return angle(a) + "°\u202f" + map[bool]string{true: "E", false: "W"}[x > 0]
	}
	return angle(math.Abs(x)) + "°"
}

// latitude formats an angle: 30° N, 0°, 30° S.
func latitude(y float64) string {
	if a := math.Abs(y); a > 1e-6 {
		return angle(a) + "°\u202f" + map[bool]string{true: "N", false: "S"}[y > 0]
	}
	return "0°"
}

// angle formats degrees with at most one decimal.
func angle(a float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", a), ".0") }

// where describes the location of a grid point by latitude and longitude, or by row and column
// if the grid has none.
func (c *picture) where(k int) string {
	g := c.m.Grid
	j, i := k/g.NX, k%g.NX
	if g.Kind == ensemble.Points {
		j, i = 0, k
	}
	if g.Kind == ensemble.Projected && len(g.Lat) != g.Size() {
		return fmt.Sprintf("row %d, column %d", j+1, i+1)
	}
	return latitude(g.LatAt(j, i)) + " " + longitude(g.LonAt(j, i))
}

// alt describes the map as text, for screen readers: title, valid time, extremes with their
// locations, mean, and the number of missing points.
func (c *picture) alt() string {
	what := fmt.Sprintf("Map. %s, %s, valid %s.", c.panel.Title, c.m.Title, c.panel.when())
	if c.low < 0 {
		return what + " All values are missing."
	}
	text := func(v float64) string { return strings.TrimSpace(c.scale.text(v) + " " + unit(c.panel.Unit)) }
	s := fmt.Sprintf("%s Minimum %s at %s, maximum %s at %s, area mean %s.", what,
		text(float64(c.m.Values[c.low])), c.where(c.low), text(float64(c.m.Values[c.high])), c.where(c.high), text(c.mean))
	if c.missing > 0 {
		s += fmt.Sprintf(" %d of %d points missing.", c.missing, len(c.m.Values))
	}
	return s
}

// when is the valid time in UTC.
func (p *Panel) when() string {
	if p.Valid.IsZero() {
		return "unknown"
	}
	return p.Valid.UTC().Format("2006-01-02 15:04 UTC")
}

// unit formats a UDUNITS unit with superscripts; "" for "1":
//
//	m s-1 → m s⁻¹
//
// A factor without exponent, or one that begins with a digit, stays as it is.
func unit(u string) string {
	if u == "1" {
		return ""
	}
	if u == "degC" {
		return "°C"
	}
	fields := strings.Fields(u)
	for i, f := range fields {
		at := strings.IndexAny(f, "-0123456789")
		if at > 0 {
			fields[i] = f[:at] + strings.NewReplacer("-", "⁻", "0", "⁰", "1", "¹", "2", "²", "3", "³", "4", "⁴", "5", "⁵", "6", "⁶").Replace(f[at:])
		}
	}
	return strings.Join(fields, " ")
}
