package report

import (
	"math"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// inverse maps longitude and latitude to the x and y of a projected grid, using only the
// longitudes and latitudes of its points. So every projection works, known or not.
//
// Method: a descent over neighbouring points to the nearest one, then one Newton step in the
// tangent plane spanned by its neighbours.
type inverse struct {
	grid *ensemble.Grid
	// Axes of the projection.
	x, y []float64
	// [point] on the unit sphere.
	on [][3]float64
	// A subset of the points, where the search begins.
	coarse []int
	// Largest chord between neighbouring points.
	reach float64
}

// coarsePoints is about the number of points that are compared before the descent.
const coarsePoints = 1000

// newInverse prepares the search. x and y are the axes of the projection.
//
// Cost: one pass over the points; memory for three numbers per point.
func newInverse(g *ensemble.Grid, x, y []float64) *inverse {
	v := &inverse{grid: g, x: x, y: y, on: make([][3]float64, g.Size())}
	for k := range v.on {
		v.on[k] = sphere(g.Lon[k], g.Lat[k])
	}
	// Every every-th row and column belongs to the coarse points; reach is measured there.
	every := max(1, int(math.Sqrt(float64(g.Size())/coarsePoints)))
	for j := 0; j < g.NY; j += every {
		for i := 0; i < g.NX; i += every {
			v.coarse = append(v.coarse, j*g.NX+i)
			for _, k := range []int{j*g.NX + min(i+1, g.NX-1), min(j+1, g.NY-1)*g.NX + i} {
				v.reach = math.Max(v.reach, math.Sqrt(chord2(v.on[j*g.NX+i], v.on[k])))
			}
		}
	}
	return v
}

// sphere is the point of the unit sphere at a longitude and latitude in degrees.
func sphere(lon, lat float64) [3]float64 {
	a, b := lon*math.Pi/180, lat*math.Pi/180
	return [3]float64{math.Cos(b) * math.Cos(a), math.Cos(b) * math.Sin(a), math.Sin(b)}
}

// chord2 is the squared chord between two points of the unit sphere.
func chord2(p, q [3]float64) float64 {
	a, b, c := p[0]-q[0], p[1]-q[1], p[2]-q[2]
	return a*a + b*b + c*c
}

// find returns the point in the plane. It returns false if the nearest grid point is further
// than 1.5 grid distances away, so the location is not on the grid.
//
// With o the nearest point, u and w its neighbours along a row and a column, and p the
// location, all on the unit sphere, s and t minimise |p − o − s(u−o) − t(w−o)|²; x and y are
// interpolated linearly.
//
// Cost: about coarsePoints distances and a few descent steps.
func (v *inverse) find(lon, lat float64) (point, bool) {
	p, g := sphere(lon, lat), v.grid
	best, d := 0, math.Inf(1)
	for _, k := range v.coarse {
		if e := chord2(p, v.on[k]); e < d {
			best, d = k, e
		}
	}
	// Descent: move to the nearest of the four neighbours until none is nearer.
	for moved := true; moved; {
		moved = false
		j, i := best/g.NX, best%g.NX
		for _, n := range [][2]int{{j - 1, i}, {j + 1, i}, {j, i - 1}, {j, i + 1}} {
			if n[0] < 0 || n[0] >= g.NY || n[1] < 0 || n[1] >= g.NX {
				continue
			}
			if e := chord2(p, v.on[n[0]*g.NX+n[1]]); e < d {
				best, d, moved = n[0]*g.NX+n[1], e, true
			}
		}
	}
	if math.Sqrt(d) > 1.5*v.reach {
		return point{}, false
	}
	// Least squares for p ≈ o + s·du + t·dw with the differences to the next column (du) and
	// row (dw).
	j, i := min(best/g.NX, g.NY-2), min(best%g.NX, g.NX-2)
	o, u, w := v.on[j*g.NX+i], v.on[j*g.NX+i+1], v.on[(j+1)*g.NX+i]
	// The normal equations of s and t.
	var uu, uw, ww, up, wp float64
	for c := range 3 {
		du, dw, dp := u[c]-o[c], w[c]-o[c], p[c]-o[c]
		uu, uw, ww, up, wp = uu+du*du, uw+du*dw, ww+dw*dw, up+du*dp, wp+dw*dp
	}
	det := uu*ww - uw*uw
	if det == 0 {
		return point{}, false
	}
	s, t := (up*ww-wp*uw)/det, (wp*uu-up*uw)/det
	return point{v.x[i] + s*(v.x[i+1]-v.x[i]), v.y[j] + t*(v.y[j+1]-v.y[j])}, true
}
