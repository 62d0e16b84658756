package edr

import (
	"math"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// gridOf is a regular grid.
func gridOf(lats, lons []float64) *ensemble.Grid {
	return &ensemble.Grid{Kind: ensemble.RegularLatLon, NY: len(lats), NX: len(lons), Lat: lats, Lon: lons}
}

// TestNearest: a place is answered by the nearest point, up to half a step outside of the grid, in each range of
// longitudes.
func TestNearest(t *testing.T) {
	greenwich := gridOf([]float64{50, 40}, []float64{0, 2, 4, 356, 358}) // columns from 0 to 360: 356 is the first from the west
	gaussian := gridOf([]float64{60, 51, 40}, []float64{10, 20, 30})
	one := gridOf([]float64{47}, []float64{8})
	for _, c := range []struct {
		name        string
		g           *ensemble.Grid
		lon, lat    float64
		row, column int // -1: outside
		x           float64
	}{
		{"west of Greenwich", greenwich, -2.9, 48, 0, 4, -2},
		{"the same as 0 to 360", greenwich, 357.1, 48, 0, 4, 358},
		{"the western edge", greenwich, -5, 48, 0, 3, -4},
		{"beyond it", greenwich, -5.1, 48, -1, -1, 0},
		{"the eastern edge", greenwich, 5, 44, 1, 2, 4},
		{"beyond it", greenwich, 5.1, 44, -1, -1, 0},
		{"the other side", greenwich, 180, 44, -1, -1, 0},
		{"the northern edge", greenwich, 0, 55, 0, 0, 0},
		{"beyond it", greenwich, 0, 55.1, -1, -1, 0},
		{"the southern edge", greenwich, 0, 35, 1, 0, 0},
		{"beyond it", greenwich, 0, 34.9, -1, -1, 0},
		{"the middle of a longer step", gaussian, 14.9, 45.6, 1, 0, 10},
		{"below it", gaussian, 15.1, 45.4, 2, 1, 20},
		{"the only point", one, 8.4, 46.6, 0, 0, 8},
		{"beyond it", one, 8.6, 46.6, -1, -1, 0},
	} {
		r, err := nearest(c.g, point{c.lon, c.lat})
		if c.row < 0 {
			if err == nil || !strings.Contains(err.Error(), "outside of the grid, which spans") {
				t.Errorf("%s, %g %g: %+v, %v", c.name, c.lon, c.lat, r.window, err)
			}
			continue
		}
		if err != nil || r.window != (ensemble.Window{Rows: [2]int{c.row, c.row + 1}, Cols: [2]int{c.column, c.column + 1}}) || math.Abs(r.lon[0]-c.x) > 1e-9 {
			t.Errorf("%s, %g %g: %+v at %v, want row %d, column %d at %g: %v", c.name, c.lon, c.lat, r.window, r.lon, c.row, c.column, c.x, err)
		}
	}
}

// TestNearestProjected: on a projected grid distances are those on the globe, and its outside is found at each edge.
func TestNearestProjected(t *testing.T) {
	g := &ensemble.Grid{Kind: ensemble.Projected, NY: 3, NX: 4}
	for j := range g.NY {
		for i := range g.NX {
			g.Lat, g.Lon = append(g.Lat, 70-float64(j)+0.1*float64(i)), append(g.Lon, 10+3*float64(i)+0.2*float64(j))
		}
	}
	for _, c := range []struct {
		lon, lat    float64
		row, column int
	}{{13.3, 69.2, 1, 1}, {19.6, 68.2, 2, 3}, {10, 70, 0, 0}, {10, 72, -1, 0}, {23, 69, -1, 0}, {-170, 70, -1, 0}} {
		r, err := nearest(g, point{c.lon, c.lat})
		if inside := c.row >= 0; inside != (err == nil) || inside && r.window.Rows[0] != c.row || inside && r.window.Cols[0] != c.column {
			t.Errorf("%g %g: %+v, %v", c.lon, c.lat, r.window, err)
		}
	}
	if _, err := crop(g, ensemble.Area{North: 80, South: 60, West: 0, East: 30}, nil); err == nil || !strings.Contains(err.Error(), "projected") || !strings.Contains(err.Error(), "position") {
		t.Errorf("an area of a projected grid: %v", err)
	}
}

// TestBox: the box around a grid is the shortest, with west from −180 on.
func TestBox(t *testing.T) {
	around := make([]float64, 36)
	for i := range around {
		around[i] = 10 * float64(i)
	}
	for _, c := range []struct {
		lons []float64
		want [4]float64
	}{
		{around, [4]float64{-180, 40, 180, 50}},
		{[]float64{0, 2, 4, 356, 358}, [4]float64{-4, 40, 4, 50}},
		{[]float64{170, 180, 190}, [4]float64{170, 40, -170, 50}},
		{[]float64{10, 20}, [4]float64{10, 40, 20, 50}},
		{[]float64{200}, [4]float64{-160, 40, -160, 50}},
	} {
		if got := bbox(gridOf([]float64{50, 40}, c.lons)); got != c.want {
			t.Errorf("%v: %v, want %v", c.lons, got, c.want)
		}
	}
}
