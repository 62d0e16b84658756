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
		{"mercator ellipsoid, p. 267", clarke, map[string]any{"grid_mapping_name": "mercator", "longitude_of_projection_origin": -180.0}, 35, -75, 11688673.7, 4139145.6},
		{"mercator sphere, p. 266", map[string]any{"earth_radius": 1.0}, map[string]any{"grid_mapping_name": "mercator", "longitude_of_projection_origin": -180.0}, 35, -75, 1.8325957, 0.6528366},
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
	if _, err := FromCF(map[string]any{"grid_mapping_name": "geostationary"}); err == nil {
		t.Error("an unsupported mapping was accepted")
	}
}

// A rotated pole at the true pole changes only the meridian. The pole of the grid
// has latitude 90 there, and the true pole has the longitude of the mapping.
func TestRotatedPole(t *testing.T) {
	made := func(lat, lon, north float64) Projection {
		p, err := FromCF(map[string]any{"grid_mapping_name": "rotated_latitude_longitude", "grid_north_pole_latitude": lat, "grid_north_pole_longitude": lon, "north_pole_grid_longitude": north})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, c := range []struct {
		name               string
		p                  Projection
		lat, lon, wx, wy   float64
		anyMeridian, north bool
	}{
		{"no rotation", made(90, 180, 0), 47, 8, 8, 47, false, false},
		{"the grid's pole", made(39.25, -162, 0), 39.25, -162, 0, 90, true, false},
		{"opposite of the pole", made(39.25, -162, 0), 50.75, 18, 0, 0, false, false},
		{"the true pole", made(39.25, -162, 30), 90, 0, 30, 39.25, false, true},
	} {
		x, y := c.p.Forward(c.lat, c.lon)
		if math.Abs(y-c.wy) > 1e-9 || !c.anyMeridian && math.Abs(x-c.wx) > 1e-9 {
			t.Errorf("%s: %g %g, want %g %g", c.name, x, y, c.wx, c.wy)
		}
		lat, lon := c.p.Inverse(x, y)
		if math.Abs(lat-c.lat) > 1e-6 || !c.north && math.Abs(math.Remainder(lon-c.lon, 360)) > 1e-6 {
			t.Errorf("%s: back at %g N %g E", c.name, lat, lon)
		}
	}
}
