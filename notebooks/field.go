package notebooks

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/report"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// Field is a two-dimensional field on a grid.
//
// Shape: Values [latitude][longitude], north to south and 0 to 360° east. Unit: SI.
// Missing: NaN.
type Field struct {
	*ensemble.Field
	What       string // "post-processed spread"
	percent    bool   // probabilities from 0 to 1, without unit
	difference bool   // drawn with colours symmetric about zero
	err        error
}

// Err returns the error of the field, or nil. The other methods of a field with an error end the
// cell.
func (f *Field) Err() error { return f.err }

// Float32s returns the values, row by row.
func (f *Field) Float32s() []float32 {
	exitOnError(f.err)
	return slices.Clone(f.Values)
}

// Shape returns the numbers of rows and columns.
func (f *Field) Shape() [2]int {
	exitOnError(f.err)
	return [2]int{f.Grid.NY, f.Grid.NX}
}

// Lat returns the latitudes of the rows in degrees, and Lon the longitudes of the columns. For
// projections and lists of points they return the coordinates of each point.
func (f *Field) Lat() []float64 {
	exitOnError(f.err)
	return slices.Clone(f.Grid.Lat)
}

// Lon returns the longitudes in degrees; see Lat.
func (f *Field) Lon() []float64 {
	exitOnError(f.err)
	return slices.Clone(f.Grid.Lon)
}

// At returns the value of the grid point nearest to a place, in degrees north and east.
//
// Errors: a place outside the latitudes -90 to 90 ends the cell with exit code 64.
func (f *Field) At(lat, lon float64) float64 {
	exitOnError(f.err)
	k, err := nearestPoint(f.Grid, lat, lon)
	exitOnError(err)
	return float64(f.Values[k])
}

// nearestPoint returns the index of the grid point with the smallest distance on the sphere.
//
// Errors: exit 64 for a latitude outside -90 to 90.
func nearestPoint(g *ensemble.Grid, lat, lon float64) (k int, err error) {
	if !(math.Abs(lat) <= 90) || math.IsNaN(lon) || math.IsInf(lon, 0) {
		return 0, &exit.Error{Code: exit.Usage, What: "no such place", At: fmt.Sprintf("%g north, %g east", lat, lon), Fix: "state the latitude from -90 to 90, then the longitude, in degrees"}
	}
	const degree = math.Pi / 180
	best := math.Inf(-1)
	for j := range g.NY {
		for i := range g.NX {
			a, b := lat*degree, g.LatAt(j, i)*degree
			if c := math.Sin(a)*math.Sin(b) + math.Cos(a)*math.Cos(b)*math.Cos((lon-g.LonAt(j, i))*degree); c > best {
				k, best = j*g.NX+i, c
			}
		}
	}
	return k, nil
}

// Minus returns the difference of two fields of the same quantity on the same grid: f − o. Its maps have colours
// symmetric about zero.
//
// Errors, stored in the field: those of f and o; 64 for fields with other units or grids.
func (f *Field) Minus(o *Field) *Field {
	if err := cmp.Or(f.err, o.err); err != nil {
		return &Field{err: err}
	}
	different := func(a, b string) *Field {
		return &Field{err: &exit.Error{Code: exit.Usage, What: "the fields cannot be subtracted", At: f.What + " and " + o.What, Why: a + " is not " + b,
			Fix: "subtract fields of the same unit on the same grid"}}
	}
	const tolerance = 1e-3 // degrees; coordinates of files are rounded
	switch {
	case f.Unit != o.Unit || f.percent != o.percent:
		return different(cmp.Or(f.Unit, "1"), cmp.Or(o.Unit, "1"))
	case !f.Grid.SameAs(o.Grid, tolerance):
		return different(f.Grid.String(), o.Grid.String())
	}
	d := *f.Field
	d.Values = make([]float32, len(f.Values))
	for k, v := range f.Values {
		d.Values[k] = v - o.Values[k]
	}
	return &Field{Field: &d, What: f.What + " minus " + o.What, percent: f.percent, difference: true}
}

// Area is an area between two parallels and two meridians, in degrees.
type Area = ensemble.Area

