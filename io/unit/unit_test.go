package unit

import (
	"math"
	"testing"
)

func TestToSI(t *testing.T) {
	for _, c := range []struct {
		native string
		water  bool
		value  float64
		unit   string
		want   float64
	}{
		{"hPa", false, 850, "Pa", 85000},
		{"degC", false, 0, "K", 273.15},
		{"degF", false, 32, "K", 273.15},
		{"gpm", false, 5500, "m", 5500},
		{"g/kg", false, 5, "kg kg-1", 0.005},
		{"m**2 s**-2", false, 7, "m2 s-2", 7},
		{"m^2/s^2", false, 7, "m2 s-2", 7},
		{"m/s", false, 3, "m s-1", 3},
		{"m.s-1", false, 3, "m s-1", 3},
		{"m", true, 0.012, "kg m-2", 12},
		{"kg m**-2", true, 12, "kg m-2", 12},
		{"furlongs", false, 2, "furlongs", 2},
		{"(0 - 1)", false, 0.5, "1", 0.5},
	} {
		got := ToSI(c.native, c.water)
		if v := got.Scale*c.value + got.Offset; got.SI != c.unit || math.Abs(v-c.want) > 1e-9*math.Abs(c.want) {
			t.Errorf("%v %s: got %v %s, want %v %s", c.value, c.native, v, got.SI, c.want, c.unit)
		}
	}
	if d := ToSI("degC", false).Difference(); d.Offset != 0 || d.Scale != 1 {
		t.Errorf("a spread of 1 degC is 1 K: %+v", d)
	}
}
