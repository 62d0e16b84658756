package report

import (
	"math"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// Locate inverts Position on global and regional grids, across Greenwich and the date line, and finds the nearest point on
// projections; beside the map there is no place.
func TestLocate(t *testing.T) {
	axis := func(n int, from, step float64) (out []float64) {
		for i := range n {
			out = append(out, from+step*float64(i))
		}
		return out
	}
	projected := &ensemble.Grid{Kind: ensemble.Projected, NX: 5, NY: 4, X: axis(5, 0, 1000), Y: axis(4, 3000, -1000)}
	for j := range 4 {
		for i := range 5 {
			projected.Lat, projected.Lon = append(projected.Lat, 50-float64(j)/100+float64(i)/1000), append(projected.Lon, 8+float64(i)/70)
		}
	}
	for _, c := range []struct {
		name     string
		grid     *ensemble.Grid
		at       Place
		distance float64 // degrees
	}{
		{"global", &ensemble.Grid{Kind: ensemble.RegularLatLon, NX: 36, NY: 18, Lat: axis(18, 85, -10), Lon: axis(36, 0, 10)}, Place{-75.5, 42.25}, 1e-9},
		{"Greenwich", &ensemble.Grid{Kind: ensemble.RegularLatLon, NX: 6, NY: 5, Lat: axis(5, 60, -2), Lon: []float64{355, 357, 359, 1, 3, 5}}, Place{-0.5, 55}, 1e-9},
		{"date line", &ensemble.Grid{Kind: ensemble.RegularLatLon, NX: 6, NY: 5, Lat: axis(5, -10, -2), Lon: axis(6, 174, 2)}, Place{-178, -13}, 1e-9},
		{"projection", projected, Place{8.03, 49.99}, 0.02},
	} {
		for _, maps := range []int{1, 2} {
			p := Panel{Maps: make([]Map, maps)}
			for j := range p.Maps {
				p.Maps[j].Grid = c.grid
			}
			x, y, ok := p.Position(maps-1, c.at)
			if !ok || x < 0.05 || x > 0.99 || y < 0 {
				t.Errorf("%s: position %g, %g, %t", c.name, x, y, ok)
			}
			got, ok := p.Locate(maps-1, x, y)
			if !ok || math.Abs(got.Lon-c.at.Lon) > c.distance || math.Abs(got.Lat-c.at.Lat) > c.distance {
				t.Errorf("%s: %v at the position of %v, %t", c.name, got, c.at, ok)
			}
			for _, beside := range [][2]float64{{0.01, y}, {x, 0}, {0.999, y}, {x, 3}, {math.NaN(), y}} {
				if got, ok := p.Locate(maps-1, beside[0], beside[1]); ok {
					t.Errorf("%s: %v at %v, beside the map", c.name, got, beside)
				}
			}
		}
	}
}
