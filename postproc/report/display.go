package report

import "github.com/ensemble-weather/ensemble/ensemble"

// Display is the unit in which forecasters read a quantity: Factor · value + Offset.
type Display struct {
	// Unit of values, Change of differences and spreads.
	Unit, Change   string
	Factor, Offset float64
	// Intervals are those of isolines, ascending; nil: no isolines.
	Intervals []float64
	// Palette may be nil, as in Panel.
	Palette Colours
}

// DisplayOf returns the display of a variable: geopotential in dam and pressure in hPa with isolines,
// temperature in °C with isotherms, precipitation in mm, others in their SI unit.
func DisplayOf(v ensemble.Variable) Display {
	dekametres := []float64{1, 2, 4, 8, 16, 32}
	switch {
	case v.Name == "gh":
		return Display{"dam", "dam", 0.1, 0, dekametres, Weather}
	case v.Name == "z":
		return Display{"dam", "dam", 1 / 98.0665, 0, dekametres, Weather}
	case v.Unit == "Pa":
		return Display{"hPa", "hPa", 0.01, 0, []float64{1, 2.5, 5, 10, 20}, Weather}
	case v.Unit == "K":
		return Display{degreesC, "K", 1, -273.15, []float64{1, 2, 5, 10}, Weather}
	case v.Unit == "kg m-2":
		return Display{"mm", "mm", 1, 0, nil, Probabilities}
	}
	return Display{v.Unit, v.Unit, 1, 0, nil, nil}
}

// degreesC is the unit of maps whose isoline of 0 is the freezing line.
const degreesC = "degC"

// Values converts a field; offset 0 for differences and spreads.
func (d Display) Values(field []float32, offset float64) []float32 {
	out := make([]float32, len(field))
	for i, v := range field {
		out[i] = float32(d.Factor*float64(v) + offset)
	}
	return out
}
