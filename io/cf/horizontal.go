package cf

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/io/order"
	"github.com/ensemble-weather/ensemble/io/projection"
)

// horizontalGrid holds the grid of a variable and the positions of its dimensions
// among those of the variable.
type horizontalGrid struct {
	grid    *ensemble.Grid
	dims    []int   // rows, columns
	lengths []int64 // of dims, without a column that is stored twice
	cyclic  int     // dimension of a column that is stored twice; -1 without one
}

// horizontal finds the grid of a variable, or returns the reason why it has none.
//
// In the order of the tests: a list of points (one dimension for both), a curvilinear
// grid (two-dimensional latitude and longitude without axes), a regular grid (axes that
// are latitude and longitude), a projected grid (axes of a projection). Unstructured
// grids are lists of points.
//
// Source: CF sections 4.1, 4.2 (latitude, longitude), 5.1 (independent), 5.2
// (two-dimensional) and 5.6 (grid mappings).
func (r *reader) horizontal(v *Var, all []*auxCoord) (horizontalGrid, string) {
	var x, y *auxCoord
	var lat, lon *auxCoord // geographic coordinates, one- or two-dimensional
	for _, a := range all {
		std := a.v.Text("standard_name")
		switch a.role {
		case roleX:
			// Coordinate variables have precedence over auxiliary coordinates as
			// axes.
			if len(a.axes) == 1 && (x == nil || r.isCoordinateVariable(a) && !r.isCoordinateVariable(x)) {
				x = a
			}
			if isGeographic(a, std, "longitude") {
				lon = preferTwoDimensional(lon, a)
			}
		case roleY:
			if len(a.axes) == 1 && (y == nil || r.isCoordinateVariable(a) && !r.isCoordinateVariable(y)) {
				y = a
			}
			if isGeographic(a, std, "latitude") {
				lat = preferTwoDimensional(lat, a)
			}
		}
	}
	if lat == nil && lon == nil && x == nil && y == nil {
		return horizontalGrid{}, "it has no latitude and longitude"
	}
	if lat != nil && lon != nil {
		var reason string
		if lat, reason = r.withoutTimeAxis(lat); reason == "" {
			lon, reason = r.withoutTimeAxis(lon)
		}
		if reason == "" {
			reason = couldBeRadian(lat, lon)
		}
		if reason != "" {
			return horizontalGrid{}, reason
		}
	}
	for _, a := range []*auxCoord{lat, lon} {
		if a != nil && a.reason != "" {
			return horizontalGrid{}, a.reason
		}
	}
	// Stations: latitude and longitude have the same dimension.
	if lat != nil && lon != nil && len(lat.axes) == 1 && len(lon.axes) == 1 && lat.axes[0] == lon.axes[0] {
		return r.pointGrid(lat, lon)
	}
	plane := lat != nil && lon != nil && len(lat.axes) == 2 && slices.Equal(lat.axes, lon.axes)
	if plane && (x == nil || y == nil || x.axes[0] == y.axes[0]) {
		return r.curvilinearGrid(v, lat, lon)
	}
	if x == nil || y == nil || x.axes[0] == y.axes[0] {
		return horizontalGrid{}, "it has no rows and columns"
	}
	var g *ensemble.Grid
	var reason string
	cyclic := false
	if x == lon && y == lat {
		g, cyclic, reason = latLonGrid(x.values, y.values)
	} else {
		g, reason = r.projectedGrid(v, x, y, lat, lon)
	}
	if reason != "" {
		return horizontalGrid{}, reason
	}
	// Storage is by columns if x varies more slowly than y.
	g.Source.ColumnMajor = x.axes[0] < y.axes[0]
	out, reason := r.finishGrid(g, y.axes[0], x.axes[0])
	if cyclic {
		out.cyclic = x.axes[0]
		r.warn("its column at %g degrees is stored twice and used once", x.values[0])
	}
	return out, reason
}

// finishGrid interns a grid with rows and columns along two dimensions of the variable.
// The lengths are those of the grid, one column less than those of the dimension if a
// column is stored twice.
func (r *reader) finishGrid(g *ensemble.Grid, rows, columns int) (horizontalGrid, string) {
	if g.Size() > maxGrid {
		return horizontalGrid{}, fmt.Sprintf("a grid of %d points", g.Size())
	}
	return horizontalGrid{r.opt.Share(g), []int{rows, columns}, []int64{int64(g.NY), int64(g.NX)}, -1}, ""
}

