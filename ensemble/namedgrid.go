package ensemble

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// maxGridPoints bounds the number of points of a named grid. A global grid of 0.05° has 26 million.
const maxGridPoints = 1 << 28

// NamedGrid returns the grid of a name:
//
//	1.5deg                regular latitude-longitude grid with rows at the poles
//	0.5deg@72/-20/30/45   the same in an area north/west/south/east, corners included
//	360x180               columns × rows, with rows in the middle of equal parts from pole to pole
//	F48                   regular Gaussian grid with 48 rows between pole and equator
//
// Global grids have a column at 0° E.
//
// Errors: another form; a distance that does not divide the area; too many points.
func NamedGrid(name string) (*Grid, error) {
	kind, area, cut := strings.Cut(name, "@")
	g := &Grid{}
	var nx, ny int
	if n, err := fmt.Sscanf(kind+"|", "%dx%d|", &nx, &ny); n == 2 && err == nil {
		switch {
		case cut:
			return nil, fmt.Errorf("grid %q: only grids such as 1deg can have an area", name)
		case nx < 2 || ny < 2 || nx > maxGridPoints/ny:
			return nil, fmt.Errorf("grid %q: want at least 2 columns and rows, and at most %d points", name, maxGridPoints)
		}
		g.Lat, g.Lon = steps(90-90/float64(ny), -180/float64(ny), ny), steps(0, 360/float64(nx), nx)
		g.NX, g.NY = nx, ny
		return g, nil
	}
	if n, err := strconv.Atoi(strings.TrimPrefix(kind, "F")); err == nil && strings.HasPrefix(kind, "F") {
		if cut {
			return nil, fmt.Errorf("grid %q: only grids such as 1deg can have an area", name)
		}
		if n < 1 || n > 1<<12 {
			return nil, fmt.Errorf("grid %q: want 1 to %d rows between pole and equator", name, 1<<12)
		}
		g.Kind, g.Lat = RegularGaussian, GaussianLatitudes(2*n)
		g.Lon = steps(0, 360/float64(4*n), 4*n)
		g.NX, g.NY = len(g.Lon), len(g.Lat)
		return g, nil
	}
	step, err := strconv.ParseFloat(strings.TrimSuffix(kind, "deg"), 64)
	if err != nil || !strings.HasSuffix(kind, "deg") || !(step > 0) || step > 90 {
		return nil, fmt.Errorf("%q is not a grid: write 1.5deg, 360x180, F48, or 0.5deg@north/west/south/east", name)
	}
	north, west, south, east := 90.0, 0.0, -90.0, 360-step
	if cut {
		if north, west, south, east, err = parseCorners(area); err != nil {
			return nil, fmt.Errorf("grid %q: %w", name, err)
		}
	} else if _, ok := wholeSteps(360, step); !ok {
		return nil, fmt.Errorf("grid %q: 360 degrees are not a multiple of %g degrees", name, step)
	}
	rows, ok := wholeSteps(north-south, step)
	columns, too := wholeSteps(east-west, step)
	if !ok || !too {
		return nil, fmt.Errorf("grid %q: %g to %g N and %g to %g E are not multiples of %g degrees", name, south, north, west, east, step)
	}
	if (float64(rows)+1)*(float64(columns)+1) > maxGridPoints {
		return nil, fmt.Errorf("grid %q has more than %d points", name, maxGridPoints)
	}
	// Columns begin in 0 to 360° east.
	west -= 360 * math.Floor(west/360)
	g.Kind, g.Lat, g.Lon = RegularLatLon, steps(north, -step, rows+1), steps(west, step, columns+1)
	g.NX, g.NY, g.Source.FirstLon = columns+1, rows+1, west
	return g, nil
}

// parseCorners reads north/west/south/east in degrees; east is increased by 360 if it is less than west.
func parseCorners(area string) (north, west, south, east float64, err error) {
	words := strings.Split(area, "/")
	var x [4]float64
	for i := range x {
		if len(words) == len(x) {
			x[i], err = strconv.ParseFloat(words[i], 64)
		}
		if len(words) != len(x) || err != nil || math.IsNaN(x[i]) || math.Abs(x[i]) > 720 {
			return 0, 0, 0, 0, fmt.Errorf("area %q is not north/west/south/east in degrees", area)
		}
	}
	for x[3] < x[1] {
		x[3] += 360
	}
	if x[0] > 90 || x[2] < -90 || x[0] <= x[2] || x[3]-x[1] >= 360 {
		return 0, 0, 0, 0, fmt.Errorf("area %q: want -90 <= south < north <= 90 and less than 360 degrees of longitude", area)
	}
	return x[0], x[1], x[2], x[3], nil
}

// wholeSteps is the number of steps in a distance; ok is false if they do not divide it.
func wholeSteps(distance, step float64) (n int, ok bool) {
	x := math.Round(distance / step)
	return int(x), math.Abs(x*step-distance) < 1e-6*step
}

// steps returns n numbers from first in steps of step.
func steps(first, step float64, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		// 0.1° has no exact binary form: rounding hides the accumulated error.
		out[i] = math.Round((first+float64(i)*step)*1e9) / 1e9
	}
	return out
}
