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
//
// Unit: degrees east and north; metres for projections (degrees for a rotated pole).
type view struct {
	grid *ensemble.Grid
	// Visible area; y increases northwards.
	x0, x1, y0, y1 float64
	// Height/width of the map.
	aspect float64
	// cols and rows are the grid lines in ascending order, with copies across the date line
	// and the poles for interpolation.
	cols, rows []gridLine
	// Nil for longitude and latitude.
	projected *inverse
}

// gridLine is a row or column of the grid at a coordinate.
type gridLine struct {
	at    float64
	index int
	// A copy of a row, across a pole.
	acrossPole bool
}

// haloLines is the number of copied lines across the date line and the poles, the support of
// cubic interpolation.
const haloLines = 2

// newView selects visible area and layout for a kind of grid:
//
//	regular, Gaussian   longitude and latitude
//	Projected           axes of the projection
//	Points              area around the stations
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
//
// The visible area extends half a cell beyond the outermost points, at most to the poles. A
// global grid covers -180 to 180; two columns are copied across the date line at each side,
// and two rows across each pole that the grid reaches.
//
// The aspect ratio is that of equal degrees for a global grid. For a region one degree of
// longitude is cos φ of one of latitude, at the mean latitude φ:
//
//	height/width = Δφ / (Δλ cos φ)
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
		// Copies of the columns across the date line.
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
//
// Method: columns are sorted in -180 to 180. The region begins east of the widest gap between
// consecutive columns around the circle; columns west of its beginning get 360° more. If
// its middle is then at 180° or beyond, 360° are subtracted from all.
//
// Unit: degrees. Shape: at [column]; rising [k] are column indices.
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
	// The gap before the first column is that across the date line.
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

// edges returns the outer cell boundaries of the first and the last line: half a spacing
// beyond their coordinates, or half a unit for a single line.
func edges(l []gridLine) (low, high float64) {
	n := len(l)
	if n == 1 {
		return l[0].at - 0.5, l[0].at + 0.5
	}
	return l[0].at - (l[1].at-l[0].at)/2, l[n-1].at + (l[n-1].at-l[n-2].at)/2
}

// overPoles adds copies of the rows across each pole that the grid reaches: the latitude
// continues beyond ±90°, and the columns are shifted by half a circle.
//
// A grid reaches a pole if the next row would lie beyond it, or if it has a row there. Grids
// with fewer than four rows are returned unchanged, since cubic interpolation needs four.
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

// plane sets up a map projection by its own axes, in metres (degrees for a rotated pole). The
// inverse projection is available if all points have latitude and longitude; without it
// neither coastlines nor graticule are drawn.
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

// places sets up a list of stations: the area around them with a margin of 5 % of the larger
// extent, at least half a degree.
func (v *view) places() {
	g := v.grid
	lon, _ := longitudes(g.Lon, false)
	v.cols = make([]gridLine, len(lon))
	for i, l := range lon {
		v.cols[i] = gridLine{at: l, index: i}
	}
	v.x0, v.x1 = slices.Min(lon), slices.Max(lon)
	v.y0, v.y1 = slices.Min(g.Lat), slices.Max(g.Lat)
	// rim is the margin in degrees.
	rim := math.Max(0.5, 0.05*math.Max(v.x1-v.x0, v.y1-v.y0))
	v.x0, v.x1 = v.x0-rim, v.x1+rim
	v.y0, v.y1 = math.Max(v.y0-rim, -90), math.Min(v.y1+rim, 90)
	v.aspect = (v.y1 - v.y0) / (v.x1 - v.x0) / math.Max(0.2, math.Cos((v.y0+v.y1)/2*math.Pi/180))
	v.limitAspect()
}

// limitAspect bounds height/width to 0.25 to 1.4, so that narrow areas remain legible.
func (v *view) limitAspect() { v.aspect = math.Min(math.Max(v.aspect, 0.25), 1.4) }

// place is the position of grid point k in the plane; NaN if its column is not visible.
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

// inside reports whether p is in the visible area, border included.
func (v *view) inside(p point) bool { return p.x >= v.x0 && p.x <= v.x1 && p.y >= v.y0 && p.y <= v.y1 }
