package baseline

import (
	"math"
	"slices"
)

// simplexOptions configure nelderMead.
type simplexOptions struct {
	tolerance  float64 // of the size of the simplex and of its values
	iterations int
}

// nelderMead minimises f from x0 step by step as SciPy's minimize(method="Nelder-Mead",
// tol=…), so that fits that stop early stop at the same place.
//
// The initial simplex has x0 and, for each coordinate, a vertex with a step of 5 %
// (0.00025 where x0 is 0). With x̄ the centroid of all vertices but the worst, x_w the
// worst, and f_b, f_s, f_w the best, second worst and worst value, each iteration
// evaluates
//
//	reflection            2x̄ − x_w       accepted if f_b ≤ f < f_s
//	expansion             3x̄ − 2x_w      if the reflection is below f_b
//	outside contraction   1.5x̄ − 0.5x_w  if the reflection is between f_s and f_w
//	inside contraction    0.5x̄ + 0.5x_w  if the reflection is at least f_w
//	shrinking             all vertices half-way to the best, if a contraction fails
//
// It ends when all vertices and their values are within the tolerance of the best, and
// returns the best vertex and its value.
//
// gonum's NelderMead has another initial simplex and tests convergence by the value only;
// from an initial point far from the minimum it ends elsewhere.
//
// Source: Gao and Han 2012, doi:10.1007/s10589-010-9329-3 (standard coefficients); SciPy
// 1.17, scipy/optimize/_optimize.py.
func nelderMead(f func(x []float64) float64, x0 []float64, o simplexOptions) ([]float64, float64) {
	type vertex struct {
		x []float64
		f float64
	}
	n := len(x0)
	at := func(x []float64) vertex { return vertex{x, f(x)} }
	sim := []vertex{at(slices.Clone(x0))}
	for k := range n {
		x := slices.Clone(x0)
		if x[k] != 0 {
			x[k] *= 1.05
		} else {
			x[k] = 0.00025
		}
		sim = append(sim, at(x))
	}
	// order sorts the simplex, the best vertex first; ties keep their order, as in SciPy.
	order := func() {
		slices.SortStableFunc(sim, func(a, b vertex) int {
			switch {
			case a.f < b.f:
				return -1
			case a.f > b.f:
				return 1
			}
			return 0
		})
	}
	order()
	// point evaluates centre·(1+t) − worst·t.
	point := func(centre []float64, t float64) vertex {
		x := make([]float64, n)
		for k := range x {
			x[k] = (1+t)*centre[k] - t*sim[n].x[k]
		}
		return at(x)
	}
	for it := 1; it < o.iterations; it++ {
		var dx, df float64
		for _, v := range sim[1:] {
			for k := range v.x {
				dx = max(dx, math.Abs(v.x[k]-sim[0].x[k]))
			}
			df = max(df, math.Abs(v.f-sim[0].f))
		}
		if dx <= o.tolerance && df <= o.tolerance {
			break
		}
		centre := make([]float64, n) // centroid of all vertices but the worst
		for _, v := range sim[:n] {
			for k, c := range v.x {
				centre[k] += c
			}
		}
		for k := range centre {
			centre[k] /= float64(n)
		}
		shrink := false
		r := point(centre, 1) // reflection
		switch {
		case r.f < sim[0].f:
			if e := point(centre, 2); e.f < r.f { // expansion
				sim[n] = e
			} else {
				sim[n] = r
			}
		case r.f < sim[n-1].f:
			sim[n] = r
		case r.f < sim[n].f:
			if c := point(centre, 0.5); c.f <= r.f { // outside contraction
				sim[n] = c
			} else {
				shrink = true
			}
		default:
			if c := point(centre, -0.5); c.f < sim[n].f { // inside contraction
				sim[n] = c
			} else {
				shrink = true
			}
		}
		if shrink { // towards the best vertex
			for j := 1; j <= n; j++ {
				x := make([]float64, n)
				for k := range x {
					x[k] = sim[0].x[k] + 0.5*(sim[j].x[k]-sim[0].x[k])
				}
				sim[j] = at(x)
			}
		}
		order()
	}
	return sim[0].x, sim[0].f
}
