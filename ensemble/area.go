package ensemble

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Area is a part of the globe between two parallels, from its western to its eastern
// meridian.
//
// Unit: degrees.
type Area struct{ North, West, South, East float64 }

// ParseArea reads N/W/S/E as ECMWF writes areas: 70/-20/30/40. East of the date line, or of
// Greenwich, eastern longitudes may be written as less than western ones.
//
// Errors: if it is none, with what is wrong.
func ParseArea(s string) (Area, error) {
	var v [4]float64
	parts := strings.Split(s, "/")
	if len(parts) != len(v) {
		return Area{}, fmt.Errorf("%q is no area: write north/west/south/east in degrees, such as 70/-20/30/40", s)
	}
	for i, p := range parts {
		x, err := strconv.ParseFloat(strings.TrimSpace(p), 64)
		if err != nil || math.IsInf(x, 0) || x != x {
			return Area{}, fmt.Errorf("area %q: %q is no number of degrees", s, p)
		}
		v[i] = x
	}
	a := Area{v[0], v[1], v[2], v[3]}
	switch {
	case a.North > 90 || a.South < -90:
		return Area{}, fmt.Errorf("area %q reaches beyond a pole", s)
	case a.North < a.South:
		return Area{}, fmt.Errorf("area %q: its north lies south of its south; the order is north/west/south/east", s)
	case math.Abs(a.West) > 360 || math.Abs(a.East) > 360:
		return Area{}, fmt.Errorf("area %q: longitudes go from -360 to 360", s)
	}
	if a == (Area{}) { // one point, and not no area
		a.West, a.East = 360, 360
	}
	return a, nil
}

// String prints what ParseArea reads.
func (a Area) String() string {
	var words []string
	for _, v := range []float64{a.North, a.West, a.South, a.East} {
		words = append(words, strconv.FormatFloat(v, 'f', -1, 64))
	}
	return strings.Join(words, "/")
}

// width is the span from west to east: 0 for one meridian, 360 for all.
func (a Area) width() float64 {
	if a.East-a.West >= 360 {
		return 360
	}
	return eastOf(a.East, a.West)
}

// eastOf is how far a longitude lies east of another, from 0 to below 360.
func eastOf(lon, from float64) float64 {
	d := math.Mod(lon-from, 360)
	if d < 0 {
		d += 360
	}
	return d
}

// areaTolerance is how far outside of an area a point may lie and still be on its edge: less than
// grids are rounded by.
const areaTolerance = 1e-4

// Crop gives the grid of the points in an area, and where each of them stands in fields of
// g. Columns run from west to east, also across Greenwich and the date line. All of g is g
// itself, and no places.
//
// Errors: for an area without points, and for grids that have no rows of one latitude.
func (g *Grid) Crop(a Area) (part *Grid, places []int, err error) {
	if g.Kind != RegularLatLon && g.Kind != RegularGaussian {
		return nil, nil, fmt.Errorf("areas are cut out of grids of latitudes and longitudes; this one is %s", g.Kind)
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

// Parent is the grid that this one is a part of, or the grid itself.
func (g *Grid) Parent() *Grid {
	if g.parent != nil {
		return g.parent
	}
	return g
}

// Take gives the values at some places of a field.
func Take[T any](field []T, places []int) []T {
	out := make([]T, len(places))
	for k, p := range places {
		out[k] = field[p]
	}
	return out
}
