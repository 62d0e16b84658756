package ensemble_test

import (
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
)

func TestDirections(t *testing.T) {
	for _, c := range []struct {
		name, unit, long string
		want             bool
	}{
		{"wdir", "degree", "", true}, {"10wdir", "Degree true", "10 metre wind direction", true}, {"mwd", "degrees", "Mean wave direction", true},
		{"wind_from_direction", "", "", true}, {"x", "degrees_true", "", true}, {"param0.2.0", "unknown", "", true}, {"dd", "rad", "", true}, {"param10.0.14", "", "", true},
		{"phase", "degree", "phase of the oscillation", true}, {"wd", "1", "direction from which the wind blows", true},
		{"2t", "K", "", false}, {"t", "degC", "temperature", false}, {"t", "degrees_C", "", false}, {"lat", "degrees_north", "", false}, {"lon", "degree_east", "", false},
		{"sza", "degree", "solar zenith angle", false}, {"slope", "rad", "slope of the terrain", false}, {"10u", "m s-1", "wind in east direction", false},
		{"sun_elevation", "degrees", "", false}, {"param0.2.1", "", "", false},
	} {
		e := ensemble.Entry{Key: ensemble.Key{Variable: c.name}, Kind: &ensemble.Kind{NativeUnit: c.unit, LongName: c.long}}
		if got := e.IsDirection(); got != c.want {
			t.Errorf("%s in %q (%s): direction %v, want %v", c.name, c.unit, c.long, got, c.want)
		}
	}
}