// The named areas of the verification. Globe is the whole grid.
var (
	Globe                Area
	NorthernExtratropics = regionNamed("northern_extratropics")
	Tropics              = regionNamed("tropics")
	SouthernExtratropics = regionNamed("southern_extratropics")
	Europe               = regionNamed("europe")
	NorthAmerica         = regionNamed("north_america")
	EastAsia             = regionNamed("east_asia")
)

func regionNamed(name string) Area {
	b := score.NamedBoxes[slices.IndexFunc(score.NamedBoxes, func(b score.Box) bool { return b.Name == name })]
	return Area{North: b.North, West: b.West, South: b.South, East: b.East}
}

// Map draws a map of the field on an area.
//
// Errors, stored in the picture: 64 for an area without grid points.
func (f *Field) Map(a Area) *Picture { return Maps(a, f) }

// Maps draws maps of several fields of the same unit side by side, with a shared scale.
//
// Errors, stored in the picture: those of the fields; 64 without fields, for fields with other units, and for an area
// without grid points.
func Maps(a Area, fields ...*Field) *Picture {
	if len(fields) == 0 {
		return &Picture{err: &exit.Error{Code: exit.Usage, What: "no fields to draw", At: "Maps", Fix: "state at least one field"}}
	}
	panel := report.Panel{Unit: "1"}
	for _, f := range fields {
		if f.err != nil {
			return &Picture{err: f.err}
		}
		grid, values, err := f.crop(a)
		if err != nil {
			return &Picture{err: err}
		}
		if first := fields[0]; f.Unit != first.Unit || f.percent != first.percent {
			return &Picture{err: &exit.Error{Code: exit.Usage, What: "the maps cannot share a scale", At: first.What + " and " + f.What, Why: "their units are " + cmp.Or(first.Unit, "1") + " and " + cmp.Or(f.Unit, "1"),
				Fix: "draw fields of other units in a picture of their own"}}
		}
		if panel.Diverging = panel.Diverging || f.difference; !f.percent {
			panel.Unit = f.Unit
		}
		panel.Maps = append(panel.Maps, report.Map{Title: f.What, Grid: grid, Values: values})
	}
	first := fields[0]
	panel.Valid = first.Key.Valid()
	panel.Title = first.quantity()
	at := fmt.Sprintf("init %s, lead %s", first.Key.Init, first.Key.Lead)
	if len(fields) == 1 {
		panel.Title += ": " + first.What
		panel.Maps[0].Title = at
	} else if slices.ContainsFunc(fields, func(f *Field) bool {
		return f.quantity() != first.quantity() || f.Key.Init != first.Key.Init || f.Key.Lead != first.Key.Lead
	}) {
		for i, f := range fields {
			panel.Maps[i].Title = fmt.Sprintf("%s, %s, %s + %s", f.quantity(), f.What, f.Key.Init, f.Key.Lead)
		}
		panel.Title, panel.Valid = "Maps with a shared scale", ensemble.Valid{}
	} else {
		panel.Title += ", " + at
	}
	d, err := panel.Drawing()
	if err != nil {
		return &Picture{err: err}
	}
	png, err := encodePNG(d.Image())
	title := panel.Title
	if len(fields) == 1 {
		title += ", " + at
	}
	return &Picture{Title: title, PNG: png, drawing: &d, err: err}
}

// quantity names the variable and its level.
func (f *Field) quantity() string {
	v, known := ensemble.VariableNamed(f.Key.Variable)
	if !known {
		return f.Key.Variable
	}
	name := strings.ToUpper(v.LongName[:1]) + v.LongName[1:]
	if v.OnManyLevels() {
		name += " at " + f.Key.Level.String()
	}
	return name
}

// crop returns the part of the field in an area.
//
// Errors: exit 64 for an area without grid points.
func (f *Field) crop(a Area) (*ensemble.Grid, []float32, error) {
	if a == Globe {
		return f.Grid, f.Values, nil
	}
	part, places, err := f.Grid.Crop(a)
	if err != nil {
		return nil, nil, &exit.Error{Code: exit.Usage, What: err.Error(), At: "area " + a.String(), Fix: "choose an area with points of " + f.Grid.String()}
	}
	if places == nil {
		return part, f.Values, nil
	}
	return part, ensemble.Take(f.Values, places), nil
}
