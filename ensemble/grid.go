package ensemble

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// GridKind is the layout of the points of a grid.
type GridKind uint8

// The kinds of grid.
const (
	RegularLatLon   GridKind = iota // equidistant latitudes and longitudes
	RegularGaussian                 // Gaussian latitudes, equidistant longitudes
	Projected                       // x and y axes of a map projection, with 2-D latitudes and longitudes
	Points                          // a list of points (stations)
	ReducedLatLon                   // equidistant latitudes, a number of points for each row
	ReducedGaussian                 // Gaussian latitudes, a number of points for each row
)

// String is the name in catalogues and files.
func (k GridKind) String() string {
	return [...]string{"regular_ll", "regular_gg", "projected", "points", "reduced_ll", "reduced_gg"}[k]
}

// MarshalText encodes the name.
func (k GridKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText decodes a name.
func (k *GridKind) UnmarshalText(text []byte) error {
	for g := RegularLatLon; g <= ReducedGaussian; g++ {
		if g.String() == string(text) {
			*k = g
			return nil
		}
	}
	return fmt.Errorf("unknown grid %q", text)
}

// Grid is a set of points in normal order: rows from north to south, columns from 0 towards
// 360° east. In Projected grids y falls and x rises; Points are one row; reduced grids are one
// row with all Rows one after the other. Grids are shared by pointer and immutable.
//
// Shape: NY rows of NX columns; Lat [NY] and Lon [NX] for RegularLatLon and
// RegularGaussian, Lat and Lon [NY*NX] row by row otherwise.
// Unit: degrees; X and Y in metres (degrees for a rotated pole), only for Projected.
type Grid struct {
	Kind GridKind  `json:"kind"`
	NX   int       `json:"nx"`
	NY   int       `json:"ny"`
	Lat  []float64 `json:"lat"`
	Lon  []float64 `json:"lon"`
	X    []float64 `json:"x,omitempty"`
	Y    []float64 `json:"y,omitempty"`
	// Mapping holds the CF grid mapping attributes of a projection
	// (grid_mapping_name and its parameters); nil for lat-lon grids.
	Mapping map[string]any `json:"mapping,omitempty"`
	// Rows holds the number of points in each row of a reduced grid, north to south; nil for
	// other grids. The points of a row run from west to east.
	Rows []int `json:"rows,omitempty"`
	// WindAlongAxes: u and v are relative to the x and y axes of a Projected grid; false:
	// eastward and northward.
	WindAlongAxes bool `json:"wind_along_axes,omitempty"`
	// Source is the order of the points in the input, to restore it in outputs.
	Source SourceOrder `json:"source"`

	parent  *Grid     // the grid that this one is a part of; nil: none
	weights []float64 // area weights of a part of a reduced grid; nil: computed from the points
}

// UnmarshalJSON decodes a grid and checks that its coordinates have the documented shapes.
func (g *Grid) UnmarshalJSON(text []byte) error {
	type fields Grid
	if err := json.Unmarshal(text, (*fields)(g)); err != nil {
		return err
	}
	lats, lons, points := len(g.Lat), len(g.Lon), 0
	if g.Kind == RegularLatLon || g.Kind == RegularGaussian {
		if g.NY != lats || g.NX != lons {
			return fmt.Errorf("a grid of %d rows and %d columns has %d latitudes and %d longitudes", g.NY, g.NX, lats, lons)
		}
	} else if g.NX < 0 || g.NY < 0 || lats != lons || g.NX > 0 && (lats/g.NX != g.NY || lats%g.NX != 0) {
		return fmt.Errorf("a grid of %d rows and %d columns has %d latitudes and %d longitudes", g.NY, g.NX, lats, lons)
	}
	if (g.X != nil || g.Y != nil) && (len(g.X) != g.NX || len(g.Y) != g.NY) {
		return fmt.Errorf("a grid of %d rows and %d columns has %d values of x and %d of y", g.NY, g.NX, len(g.X), len(g.Y))
	}
	for _, n := range g.Rows {
		if points += n; n < 1 || points > lats {
			return fmt.Errorf("%d rows of a reduced grid do not make its %d points", len(g.Rows), lats)
		}
	}
	if g.Rows != nil && points != lats {
		return fmt.Errorf("%d rows of a reduced grid do not make its %d points", len(g.Rows), lats)
	}
	return nil
}

// SourceOrder records the order of the points in the input. Row r, column c of the Grid was
// input row r (or NY-1-r if SouthFirst) and input column (c+Roll) mod NX, counted from the
// west.
type SourceOrder struct {
	SouthFirst   bool    `json:"south_first"`   // input rows ran south to north
	EastFirst    bool    `json:"east_first"`    // input columns ran east to west
	ColumnMajor  bool    `json:"column_major"`  // input ran along meridians first
	Roll         int     `json:"roll"`          // input column that became column 0, counted from the west
	FirstLon     float64 `json:"first_lon"`     // longitude of the westernmost column as in the input, degrees
	ScanningMode int     `json:"scanning_mode"` // GRIB scanning mode octet; -1: not GRIB
}

// Window is a rectangle of a grid: half-open ranges of rows and of columns. The zero value is
// the whole grid.
type Window struct{ Rows, Cols [2]int }

// Size is the number of points.
func (g *Grid) Size() int { return g.NX * g.NY }

// IsWhole reports whether a window is the whole grid.
func (g *Grid) IsWhole(w Window) bool {
	return w == Window{} || w == Window{[2]int{0, g.NY}, [2]int{0, g.NX}}
}

// SizeOf is the number of points in a window.
func (g *Grid) SizeOf(w Window) int {
	if g.IsWhole(w) {
		return g.Size()
	}
	return (w.Rows[1] - w.Rows[0]) * (w.Cols[1] - w.Cols[0])
}

// Rectangular reports whether the points form a rectangle of rows and columns, as networks and
// maps need. Reduced grids and lists of points do not.
func (g *Grid) Rectangular() bool { return g.Kind != Points && g.Rows == nil }

// Subgrid is the grid of the points in a window. Points keep the weights that they have in g. Parts
// of reduced grids are lists of points.
func (g *Grid) Subgrid(w Window) *Grid {
	if g.IsWhole(w) {
		return g
	}
	p := &Grid{Kind: g.Kind, NX: w.Cols[1] - w.Cols[0], NY: w.Rows[1] - w.Rows[0], Mapping: g.Mapping, Source: g.Source, parent: g}
	if g.parent != nil {
		p.parent = g.parent
	}
	if g.X != nil {
		p.X, p.Y = g.X[w.Cols[0]:w.Cols[1]], g.Y[w.Rows[0]:w.Rows[1]]
	}
	if g.Kind == RegularLatLon || g.Kind == RegularGaussian {
		p.Lat, p.Lon = g.Lat[w.Rows[0]:w.Rows[1]], g.Lon[w.Cols[0]:w.Cols[1]]
		return p
	}
	p.Lat, p.Lon = cropRows(g.Lat, g.NX, w), cropRows(g.Lon, g.NX, w)
	if g.Rows != nil || g.weights != nil {
		p.Kind, p.weights = Points, cropRows(g.Weights(), g.NX, w)
	}
	return p
}

// CropField copies the values of a field of g in a window. For the whole grid it returns the field.
//
// Shape: field [g.Size()], result [g.SizeOf(w)].
func CropField[T any](field []T, g *Grid, w Window) []T {
	if g.IsWhole(w) {
		return field
	}
	return cropRows(field, g.NX, w)
}

// cropRows copies the values in a window of a field with nx columns.
func cropRows[T any](x []T, nx int, w Window) []T {
	out := make([]T, 0, (w.Rows[1]-w.Rows[0])*(w.Cols[1]-w.Cols[0]))
	for j := w.Rows[0]; j < w.Rows[1]; j++ {
		out = append(out, x[j*nx+w.Cols[0]:j*nx+w.Cols[1]]...)
	}
	return out
}

// LatAt is the latitude of row j, column i.
//
// Unit: degrees.
func (g *Grid) LatAt(j, i int) float64 {
	if g.Kind == RegularLatLon || g.Kind == RegularGaussian {
		return g.Lat[j]
	}
	return g.Lat[j*g.NX+i]
}

// LonAt is the longitude of row j, column i.
//
// Unit: degrees.
func (g *Grid) LonAt(j, i int) float64 {
	if g.Kind == RegularLatLon || g.Kind == RegularGaussian {
		return g.Lon[i]
	}
	return g.Lon[j*g.NX+i]
}

// Periodic reports whether the columns cover the full circle of longitude, so that the last one
// is a neighbour of the first.
func (g *Grid) Periodic() bool {
	if (g.Kind != RegularLatLon && g.Kind != RegularGaussian) || g.NX < 2 {
		return false
	}
	step := (g.Lon[g.NX-1] - g.Lon[0]) / float64(g.NX-1)
	return math.Abs(step*float64(g.NX)-360) < step/2
}

// Weights returns the area weights of the points, which all scores use:
//
//	cos(latitude)                            regular grids
//	cos(latitude) · longest row/row length   reduced grids
//	1                                        Projected and Points
//
// A row at a pole has the weight of poleWeight.
//
// Shape: [NY*NX], row by row. Not normalised.
func (g *Grid) Weights() []float64 {
	w := make([]float64, g.Size())
	switch {
	case g.Rows != nil:
		g.rowWeights(w)
		return w
	case g.weights != nil:
		copy(w, g.weights)
		return w
	}
	pole := 0.0
	whole := g
	if g.parent != nil {
		whole = g.parent
	}
	if whole.NY > 1 {
		pole = poleWeight(whole.Lat[0] - whole.Lat[1])
	}
	for j := range g.NY {
		v := 1.0
		if g.Kind == RegularLatLon || g.Kind == RegularGaussian {
			// A row at a pole represents half a cell; cos(90°) would give it weight 0.
			v = max(math.Cos(g.Lat[j]*math.Pi/180), pole)
		}
		for i := range g.NX {
			w[j*g.NX+i] = v
		}
	}
	return w
}

// rowWeights fills the weights of a reduced grid: those of a regular grid with as many columns
// as the longest row, divided among the points of each row.
func (g *Grid) rowWeights(w []float64) {
	most := float64(slices.Max(g.Rows))
	pole := 0.0
	if len(g.Rows) > 1 {
		pole = poleWeight(g.Lat[0] - g.Lat[g.Rows[0]])
	}
	k := 0
	for _, n := range g.Rows {
		v := max(math.Cos(g.Lat[k]*math.Pi/180), pole) * most / float64(n)
		for range n {
			w[k] = v
			k++
		}
	}
}

// poleWeight is the weight of a row at a pole at a distance of Δ degrees from the next one. Its
// cells reach Δ/2 from the pole. Their area per radian of longitude is 1−cos(Δ/2) ≈ Δ²/8, and
// that of other cells cos(φ)Δ, so the weight relative to cos(φ) is Δ/8 (in radians).
func poleWeight(distance float64) float64 { return math.Abs(distance) * math.Pi / 180 / 8 }

// SameAs reports whether two grids have the same points to within tol degrees (metres for the
// axes of Projected grids).
func (g *Grid) SameAs(o *Grid, tol float64) bool {
	if g == o {
		return true
	}
	if g.Kind != o.Kind || g.NX != o.NX || g.NY != o.NY || !slices.Equal(g.Rows, o.Rows) {
		return false
	}
	near := func(a, b []float64) bool {
		if len(a) != len(b) {
			return false
		}
		for i := range a {
			if math.Abs(a[i]-b[i]) > tol {
				return false
			}
		}
		return true
	}
	return near(g.Lat, o.Lat) && near(g.Lon, o.Lon) && near(g.X, o.X) && near(g.Y, o.Y)
}

// String describes the grid in one line, for messages and catalogues.
func (g *Grid) String() string {
	n := len(g.Lat)
	if n == 0 || len(g.Lon) == 0 {
		return fmt.Sprintf("%s %dx%d", g.Kind, g.NX, g.NY)
	}
	if g.Rows != nil {
		return fmt.Sprintf("%s %d rows of %d to %d points, %d points, %.6g to %.6g N", g.Kind, len(g.Rows), slices.Min(g.Rows), slices.Max(g.Rows), g.NX, g.Lat[0], g.Lat[n-1])
	}
	return fmt.Sprintf("%s %dx%d, %.6g to %.6g N, %.6g to %.6g E", g.Kind, g.NX, g.NY,
		g.Lat[0], g.Lat[n-1], g.Lon[0], g.Lon[len(g.Lon)-1])
}
