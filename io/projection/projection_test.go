package projection

import (
	"math"
	"testing"
)

// Snyder's worked examples, appendix A: inputs, and x, y in metres as printed.
func TestSnyderExamples(t *testing.T) {
	clarke := map[string]any{"semi_major_axis": 6378206.4, "semi_minor_axis": 6378206.4 * math.Sqrt(1-0.00676866)}
	international := map[string]any{"semi_major_axis": 6378388.0, "semi_minor_axis": 6378388.0 * math.Sqrt(1-0.00672267)}
	for _, c := range []struct {
		name     string
		base     map[string]any
		m        map[string]any
		lat, lon float64
		x, y     float64
	}{
		{"conformal ellipsoid, p. 296", clarke, map[string]any{"grid_mapping_name": "lambert_conformal_conic",
			"standard_parallel": []float64{33, 45}, "latitude_of_projection_origin": 23.0, "longitude_of_central_meridian": -96.0}, 35, -75, 1894410.9, 1564649.5},
		{"conformal sphere, p. 295", map[string]any{"earth_radius": 1.0}, map[string]any{"grid_mapping_name": "lambert_conformal_conic",
			"standard_parallel": []float64{33, 45}, "latitude_of_projection_origin": 23.0, "longitude_of_central_meridian": -96.0}, 35, -75, 0.2966785, 0.2462112},
		{"stereographic ellipsoid, p. 314", international, map[string]any{"grid_mapping_name": "polar_stereographic",
			"latitude_of_projection_origin": -90.0, "standard_parallel": -71.0, "straight_vertical_longitude_from_pole": -100.0}, -75, 150, -1540033.6, -560526.4},
		{"azimuthal ellipsoid, p. 333", clarke, map[string]any{"grid_mapping_name": "lambert_azimuthal_equal_area",
			"latitude_of_projection_origin": 40.0, "longitude_of_projection_origin": -100.0}, 30, -110, -965932.1, -1056814.9},
	} {
		t.Run(c.name, func(t *testing.T) {
			for k, v := range c.base {
				c.m[k] = v
			}
			p, err := FromCF(c.m)
			if err != nil {
				t.Fatal(err)
			}
			tol := 0.11 // half a unit of the last printed digit of rounded inputs
			if c.x < 10 && c.x > -10 {
				tol = 1e-7
			}
			x, y := p.Forward(c.lat, c.lon)
			if math.Abs(x-c.x) > tol || math.Abs(y-c.y) > tol {
				t.Errorf("forward gives %.7f %.7f, want %v %v", x, y, c.x, c.y)
			}
			lat, lon := p.Inverse(x, y)
			if math.Abs(lat-c.lat) > 1e-9 || math.Abs(math.Remainder(lon-c.lon, 360)) > 1e-9 {
				t.Errorf("inverse gives %v %v, want %v %v", lat, lon, c.lat, c.lon)
			}
		})
	}
}

func TestMissingParameter(t *testing.T) {
	if _, err := FromCF(map[string]any{"grid_mapping_name": "lambert_azimuthal_equal_area"}); err == nil {
		t.Error("a mapping without origin was accepted")
	}
	if _, err := FromCF(map[string]any{"grid_mapping_name": "rotated_latitude_longitude"}); err == nil {
		t.Error("an unsupported mapping was accepted")
	}
}
