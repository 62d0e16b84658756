package regrid

import (
	"fmt"
	"math"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// searchRadius is the number of cells around the nearest point that are searched.
// In skewed cells the nearest point need not be a corner of the quadrilateral that
// contains the target.
const searchRadius = 2

// bilinearProjected computes bilinear weights from a grid with two-dimensional
// coordinates.
func (b *builder) bilinearProjected(from, to *ensemble.Grid) error {
	if from.NX < 2 || from.NY < 2 {
		return fmt.Errorf("bilinear interpolation from a grid of %d x %d points, want at least 2 x 2", from.NX, from.NY)
	}
	t := newKDTree(unitVectors(from))
	forEachPoint(to, func(lat, lon float64) {
		p := unitVector(lat, lon)
		k, chord := t.nearest(p)
		if reach := (searchRadius+1)*diagonal(t.at, from, k) + edgeTolerance*rad; chord <= reach*reach {
			b.addQuadrilateral(t.at, from, p, k)
		}
		b.nextTarget()
	})
	return nil
}

// addQuadrilateral adds the weights of the corners of the quadrilateral near point
// k that contains p. The corners are projected gnomonically to the tangent plane at
// p, where poles and date line are ordinary points.
//
// Source: Snyder 1987, section 22 (gnomonic projection).
func (b *builder) addQuadrilateral(at []vector, g *ensemble.Grid, p vector, k int) {
	east := vector{-p[1], p[0], 0}
	if math.Hypot(p[0], p[1]) < 1e-12 {
		east = vector{1, 0, 0}
	}
	east = east.unit()
	north := p.cross(east)
	plane := func(q vector) (x, y float64, ok bool) {
		d := q.dot(p)
		return q.dot(east) / d, q.dot(north) / d, d > 0.1
	}
	row, col := k/g.NX, k%g.NX
	best, s, t, off := -1, 0.0, 0.0, math.Inf(1)
	for j := max(0, row-searchRadius); j < min(g.NY-1, row+searchRadius); j++ {
		for i := max(0, col-searchRadius); i < min(g.NX-1, col+searchRadius); i++ {
			var x, y [4]float64
			seen := true
			for c, corner := range [4]int{j*g.NX + i, j*g.NX + i + 1, (j+1)*g.NX + i, (j+1)*g.NX + i + 1} {
				var ok bool
				x[c], y[c], ok = plane(at[corner])
				seen = seen && ok
			}
			if !seen {
				continue
			}
			u, v, ok := invertBilinear(x, y)
			// Distance outside of the cell, in units of its side. A target on a
			// common side belongs to the first quadrilateral.
			if o := max(-u, u-1, -v, v-1, 0); ok && o < off-1e-9 {
				best, s, t, off = j*g.NX+i, u, v, o
			}
		}
	}
	if best < 0 || off > 1e-6 {
		side := diagonal(at, g, k)
		if best < 0 || off*side > edgeTolerance*rad {
			return
		}
	}
	s, t = snap(min(1, max(0, s))), snap(min(1, max(0, t)))
	b.addWeight(best, (1-s)*(1-t))
	b.addWeight(best+1, s*(1-t))
	b.addWeight(best+g.NX, (1-s)*t)
	b.addWeight(best+g.NX+1, s*t)
}

// invertBilinear finds the position of the origin in a quadrilateral: u and v with
//
//	(1-u)(1-v) P₀ + u(1-v) P₁ + (1-u)v P₂ + uv P₃ = 0
//
// It uses Newton's method, which needs few steps in a cell that is nearly a
// parallelogram. ok is false if it diverges.
func invertBilinear(x, y [4]float64) (u, v float64, ok bool) {
	u, v = 0.5, 0.5
	for range 20 {
		fx := (1-u)*(1-v)*x[0] + u*(1-v)*x[1] + (1-u)*v*x[2] + u*v*x[3]
		fy := (1-u)*(1-v)*y[0] + u*(1-v)*y[1] + (1-u)*v*y[2] + u*v*y[3]
		xu, xv := (1-v)*(x[1]-x[0])+v*(x[3]-x[2]), (1-u)*(x[2]-x[0])+u*(x[3]-x[1])
		yu, yv := (1-v)*(y[1]-y[0])+v*(y[3]-y[2]), (1-u)*(y[2]-y[0])+u*(y[3]-y[1])
		det := xu*yv - xv*yu
		if det == 0 || math.IsNaN(det) {
			return 0, 0, false
		}
		du, dv := (fy*xv-fx*yv)/det, (fx*yu-fy*xu)/det
		u, v = u+du, v+dv
		if math.Abs(u) > 100 || math.Abs(v) > 100 {
			return 0, 0, false
		}
		if math.Abs(du)+math.Abs(dv) < 1e-13 {
			return u, v, true
		}
	}
	return u, v, true
}