// withoutTimeAxis returns a coordinate of three dimensions as one of two, if it does
// not change along the first (XLAT of WRF, which repeats it for each time).
func (r *reader) withoutTimeAxis(a *auxCoord) (*auxCoord, string) {
	if len(a.axes) != 3 {
		return a, ""
	}
	n := int(r.h.Dims[a.v.Dims[1]].Len * r.h.Dims[a.v.Dims[2]].Len)
	for k := n; k < len(a.values); k += n {
		if !slices.Equal(a.values[:n], a.values[k:k+n]) {
			return nil, fmt.Sprintf("its coordinate %q changes along dimension %q", a.v.Name, r.h.Dims[a.v.Dims[0]].Name)
		}
	}
	plane := *a.v
	plane.Dims = a.v.Dims[1:]
	b := *a
	b.v, b.values, b.axes = &plane, a.values[:n], a.axes[1:]
	return &b, ""
}

// curvilinearGrid makes a grid from two-dimensional latitudes and longitudes without
// axes, as cfgrib writes those of Lambert grids. Columns run along the dimension
// along which latitudes change more. The grid has no axes.
func (r *reader) curvilinearGrid(v *Var, lat, lon *auxCoord) (horizontalGrid, string) {
	rows, columns := lat.axes[0], lat.axes[1]
	// The middle column and row give the directions.
	along := func(a *auxCoord, dim int) []float64 {
		place := make([]int64, len(v.Dims))
		for _, p := range lat.axes {
			place[p] = r.h.Dims[v.Dims[p]].Len / 2
		}
		out := make([]float64, r.h.Dims[v.Dims[dim]].Len)
		for k := range out {
			place[dim] = int64(k)
			out[k] = a.value(r.h, place)
		}
		return out
	}
	change := func(x []float64) float64 { return x[len(x)-1] - x[0] }
	if math.Abs(change(along(lat, columns))) > math.Abs(change(along(lat, rows))) {
		rows, columns = columns, rows
	}
	g := &ensemble.Grid{Kind: ensemble.Projected, NX: int(r.h.Dims[v.Dims[columns]].Len), NY: int(r.h.Dims[v.Dims[rows]].Len), Source: ensemble.SourceOrder{ScanningMode: -1, ColumnMajor: columns < rows}}
	g.Source.SouthFirst = change(along(lat, rows)) > 0
	g.Source.EastFirst = change(unwrapLongitudes(along(lon, columns))) < 0
	x, y := &auxCoord{axes: []int{columns}}, &auxCoord{axes: []int{rows}}
	g, reason := r.fileCoordinates(g, x, y, lat, lon)
	if reason != "" {
		return horizontalGrid{}, reason
	}
	return r.finishGrid(g, rows, columns)
}

// maxGrid bounds the points of a grid.
const maxGrid = 1 << 28

// isCoordinateVariable reports whether a has the name of its only dimension (CF
// section 1.2).
func (r *reader) isCoordinateVariable(a *auxCoord) bool {
	return len(a.v.Dims) == 1 && r.h.Dims[a.v.Dims[0]].Name == a.v.Name
}

// preferTwoDimensional returns the coordinate with more dimensions, a if equal.
func preferTwoDimensional(a, b *auxCoord) *auxCoord {
	if a == nil || len(b.axes) > len(a.axes) {
		return b
	}
	return a
}

// isGeographic distinguishes true latitudes and longitudes from axes of projections
// and rotated poles.
func isGeographic(a *auxCoord, std, want string) bool {
	unit := a.v.Text("units")
	directed := want == "latitude" && (isDirection(unit, "n") || isDirection(unit, "s")) || want == "longitude" && (isDirection(unit, "e") || isDirection(unit, "w"))
	switch {
	case strings.HasPrefix(std, "projection_"):
		return directed && !isAxisOfProjection(a.v)
	case std != "":
		return std == want
	}
	name := strings.ToLower(a.v.Name)
	return directed || rolesByName[name] != noRole && name != "x" && name != "y" && name != "rlon" && name != "rlat"
}

// checkAxis returns the reason why the values of an axis are invalid, and whether
// they decrease.
func checkAxis(what string, v []float64) (falling bool, reason string) {
	for i, x := range v {
		if x != x || math.IsInf(x, 0) {
			return false, fmt.Sprintf("%s %d is missing", what, i+1)
		}
		// Strictly monotonic in the sense of the first two values.
		if i > 0 && (x == v[i-1] || (x < v[i-1]) != (v[1] < v[0])) {
			return false, fmt.Sprintf("%s is not monotonic at its value %d", what, i+1)
		}
	}
	return len(v) > 1 && v[1] < v[0], ""
}

// reversedCopy returns the values in reverse order.
func reversedCopy(v []float64) []float64 {
	v = slices.Clone(v)
	slices.Reverse(v)
	return v
}

