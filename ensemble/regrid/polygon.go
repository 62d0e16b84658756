package regrid

import (
	"math"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// polygon is a cell in the plane of longitude in degrees and sine of latitude.
type polygon [][2]float64

// Coordinates of a corner.
const (
	longitude = 0
	sine      = 1
)

// polygonCells returns the cells of a projected grid. A corner is the mean of the
// four points around it, on the sphere. Points outside of the grid are extrapolated
// linearly.
func polygonCells(g *ensemble.Grid) []polygon {
	at := unitVectors(g)
	point := func(j, i int) vector { return at[j*g.NX+i] }
	// Linear extrapolation: the last spacing continues.
	along := func(j, i int) vector {
		switch {
		case i < 0:
			return point(j, 0).times(2).minus(point(j, 1))
		case i == g.NX:
			return point(j, g.NX-1).times(2).minus(point(j, g.NX-2))
		}
		return point(j, i)
	}
	beyond := func(j, i int) vector {
		switch {
		case j < 0:
			return along(0, i).times(2).minus(along(1, i))
		case j == g.NY:
			return along(g.NY-1, i).times(2).minus(along(g.NY-2, i))
		}
		return along(j, i)
	}
	corner := make([]vector, (g.NY+1)*(g.NX+1))
	for j := range g.NY + 1 {
		for i := range g.NX + 1 {
			sum := beyond(j-1, i-1).plus(beyond(j-1, i)).plus(beyond(j, i-1)).plus(beyond(j, i))
			corner[j*(g.NX+1)+i] = sum.unit()
		}
	}
	out := make([]polygon, 0, g.Size())
	for j := range g.NY {
		for i := range g.NX {
			k := j*(g.NX+1) + i
			out = append(out, unroll(corner[k], corner[k+1], corner[k+g.NX+2], corner[k+g.NX+1]))
		}
	}
	return out
}

// unroll returns a cell in the plane, with longitudes that do not jump. A corner at
// a pole becomes a side. A cell that contains a pole goes once around the globe and
// returns along the pole.
func unroll(corners ...vector) polygon {
	const pole = 1 - 1e-14
	var lon, sin []float64
	onPole := make([]bool, len(corners))
	for c, v := range corners {
		lon, sin = append(lon, math.Atan2(v[1], v[0])/rad), append(sin, v[2])
		onPole[c] = math.Abs(v[2]) > pole
	}
	// A corner at a pole has no longitude. It takes that of the previous corner and
	// then that of the next.
	n := len(corners)
	first := 0
	for onPole[first] && first < n-1 {
		first++
	}
	var p polygon
	at := lon[first]
	for c := range n {
		k := (first + c) % n
		if onPole[k] {
			p = append(p, [2]float64{at, math.Copysign(1, sin[k])})
			next := (k + 1) % n
			at += math.Remainder(lon[next]-at, 360)
			p = append(p, [2]float64{at, math.Copysign(1, sin[k])})
			continue
		}
		at += math.Remainder(lon[k]-at, 360)
		p = append(p, [2]float64{at, sin[k]})
	}
	if end := at + math.Remainder(lon[first]-at, 360); math.Abs(end-lon[first]) > 180 {
		side := math.Copysign(1, sin[first])
		p = append(p, [2]float64{end, sin[first]}, [2]float64{end, side}, [2]float64{lon[first], side})
	}
	return p
}

// area returns the area by the shoelace formula, negative if the corners run
// clockwise:
//
//	A = ½ Σ_k (x_k y_{k+1} − x_{k+1} y_k)
func (p polygon) area() float64 {
	sum := 0.0
	for k := range p {
		// Coordinates are relative to the first corner, so that small cells keep
		// their precision.
		a, b := p[k], p[(k+1)%len(p)]
		sum += (a[0]-p[0][0])*(b[1]-p[0][1]) - (b[0]-p[0][0])*(a[1]-p[0][1])
	}
	return sum / 2
}

// bounds returns the minimum and maximum of one coordinate.
func (p polygon) bounds(axis int) (lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, c := range p {
		lo, hi = min(lo, c[axis]), max(hi, c[axis])
	}
	return lo, hi
}

// clip returns the part of the polygon in a half-plane: coordinate ≥ value for side
// 1, ≤ value for side -1. Parts of a polygon that is not convex may remain
// connected by sides without area.
//
// Source: Sutherland and Hodgman 1974, Commun. ACM 17, 32.
func (p polygon) clip(axis int, value, side float64) polygon {
	var out polygon
	for k := range p {
		a, b := p[k], p[(k+1)%len(p)]
		da, db := side*(a[axis]-value), side*(b[axis]-value)
		if da >= 0 {
			out = append(out, a)
		}
		if da > 0 && db < 0 || da < 0 && db > 0 {
			t := da / (da - db)
			c := [2]float64{a[0] + t*(b[0]-a[0]), a[1] + t*(b[1]-a[1])}
			c[axis] = value
			out = append(out, c)
		}
	}
	return out
}
