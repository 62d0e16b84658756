package unit

import (
	"math"
	"testing"
)

func TestToSI(t *testing.T) {
	for _, c := range []struct {
		native string
		wanted string
		value  float64
		unit   string
		want   float64
	}{
		{"hPa", "", 850, "Pa", 85000},
		{"degC", "", 0, "K", 273.15},
		{"degF", "", 32, "K", 273.15},
		{"gpm", "", 5500, "m", 5500},
		{"g/kg", "", 5, "kg kg-1", 0.005},
		{"m**2 s**-2", "", 7, "m2 s-2", 7},
		{"m^2/s^2", "", 7, "m2 s-2", 7},
		{"m/s", "", 3, "m s-1", 3},
		{"m.s-1", "", 3, "m s-1", 3},
		{"m", "kg m-2", 0.012, "kg m-2", 12},
		{"kg m**-2", "kg m-2", 12, "kg m-2", 12},
		{"furlongs", "", 2, "furlongs", 2},
		{"(0 - 1)", "", 0.5, "1", 0.5},
		{"(0 - 1)", "1", 0.5, "1", 0.5},
		{"%", "1", 25, "1", 0.25},
		{"percent", "1", 25, "1", 0.25},
		{"%", "%", 25, "%", 25},
	} {
		got := ToSI(c.native, c.wanted)
		if v := got.Scale*c.value + got.Offset; got.SI != c.unit || math.Abs(v-c.want) > 1e-9*math.Abs(c.want) {
			t.Errorf("%v %s: got %v %s, want %v %s", c.value, c.native, v, got.SI, c.want, c.unit)
		}
	}
	if d := ToSI("degC", "K").Difference(); d.Offset != 0 || d.Scale != 1 {
		t.Errorf("a spread of 1 degC is 1 K: %+v", d)
	}
}
