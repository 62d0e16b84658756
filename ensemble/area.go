package ensemble

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Area is a part of the globe between two parallels and two meridians, eastwards from West to
// East.
//
// Unit: degrees.
type Area struct{ North, West, South, East float64 }

// ParseArea reads an area as north/west/south/east, the order of ECMWF: 70/-20/30/40. East may
// be written as a smaller number than West if the area crosses the date line or Greenwich.
//
// Errors: another form, or bounds out of range.
func ParseArea(s string) (Area, error) {
	var v [4]float64
	parts := strings.Split(s, "/")
	if len(parts) != len(v) {
		return Area{}, fmt.Errorf("%q is not an area: write north/west/south/east in degrees, such as 70/-20/30/40", s)
	}
	for i, p := range parts {
		x, err := strconv.ParseFloat(strings.TrimSpace(p), 64)
		if err != nil || math.IsInf(x, 0) || x != x {
			return Area{}, fmt.Errorf("area %q: %q is not a number of degrees", s, p)
		}
		v[i] = x
	}
	a := Area{v[0], v[1], v[2], v[3]}
	switch {
	case a.North > 90 || a.South < -90:
		return Area{}, fmt.Errorf("area %q: latitudes must be within -90 to 90", s)
	case a.North < a.South:
		return Area{}, fmt.Errorf("area %q: north is less than south; the order is north/west/south/east", s)
	case math.Abs(a.West) > 360 || math.Abs(a.East) > 360:
		return Area{}, fmt.Errorf("area %q: longitudes must be within -360 to 360", s)
	}
	if a == (Area{}) { // a single point; the zero Area means none
		a.West, a.East = 360, 360
	}
	return a, nil
}

// String is the form that ParseArea reads.
func (a Area) String() string {
	var words []string
	for _, v := range []float64{a.North, a.West, a.South, a.East} {
		words = append(words, strconv.FormatFloat(v, 'f', -1, 64))
	}
	return strings.Join(words, "/")
}

// width is the extent from west to east: 0 for one meridian, 360 for the whole circle.
func (a Area) width() float64 {
	if a.East-a.West >= 360 {
		return 360
	}
	return eastOf(a.East, a.West)
}

// eastOf is the distance eastwards from one longitude to another, from 0 to below 360.
// Any multiple of 360 may be added to either.
func eastOf(lon, from float64) float64 {
	d := math.Mod(lon-from, 360)
	if d < 0 {
		d += 360
	}
	return d
}

// areaTolerance is the tolerance for points on the boundary of an area, below the rounding of grid
// coordinates.
//
// Unit: degrees.
const areaTolerance = 1e-4

// Crop returns the grid of the points in an area, and the positions of these points in fields of
// g. Columns run from west to east, also across Greenwich and the date line. If the area
// contains all of g, it returns g and no positions.
//
// Errors: an area without points; a grid without rows of constant latitude.
func (g *Grid) Crop(a Area) (part *Grid, places []int, err error) {
	if g.Kind != RegularLatLon && g.Kind != RegularGaussian {
		return nil, nil, fmt.Errorf("an area needs a grid of latitudes and longitudes; this grid is %s", g.Kind)
	}
	var rows, cols []int
	for j, lat := range g.Lat {
		if lat <= a.North+areaTolerance && lat >= a.South-areaTolerance {
			rows = append(rows, j)
		}
	}
	offset := func(i int) float64 { return eastOf(g.Lon[i]+areaTolerance, a.West) }
	for i := range g.NX {
		if offset(i) <= a.width()+2*areaTolerance {
			cols = append(cols, i)
		}
	}
	if len(rows) == 0 || len(cols) == 0 {
		return nil, nil, fmt.Errorf("no point of the grid (%s) lies in the area %s", g, a)
	}
	if len(rows) == g.NY && len(cols) == g.NX {
		return g, nil, nil
	}
	if len(cols) < g.NX {
		slices.SortFunc(cols, func(x, y int) int { return cmp.Compare(offset(x), offset(y)) })
	}
	part = &Grid{Kind: g.Kind, NX: len(cols), NY: len(rows), Mapping: g.Mapping, Source: g.Source, parent: g}
	if g.parent != nil {
		part.parent = g.parent
	}
	for _, j := range rows {
		part.Lat = append(part.Lat, g.Lat[j])
		for _, i := range cols {
			places = append(places, j*g.NX+i)
		}
	}
	// Longitudes ascend from that of the westernmost column; areaTolerance keeps rounding from
	// adding a full circle.
	first := eastOf(g.Lon[cols[0]], 0)
	for _, i := range cols {
		part.Lon = append(part.Lon, first+eastOf(g.Lon[i]-g.Lon[cols[0]]+areaTolerance, 0)-areaTolerance)
	}
	if len(cols) < g.NX {
		part.Source.Roll = 0
		part.Source.FirstLon = g.Source.FirstLon + eastOf(part.Lon[0]+areaTolerance, g.Source.FirstLon) - areaTolerance
	} else {
		part.Lon = g.Lon
	}
	return part, places, nil
}

// Parent is the grid that g is a part of, or g itself.
func (g *Grid) Parent() *Grid {
	if g.parent != nil {
		return g.parent
	}
	return g
}

// Take copies the values at some positions of a field.
//
// Shape: places and result [k].
func Take[T any](field []T, places []int) []T {
	out := make([]T, len(places))
	for k, p := range places {
		out[k] = field[p]
	}
	return out
}
