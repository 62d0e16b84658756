package edr

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// region is the grid points of an answer.
type region struct {
	grid    *ensemble.Grid // of the points, rows from north to south
	window  ensemble.Window
	places  []int     // positions of the points in the window; nil: all in order
	lon     []float64 // of the columns, ascending, in the range of the query
	columns []int     // column of grid for each of lon
	outside []bool    // points of grid that are outside of the area; nil: none
}

// nearest returns the grid point nearest to a place: on grids of latitudes and longitudes the nearest row and column,
// on others the nearest point on the globe.
//
// Errors: a place outside of the grid, further from its points than half their distance.
func nearest(g *ensemble.Grid, at point) (region, error) {
	var row, column int
	inside := false
	if isRegular(g) {
		row = nearestOf(g.Lat, at.lat, func(a, b float64) float64 { return math.Abs(a - b) })
		column = nearestOf(g.Lon, at.lon, turn)
		inside = covers(g, at)
	} else {
		row, column, inside = nearestPoint(g, at)
	}
	if !inside {
		return region{}, badRequest(fmt.Sprintf("POINT(%g %g) is outside of the grid, which spans %s", at.lon, at.lat, span(g)))
	}
	w := ensemble.Window{Rows: [2]int{row, row + 1}, Cols: [2]int{column, column + 1}}
	return region{grid: g.Subgrid(w), window: w, lon: []float64{rounded(at.lon + signedTurn(g.LonAt(row, column), at.lon))}, columns: []int{0}}, nil
}

// rounded removes the rounding of sums of degrees.
func rounded(degrees float64) float64 { return math.Round(degrees*1e9) / 1e9 }

// isRegular reports whether a grid has rows and columns of constant latitude and longitude.
func isRegular(g *ensemble.Grid) bool {
	return g.Kind == ensemble.RegularLatLon || g.Kind == ensemble.RegularGaussian
}

// signedTurn is the shortest way from one longitude to another, from −180 to below 180.
func signedTurn(to, from float64) float64 {
	d := math.Mod(to-from+180, 360)
	if d < 0 {
		d += 360
	}
	return d - 180
}

// turn is the distance of two longitudes.
func turn(a, b float64) float64 { return math.Abs(signedTurn(a, b)) }

// nearestOf returns the position of the nearest value on an axis.
func nearestOf(axis []float64, x float64, distance func(a, b float64) float64) (at int) {
	for i, v := range axis {
		if distance(v, x) < distance(axis[at], x) {
			at = i
		}
	}
	return at
}

// lonelyStep is the step of an axis with one value, in degrees.
const lonelyStep = 1

// covers reports whether a place is within the points of a regular grid, or within half a step of them.
func covers(g *ensemble.Grid, at point) bool {
	first, last := float64(lonelyStep), float64(lonelyStep)
	if g.NY > 1 {
		first, last = g.Lat[0]-g.Lat[1], g.Lat[g.NY-2]-g.Lat[g.NY-1]
	}
	if at.lat > g.Lat[0]+first/2+edge || at.lat < g.Lat[g.NY-1]-last/2-edge {
		return false
	}
	if g.Periodic() {
		return true
	}
	west, east := ends(g.Lon)
	width, step := eastwards(west, east), float64(lonelyStep)
	if g.NX > 1 {
		step = width / float64(g.NX-1)
	}
	return eastwards(west-step/2-edge, at.lon) <= width+step+2*edge
}

// eastwards is the distance from one longitude to another, from 0 to below 360.
func eastwards(from, to float64) float64 { return math.Mod(math.Mod(to-from, 360)+360, 360) }

// nearestPoint returns the nearest point of a grid with coordinates for every point, and whether the place is within
// 0.75 of the distance to a neighbour: the middle of a square of points is 0.71 away.
func nearestPoint(g *ensemble.Grid, at point) (row, column int, inside bool) {
	best := math.Inf(1)
	for j := range g.NY {
		for i := range g.NX {
			if d := angle(point{g.LonAt(j, i), g.LatAt(j, i)}, at); d < best {
				best, row, column = d, j, i
			}
		}
	}
	step := 0.0
	here := point{g.LonAt(row, column), g.LatAt(row, column)}
	for _, n := range [][2]int{{row - 1, column}, {row + 1, column}, {row, column - 1}, {row, column + 1}} {
		if n[0] >= 0 && n[0] < g.NY && n[1] >= 0 && n[1] < g.NX {
			step = max(step, angle(point{g.LonAt(n[0], n[1]), g.LatAt(n[0], n[1])}, here))
		}
	}
	return row, column, best <= 0.75*step
}

