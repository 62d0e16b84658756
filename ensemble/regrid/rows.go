package regrid

import (
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// rows is a grid as rows of one latitude each, with ascending longitudes.
type rows struct {
	lat    []float64   // [row] north to south, degrees
	lon    [][]float64 // [row] west to east, degrees
	first  []int       // [row] index of its first point
	circle bool        // every row goes once around the globe
}

// gridRows gives the rows of regular and reduced grids; ok is false for all others.
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

// poleReach is how many distances of rows the last row of a grid around the globe may lie
// from the pole and still be the one next to it. Gaussian grids have 0.77 at most, grids
// that leave the pole's own row out 1.
const poleReach = 1.25

// reachesPole says whether a grid goes to the north pole, or to the south pole.
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

// bracket gives the points of a row on both sides of a longitude, and the share of the
// second. ok is false beyond the ends of a row.
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

// snap is a share, 0 or 1 where it is that but for rounding: a target on a source
// point must not depend on the points beside it, which may be missing.
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