// latLonGrid makes a regular grid from its axes, in normal order. cyclic reports that
// the last column repeats the first, 360 degrees further. The grid does not have it. x
// are longitudes and y latitudes in degrees, in storage order, which g.Source records.
//
// A latitude may exceed 90 by the rounding of stored numbers. Longitudes may span one
// turn at most and begin within two turns of 0.
func latLonGrid(x, y []float64) (g *ensemble.Grid, cyclic bool, reason string) {
	falling, reason := checkAxis("latitude", y)
	if reason != "" {
		return nil, false, reason
	}
	for _, lat := range y {
		if math.Abs(lat) > 90+1e-4 {
			return nil, false, fmt.Sprintf("latitude %g is beyond the pole", lat)
		}
	}
	turn := unwrapLongitudes(x)
	if n := len(turn); n > 2 && math.Abs(math.Abs(turn[n-1]-turn[0])-360) < 1e-3 {
		x, cyclic = x[:n-1], true
	}
	west, reason := checkAxis("longitude", unwrapLongitudes(x))
	if reason != "" {
		return nil, false, reason
	}
	g = &ensemble.Grid{Kind: ensemble.RegularLatLon, NX: len(x), NY: len(y), Source: ensemble.SourceOrder{ScanningMode: -1}}
	g.Lat = slices.Clone(y)
	if !falling && len(y) > 1 {
		g.Lat, g.Source.SouthFirst = reversedCopy(y), true
	}
	g.Lon = unwrapLongitudes(x)
	if west {
		slices.Reverse(g.Lon)
		g.Source.EastFirst = true
	}
	g.Source.FirstLon = g.Lon[0]
	// More than one turn would hold points twice.
	if last := g.Lon[len(g.Lon)-1]; last-g.Lon[0] > 360+1e-3 || math.Abs(g.Lon[0]) > 720 {
		return nil, false, fmt.Sprintf("longitudes from %g to %g", g.Lon[0], last)
	}
	g.Source.Roll = order.Roll(g.Lon)
	if isGaussian(g.Lat) {
		g.Kind = ensemble.RegularGaussian
	}
	return g, cyclic, ""
}

// unwrapLongitudes removes the jump of 360° from longitudes that cross the date line or
// Greenwich. The first value stays; x does not change.
func unwrapLongitudes(x []float64) []float64 {
	out := slices.Clone(x)
	for i := 1; i < len(out); i++ {
		if d := out[i] - out[i-1]; d > 180 {
			out[i] -= 360
		} else if d < -180 {
			out[i] += 360
		}
	}
	return out
}

// isGaussian reports whether latitudes are those of a global Gaussian grid, within
// the precision of float32.
//
// Cost: the latitudes are roots of a Legendre polynomial, which GaussianLatitudes
// computes; hence the upper limit of 2¹³.
func isGaussian(lat []float64) bool {
	n := len(lat)
	if n < 4 || n%2 != 0 || n > 1<<13 {
		return false
	}
	for j, want := range ensemble.GaussianLatitudes(n) {
		// float32 has about 10⁻⁵ degrees at 90; files round more.
		if math.Abs(lat[j]-want) > 2e-4 {
			return false
		}
	}
	return true
}

// projectedGrid makes a grid on the axes of a map projection. Latitudes and
// longitudes come from the file or, if it has none, from the grid mapping.
//
// Unit: x and y in metres, or in degrees for a rotated pole.
// Source: CF section 5.6 and appendix F.
func (r *reader) projectedGrid(v *Var, x, y, lat, lon *auxCoord) (*ensemble.Grid, string) {
	rising, reason := checkAxis("y axis", y.values)
	if reason != "" {
		return nil, reason
	}
	rising = !rising && len(y.values) > 1
	west, reason := checkAxis("x axis", x.values)
	if reason != "" {
		return nil, reason
	}
	g := &ensemble.Grid{Kind: ensemble.Projected, NX: len(x.values), NY: len(y.values),
		Source: ensemble.SourceOrder{SouthFirst: rising, EastFirst: west, ScanningMode: -1}}
	g.X, g.Y = slices.Clone(x.values), slices.Clone(y.values)
	if rising {
		slices.Reverse(g.Y)
	}
	if west {
		slices.Reverse(g.X)
	}
	if m := r.h.find(mappingName(v.Text("grid_mapping")), v.Group); m >= 0 {
		g.Mapping = map[string]any{}
		for k, a := range r.h.Vars[m].Attrs {
			g.Mapping[k] = a.Value()
		}
	}
	_, angle := angleFactor(x.v.Text("units"))
	rotated := g.Mapping["grid_mapping_name"] == "rotated_latitude_longitude"
	if lat != nil && lon != nil && len(lat.axes) == 2 && len(lon.axes) == 2 {
		// The axes of a Grid are metres, or degrees of a rotated pole. Indexes of rows
		// and columns and angles of a satellite are neither.
		if angle && !rotated || x.reason != "" || y.reason != "" {
			g.X, g.Y = nil, nil
		}
		return r.fileCoordinates(g, x, y, lat, lon)
	}
	// Axes whose unit is not understood can be used with coordinates of the file only.
	for _, a := range []*auxCoord{x, y} {
		if a.reason != "" {
			return nil, a.reason
		}
		if angle && !rotated && g.Mapping != nil {
			return nil, unknownUnit(a.v)
		}
	}
	p, err := projection.FromCF(g.Mapping)
	if err != nil {
		return nil, err.Error() + ", and it has no 2-D latitude and longitude"
	}
	g.Lat, g.Lon = projection.Coordinates(p, g.X, g.Y)
	g.Source.FirstLon = g.Lon[0]
	for k := range g.Lat {
		if g.Lat[k] != g.Lat[k] || g.Lon[k] != g.Lon[k] {
			return nil, "its axes exceed the map projection"
		}
	}
	return g, ""
}