// angle is the angle between two places seen from the centre of the globe, in radians.
//
// Formula: haversine, 2 asin √(sin²(Δφ/2) + cos φ₁ cos φ₂ sin²(Δλ/2)).
func angle(a, b point) float64 {
	const radian = math.Pi / 180
	u, v := math.Sin((a.lat-b.lat)/2*radian), math.Sin((a.lon-b.lon)/2*radian)
	return 2 * math.Asin(math.Sqrt(min(1, u*u+math.Cos(a.lat*radian)*math.Cos(b.lat*radian)*v*v)))
}

// span describes where a grid has points.
func span(g *ensemble.Grid) string {
	b := bbox(g)
	text := fmt.Sprintf("%.6g to %.6g N and %.6g to %.6g E", b[1], b[3], b[0], b[2])
	if isRegular(g) && g.NX > 1 && g.NY > 1 {
		text += fmt.Sprintf(", every %.4g degrees in latitude and %.4g in longitude", math.Abs(g.Lat[0]-g.Lat[1]), g.Lon[1]-g.Lon[0])
	}
	return text
}

// bbox returns the box around a grid: west, south, east, north, with west from −180 to below 180. East may be smaller
// than west, as RFC 7946 writes a box across the date line.
func bbox(g *ensemble.Grid) [4]float64 {
	south, north := slices.Min(g.Lat), slices.Max(g.Lat)
	if g.Periodic() {
		return [4]float64{-180, south, 180, north}
	}
	west, east := ends(g.Lon)
	return [4]float64{signedTurn(west, 0), south, signedTurn(east, 0), north}
}

// ends returns the ends of the shortest arc that contains all longitudes: the complement of the widest gap.
func ends(lons []float64) (west, east float64) {
	sorted := slices.Clone(lons)
	for i, v := range sorted {
		sorted[i] = eastwards(0, v)
	}
	slices.Sort(sorted)
	last := len(sorted) - 1
	west, east = sorted[0], sorted[last]
	widest := west + 360 - east
	for i := 1; i <= last; i++ {
		if gap := sorted[i] - sorted[i-1]; gap > widest {
			widest, west, east = gap, sorted[i], sorted[i-1]
		}
	}
	return west, east
}

// crop returns the grid points in a box, and of these only those within p, if it is not nil.
//
// Errors: a grid without rows and columns of constant latitude and longitude; a box without points.
func crop(g *ensemble.Grid, a ensemble.Area, p polygons) (region, error) {
	if !isRegular(g) {
		return region{}, badRequest(fmt.Sprintf("areas need a grid of latitudes and longitudes; this grid is %s: use position", g.Kind))
	}
	none := badRequest(fmt.Sprintf("no grid point lies in the area; the grid spans %s. position answers with the nearest point", span(g)))
	part, places, err := g.Crop(a)
	if err != nil {
		return region{}, none
	}
	r := region{grid: part}
	if places != nil {
		r.window, r.places = windowOf(g, places)
	}
	for i, lon := range part.Lon {
		r.lon = append(r.lon, rounded(lon+360*math.Ceil((a.West-cropTolerance-lon)/360)))
		r.columns = append(r.columns, i)
	}
	slices.SortFunc(r.columns, func(i, k int) int { return cmp.Compare(r.lon[i], r.lon[k]) })
	slices.Sort(r.lon)
	if p == nil {
		return r, nil
	}
	r.outside = make([]bool, part.Size())
	inside := 0
	for j := range part.NY {
		for k, i := range r.columns {
			here := p.contains(point{r.lon[k], part.Lat[j]}) || p.contains(point{r.lon[k] - 360, part.Lat[j]}) || p.contains(point{r.lon[k] + 360, part.Lat[j]})
			r.outside[j*part.NX+i] = !here
			if here {
				inside++
			}
		}
	}
	if inside == 0 {
		return region{}, none
	}
	return r, nil
}

// cropTolerance is that of ensemble.Grid.Crop for points on the boundary, in degrees.
const cropTolerance = 1.5e-4

// windowOf returns the smallest window with some points of a grid, and their positions in it.
func windowOf(g *ensemble.Grid, places []int) (w ensemble.Window, within []int) {
	w = ensemble.Window{Rows: [2]int{g.NY, 0}, Cols: [2]int{g.NX, 0}}
	for _, k := range places {
		j, i := k/g.NX, k%g.NX
		w.Rows = [2]int{min(w.Rows[0], j), max(w.Rows[1], j+1)}
		w.Cols = [2]int{min(w.Cols[0], i), max(w.Cols[1], i+1)}
	}
	within = make([]int, len(places))
	for n, k := range places {
		within[n] = (k/g.NX-w.Rows[0])*(w.Cols[1]-w.Cols[0]) + k%g.NX - w.Cols[0]
	}
	return w, within
}
