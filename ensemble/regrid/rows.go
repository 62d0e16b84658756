package regrid

import (
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// rows is a grid as a list of rows, each of one latitude with ascending longitudes.
type rows struct {
	lat []float64   // [row] north to south, degrees
	lon [][]float64 // [row] west to east, degrees
	// first is the index of the first point of each row.
	first []int
	// circle reports that every row goes around the globe.
	circle bool
}

// gridRows returns the rows of regular and reduced grids. ok is false for all other
// grids.
func gridRows(g *ensemble.Grid) (r rows, ok bool) {
	switch g.Kind {
	case ensemble.RegularLatLon, ensemble.RegularGaussian:
		r.lat, r.circle = g.Lat, g.Periodic()
		for j := range g.NY {
			r.lon, r.first = append(r.lon, g.Lon), append(r.first, j*g.NX)
		}
	case ensemble.ReducedLatLon, ensemble.ReducedGaussian:
		at := 0
		most := slices.Max(g.Rows)
		for _, n := range g.Rows {
			r.lat, r.lon, r.first = append(r.lat, g.Lat[at]), append(r.lon, g.Lon[at:at+n]), append(r.first, at)
			if n == most && n > 1 {
				step := (g.Lon[at+n-1] - g.Lon[at]) / float64(n-1)
				r.circle = math.Abs(step*float64(n)-360) < step/2
			}
			at += n
		}
	default:
		return r, false
	}
	return r, true
}

// poleReach is the maximum distance of the last row of a global grid from the pole,
// in units of the row spacing. Gaussian grids have at most 0.77, grids without a
// row at the pole 1.
const poleReach = 1.25

// reachesPole reports whether a grid covers the North Pole (north) or the South
// Pole.
func (r rows) reachesPole(north bool) bool {
	n := len(r.lat)
	if n < 2 || !r.circle {
		return false
	}
	if north {
		return 90-r.lat[0] < poleReach*(r.lat[0]-r.lat[1])
	}
	return 90+r.lat[n-1] < poleReach*(r.lat[n-2]-r.lat[n-1])
}

// bracket returns the points of a row on both sides of a longitude, and the weight
// of the second one. ok is false outside of the row.
func (r rows) bracket(row int, lon float64) (a, b int, share float64, ok bool) {
	x := r.lon[row]
	n := len(x)
	lon = x[0] + math.Mod(math.Mod(lon-x[0], 360)+360, 360)
	k, exact := slices.BinarySearch(x, lon)
	switch {
	case exact:
		return k, k, 0, true
	case k < n:
		return k - 1, k, snap((lon - x[k-1]) / (x[k] - x[k-1])), true
	case r.circle:
		return n - 1, 0, snap((lon - x[n-1]) / (x[0] + 360 - x[n-1])), true
	case lon-x[n-1] < edgeTolerance:
		return n - 1, n - 1, 0, true
	case x[0]+360-lon < edgeTolerance:
		return 0, 0, 0, true
	}
	return 0, 0, 0, false
}

// snap returns 0 or 1 for a weight that differs from it only by rounding. A target
// at a source point then does not depend on neighbours, which may be missing.
func snap(share float64) float64 {
	const rounding = 1e-9
	if share < rounding {
		return 0
	}
	if share > 1-rounding {
		return 1
	}
	return share
}
