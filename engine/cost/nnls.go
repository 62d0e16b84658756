package cost

import (
	"errors"
	"math"

	"gonum.org/v1/gonum/mat"
)

// errNoSolution: the iteration did not end, which rounding could cause in a nearly singular problem.
var errNoSolution = errors.New("cost: non-negative least squares did not converge")

// nonNegative returns the x ≥ 0 that minimises |A·x − b|₂, by the active-set method. Columns of A may depend on each other; then one of
// the minimisers is returned.
//
// At the minimum, with the gradient g = Aᵀ(A·x − b):
//
//	g ≥ 0,  g·x = 0
//
// Shape: A [rows columns] as rows, b [rows]; x [columns].
// Errors: errNoSolution.
// Source: Lawson and Hanson 1974, Solving Least Squares Problems, algorithm 23.10.
func nonNegative(a [][]float64, b []float64) ([]float64, error) {
	n := len(a[0])
	p := newNormal(a, b)
	x := make([]float64, n)
	free := make([]bool, n) // coefficients that are not held at zero
	for range mostSteps * n {
		enter := p.steepest(x, free)
		if enter < 0 {
			return p.unscaled(x), nil
		}
		free[enter] = true
		z := p.solve(free)
		if z == nil || z[enter] <= 0 { // the column depends on the free ones: it lowers nothing
			free[enter], p.dependent[enter] = false, true
			continue
		}
		for !p.towards(x, z, free) {
			z = p.solve(free)
		}
		clear(p.dependent) // on other columns
	}
	return nil, errNoSolution
}

// mostSteps is the number of steps for each coefficient after which the iteration is given up. Each step lowers the sum of squares or
// excludes a column, so that few more steps than coefficients are usual.
const mostSteps = 30

// normal holds the normal equations of a problem whose columns are scaled to length 1.
type normal struct {
	gram      [][]float64 // AᵀA
	right     []float64   // Aᵀb
	size      []float64   // |A|ᵀ|b|, by which rounding of the gradient is measured
	scale     []float64   // length of each column of A; 0 for a column of zeros
	dependent []bool      // columns that were found to depend on free ones
}

// newNormal scales the columns and forms the products.
func newNormal(a [][]float64, b []float64) *normal {
	n := len(a[0])
	p := &normal{gram: make([][]float64, n), right: make([]float64, n), size: make([]float64, n), scale: make([]float64, n), dependent: make([]bool, n)}
	for j := range n {
		for _, row := range a {
			p.scale[j] += row[j] * row[j]
		}
		p.scale[j] = math.Sqrt(p.scale[j])
		p.gram[j] = make([]float64, n)
	}
	for i, row := range a {
		for j := range n {
			if p.scale[j] == 0 {
				continue
			}
			p.right[j] += row[j] / p.scale[j] * b[i]
			p.size[j] += math.Abs(row[j] / p.scale[j] * b[i])
			for k := range n {
				if p.scale[k] > 0 {
					p.gram[j][k] += row[j] / p.scale[j] * row[k] / p.scale[k]
				}
			}
		}
	}
	return p
}

// tolerance of the gradient relative to normal.size: what rounding leaves of a gradient that is zero.
const tolerance = 1e-11

// steepest returns the coefficient at zero whose growth lowers the sum of squares fastest; −1 if none does.
func (p *normal) steepest(x []float64, free []bool) int {
	best, most := -1, 0.0
	for j := range x {
		if free[j] || p.dependent[j] || p.scale[j] == 0 {
			continue
		}
		down := p.right[j]
		for k, v := range x {
			down -= p.gram[j][k] * v
		}
		if down > max(most, tolerance*p.size[j]) {
			best, most = j, down
		}
	}
	return best
}

// solve returns the least squares solution of the free coefficients, the others zero; nil if their columns depend on each other.
func (p *normal) solve(free []bool) []float64 {
	var at []int
	for j, f := range free {
		if f {
			at = append(at, j)
		}
	}
	m := mat.NewSymDense(len(at), nil)
	r := mat.NewVecDense(len(at), nil)
	for i, j := range at {
		r.SetVec(i, p.right[j])
		for k := i; k < len(at); k++ {
			m.SetSym(i, k, p.gram[j][at[k]])
		}
	}
	const mostCondition = 1e10 // beyond it the columns count as dependent
	var c mat.Cholesky
	if !c.Factorize(m) || c.Cond() > mostCondition {
		return nil
	}
	var s mat.VecDense
	if err := c.SolveVecTo(&s, r); err != nil {
		return nil
	}
	z := make([]float64, len(free))
	for i, j := range at {
		z[j] = s.AtVec(i)
	}
	return z
}

// towards moves x to z, or as far as all free coefficients stay non-negative; those that become zero are held there. It reports whether
// x is z.
func (p *normal) towards(x, z []float64, free []bool) bool {
	step, first := 1.0, -1
	for j, f := range free {
		if f && z[j] <= 0 {
			if t := x[j] / (x[j] - z[j]); t < step || first < 0 {
				step, first = t, j
			}
		}
	}
	for j, f := range free {
		if f {
			x[j] += step * (z[j] - x[j])
		}
	}
	if first < 0 {
		copy(x, z)
		return true
	}
	for j, f := range free {
		if f && (j == first || x[j] <= 0) {
			x[j], free[j] = 0, false
		}
	}
	return false
}

// unscaled returns the coefficients for the columns as they were given.
func (p *normal) unscaled(x []float64) []float64 {
	for j, s := range p.scale {
		if s > 0 {
			x[j] /= s
		}
	}
	return x
}
