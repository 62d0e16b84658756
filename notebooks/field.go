package notebooks

import (
	"fmt"
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
	What    string // "post-processed spread"
	percent bool   // probabilities from 0 to 1, without unit
	err     error
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
func (f *Field) Map(a Area) *Picture {
	if f.err != nil {
		return &Picture{err: f.err}
	}
	grid, values := f.Grid, f.Values
	if a != Globe {
		part, places, err := grid.Crop(a)
		if err != nil {
			return &Picture{err: &exit.Error{Code: exit.Usage, What: err.Error(), At: "area " + a.String(), Fix: "choose an area with points of " + grid.String()}}
		}
		if grid = part; places != nil {
			values = ensemble.Take(values, places)
		}
	}
	v, _ := ensemble.VariableNamed(f.Key.Variable)
	name := strings.ToUpper(v.LongName[:1]) + v.LongName[1:]
	if v.OnManyLevels() {
		name += " at " + f.Key.Level.String()
	}
	panel := report.Panel{Title: name + ": " + f.What, Unit: f.Unit, Valid: f.Key.Valid(),
		Maps: []report.Map{{Title: fmt.Sprintf("init %s, lead %s", f.Key.Init, f.Key.Lead), Grid: grid, Values: values}}}
	if f.percent {
		panel.Unit = "1"
	}
	m, err := panel.Image(0)
	if err != nil {
		return &Picture{err: err}
	}
	png, err := encodePNG(m)
	return &Picture{Title: fmt.Sprintf("%s, %s", panel.Title, panel.Maps[0].Title), PNG: png, err: err}
}
