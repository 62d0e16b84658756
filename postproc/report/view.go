package report

import (
	"cmp"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// point is a position in the plane of a map: degrees east and north, or metres.
type point struct{ x, y float64 }

// view projects a grid onto a plane: longitude and latitude, with Greenwich in the middle of a
// global map, or the x and y axes of a map projection.
type view struct {
	grid           *ensemble.Grid
	x0, x1, y0, y1 float64 // visible area; y increases northwards
	aspect         float64 // height/width of the map
	// cols and rows are the grid lines in ascending order, with copies across the date line
	// and the poles for interpolation.
	cols, rows []gridLine
	projected  *inverse // nil for longitude and latitude
}

// gridLine is a row or column of the grid at a coordinate.
type gridLine struct {
	at         float64
	index      int
	acrossPole bool // a copy of a row, across a pole
}

// haloLines is the number of copied lines across the date line and the poles, the support of
// cubic interpolation.
const haloLines = 2

// newView selects visible area and layout for a kind of grid.
func newView(g *ensemble.Grid) *view {
	v := &view{grid: g}
	switch g.Kind {
	case ensemble.Projected:
		v.plane()
	case ensemble.Points:
		v.places()
	default:
		v.lonLat()
	}
	return v
}

// lonLat sets up a regular or Gaussian grid.
func (v *view) lonLat() {
	g := v.grid
	lon, rising := longitudes(g.Lon, g.Periodic())
	for _, i := range rising {
		v.cols = append(v.cols, gridLine{at: lon[i], index: i})
	}
	for j, lat := range g.Lat[:g.NY] {
		v.rows = append(v.rows, gridLine{at: lat, index: j})
	}
	slices.SortFunc(v.rows, func(a, b gridLine) int { return cmp.Compare(a.at, b.at) })
	v.x0, v.x1 = edges(v.cols)
	v.y0, v.y1 = edges(v.rows)
	v.y0, v.y1 = math.Max(v.y0, -90), math.Min(v.y1, 90)
	if g.Periodic() {
		v.x0, v.x1 = -180, 180
		if g.NX%2 == 0 {
			v.rows = overPoles(v.rows)
		}
		n := len(v.cols)
		around := make([]gridLine, 0, n+2*haloLines)
		for k := -haloLines; k < n+haloLines; k++ {
			c := v.cols[(k+n)%n]
			c.at += 360 * math.Floor(float64(k)/float64(n))
			around = append(around, c)
		}
		v.cols = around
	}
	v.aspect = (v.y1 - v.y0) / (v.x1 - v.x0)
	if !g.Periodic() { // equal scales along both axes at the mean latitude of a region
		v.aspect /= math.Max(0.2, math.Cos((v.y0+v.y1)/2*math.Pi/180))
	}
	v.limitAspect()
}

// longitudes returns the coordinate of each column, and the columns from west to east. A
// global grid has -180 to 180. A region is contiguous, with its middle in -180 to 180, even
// if it crosses Greenwich or the date line.
func longitudes(lon []float64, periodic bool) (at []float64, rising []int) {
	at, rising = make([]float64, len(lon)), make([]int, len(lon))
	for i, l := range lon {
		at[i], rising[i] = east(l), i
	}
	byPlace := func(a, b int) int { return cmp.Compare(at[a], at[b]) }
	slices.SortFunc(rising, byPlace)
	if periodic || len(lon) < 2 {
		return at, rising
	}
	// The region begins east of the widest gap between columns.
	first, widest := 0, -1.0
	for k := range rising {
		before := at[rising[(k+len(rising)-1)%len(rising)]]
		gap := at[rising[k]] - before
		if k == 0 {
			gap += 360
		}
		if gap > widest+1e-9 {
			first, widest = k, gap
		}
	}
	west := at[rising[first]]
	for i := range at {
		if at[i] < west {
			at[i] += 360
		}
	}
	slices.SortFunc(rising, byPlace)
	if middle := (at[rising[0]] + at[rising[len(rising)-1]]) / 2; middle >= 180 {
		for i := range at {
			at[i] -= 360
		}
	}
	return at, rising
}

// east maps a longitude to -180 (included) to 180.
func east(lon float64) float64 {
	l := math.Mod(lon+180, 360)
	if l < 0 {
		l += 360
	}
	return l - 180
}

// edges returns the outer cell boundaries of the first and the last line.
func edges(l []gridLine) (low, high float64) {
	n := len(l)
	if n == 1 {
		return l[0].at - 0.5, l[0].at + 0.5
	}
	return l[0].at - (l[1].at-l[0].at)/2, l[n-1].at + (l[n-1].at-l[n-2].at)/2
}

// overPoles adds copies of the rows across each pole that the grid reaches: the latitude
// continues beyond ±90°, and the columns are shifted by half a circle.
func overPoles(rows []gridLine) []gridLine {
	n := len(rows)
	if n < 4 {
		return rows
	}
	step := rows[1].at - rows[0].at
	if rows[0].at-step < -90-1e-6 || rows[0].at < -89.999 {
		first := 0
		if rows[0].at < -89.999 {
			first = 1 // a row at the pole is not copied
		}
		var south []gridLine
		for k := haloLines - 1; k >= 0; k-- {
			r := rows[first+k]
			south = append(south, gridLine{-180 - r.at, r.index, true})
		}
		rows = append(south, rows...)
		n += haloLines
	}
	step = rows[n-1].at - rows[n-2].at
	if rows[n-1].at+step > 90+1e-6 || rows[n-1].at > 89.999 {
		last := n - 1
		if rows[n-1].at > 89.999 {
			last--
		}
		for k := range haloLines {
			r := rows[last-k]
			rows = append(rows, gridLine{180 - r.at, r.index, true})
		}
	}
	return rows
}

// plane sets up a map projection by its own axes.
func (v *view) plane() {
	g := v.grid
	x, y := g.X, g.Y
	if len(x) != g.NX || len(y) != g.NY { // no axes: unit steps
		x, y = make([]float64, g.NX), make([]float64, g.NY)
		for i := range x {
			x[i] = float64(i)
		}
		for j := range y {
			y[j] = float64(g.NY - 1 - j)
		}
	}
	for i := range g.NX {
		v.cols = append(v.cols, gridLine{at: x[i], index: i})
	}
	for j := range g.NY {
		v.rows = append(v.rows, gridLine{at: y[j], index: j})
	}
	byPlace := func(a, b gridLine) int { return cmp.Compare(a.at, b.at) }
	slices.SortFunc(v.cols, byPlace)
	slices.SortFunc(v.rows, byPlace)
	v.x0, v.x1 = edges(v.cols)
	v.y0, v.y1 = edges(v.rows)
	v.aspect = (v.y1 - v.y0) / (v.x1 - v.x0)
	v.limitAspect()
	if len(g.Lat) == g.Size() && len(g.Lon) == g.Size() && g.NX > 1 && g.NY > 1 {
		v.projected = newInverse(g, x, y)
	}
}

// places sets up a list of stations: the area around them with a margin of 5 %.
func (v *view) places() {
	g := v.grid
	lon, _ := longitudes(g.Lon, false)
	v.cols = make([]gridLine, len(lon))
	for i, l := range lon {
		v.cols[i] = gridLine{at: l, index: i}
	}
	v.x0, v.x1 = slices.Min(lon), slices.Max(lon)
	v.y0, v.y1 = slices.Min(g.Lat), slices.Max(g.Lat)
	rim := math.Max(0.5, 0.05*math.Max(v.x1-v.x0, v.y1-v.y0))
	v.x0, v.x1 = v.x0-rim, v.x1+rim
	v.y0, v.y1 = math.Max(v.y0-rim, -90), math.Min(v.y1+rim, 90)
	v.aspect = (v.y1 - v.y0) / (v.x1 - v.x0) / math.Max(0.2, math.Cos((v.y0+v.y1)/2*math.Pi/180))
	v.limitAspect()
}

// limitAspect bounds the aspect ratio so that narrow areas remain legible.
func (v *view) limitAspect() { v.aspect = math.Min(math.Max(v.aspect, 0.25), 1.4) }

// place is the position of grid point k in the plane.
func (v *view) place(k int) point {
	g := v.grid
	if g.Kind == ensemble.Points {
		return point{v.cols[k].at, g.Lat[k]}
	}
	p := point{math.NaN(), math.NaN()}
	for _, c := range v.cols {
		if c.index == k%g.NX && c.at >= v.x0 && c.at <= v.x1 {
			p.x = c.at
			break
		}
	}
	for _, r := range v.rows {
		if r.index == k/g.NX && !r.acrossPole {
			p.y = r.at
		}
	}
	return p
}

// inside reports whether p is in the visible area.
func (v *view) inside(p point) bool { return p.x >= v.x0 && p.x <= v.x1 && p.y >= v.y0 && p.y <= v.y1 }