// mappingName returns the variable of a grid_mapping attribute in its short form
// "crs" and its extended form "crs: x y".
//
// Source: CF section 5.6.
func mappingName(s string) string {
	n := splitNames(s)
	if len(n) == 0 {
		return ""
	}
	if last := len(n[0]) - 1; n[0][last] == ':' {
		return n[0][:last]
	}
	return n[0]
}

// fileCoordinates copies the two-dimensional coordinates of the file to g, in
// normal order.
func (r *reader) fileCoordinates(g *ensemble.Grid, x, y, lat, lon *auxCoord) (*ensemble.Grid, string) {
	g.Lat, g.Lon = make([]float64, g.Size()), make([]float64, g.Size())
	place := make([]int64, max(x.axes[0], y.axes[0], slices.Max(lat.axes), slices.Max(lon.axes))+1)
	for j := range g.NY {
		for i := range g.NX {
			row, col := j, i
			if g.Source.SouthFirst {
				row = g.NY - 1 - j
			}
			if g.Source.EastFirst {
				col = g.NX - 1 - i
			}
			place[y.axes[0]], place[x.axes[0]] = int64(row), int64(col)
			k := j*g.NX + i
			g.Lat[k] = lat.value(r.h, place)
			// Longitudes in [0, 360).
			g.Lon[k] = math.Mod(lon.value(r.h, place)+720, 360)
			if !(math.Abs(g.Lat[k]) <= 90+1e-4) || g.Lon[k] != g.Lon[k] {
				return nil, fmt.Sprintf("latitude %g, longitude %g at row %d, column %d", g.Lat[k], g.Lon[k], row+1, col+1)
			}
		}
	}
	g.Source.FirstLon = g.Lon[0]
	return g, ""
}

// pointGrid makes a list of points. Its order is that of the file.
//
// Source: CF sections 5.4 and 9 (discrete sampling geometries).
func (r *reader) pointGrid(lat, lon *auxCoord) (horizontalGrid, string) {
	g := &ensemble.Grid{Kind: ensemble.Points, NX: len(lat.values), NY: 1, Lat: slices.Clone(lat.values), Lon: make([]float64, len(lon.values)),
		Source: ensemble.SourceOrder{ScanningMode: -1, FirstLon: lon.values[0]}}
	for i, x := range lon.values {
		g.Lon[i] = math.Mod(x+720, 360)
		if !(math.Abs(g.Lat[i]) <= 90+1e-4) || g.Lon[i] != g.Lon[i] {
			return horizontalGrid{}, fmt.Sprintf("point %d is at latitude %g, longitude %g", i+1, g.Lat[i], x)
		}
	}
	return horizontalGrid{r.opt.Share(g), []int{lat.axes[0]}, []int64{int64(g.NX)}, -1}, ""
}

// compareCyclic warns if the values of the column that is stored twice differ. It
// reads them from the first field only. Damage is reported when fields are read.
func (r *reader) compareCyclic(f Field, dim int) {
	first, last := f.Slab, f.Slab
	for k, s := range []*Slab{&first, &last} {
		s.Start, s.Count = slices.Clone(s.Start), slices.Clone(s.Count)
		s.Start[dim], s.Count[dim] = int64(k)*f.Slab.Count[dim], 1
	}
	values, err := r.opt.Values([]Slab{first, last})
	if err == nil && !slices.EqualFunc(values[0], values[1], func(a, b float64) bool { return a == b || a != a && b != b }) {
		r.warn("the two columns at the same longitude differ: the first is used")
	}
}
