package kfac

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/internal/balance"
)

// ErrNotFinite marks a factor with values that are NaN or infinite.
var ErrNotFinite = errors.New("a Kronecker factor is not finite")

// shareInversions returns the rank that inverts each factor, G and A of each layer in turn.
func (p *Preconditioner) shareInversions() []int {
	layers := make([]pass.LayerFactors, len(p.layers))
	for i := range p.layers {
		layers[i] = p.layers[i].LayerFactors
	}
	ranks := 1
	if p.o.Ranks != nil {
		ranks = p.o.Ranks.Size()
	}
	return balance.LongestFirst(inversionCosts(layers), ranks)
}

// inversionCosts are the costs of the inversions of G and A of each layer in turn: the cubes of their sides.
func inversionCosts(layers []pass.LayerFactors) []int64 {
	costs := make([]int64, 0, 2*len(layers))
	for _, l := range layers {
		r, c := int64(l.Rows), int64(l.Cols)
		costs = append(costs, r*r*r, c*c*c)
	}
	return costs
}

// invert inverts the damped averages of all layers. Each rank inverts its share, and all get all inverses.
// A failed inversion is sent as NaN, so that all ranks return the same error.
func (p *Preconditioner) invert() error {
	me := 0
	if p.o.Ranks != nil {
		me = p.o.Ranks.Rank()
	}
	for i := range p.layers {
		l := &p.layers[i]
		dampRows, dampCols, ok := p.dampings(l)
		if !ok {
			l.rowsInv, l.colsInv = nil, nil
			continue
		}
		if l.rowsInv == nil {
			l.rowsInv, l.colsInv = make([]float32, l.Rows*l.Rows), make([]float32, l.Cols*l.Cols)
		}
		if p.owners[2*i] == me {
			inverse(l.rowsInv, l.rows, l.Rows, dampRows)
		}
		if p.owners[2*i+1] == me {
			inverse(l.colsInv, l.cols, l.Cols, dampCols)
		}
	}
	for i := range p.layers {
		l := &p.layers[i]
		if l.rowsInv == nil {
			continue
		}
		for k, x := range [][]float32{l.rowsInv, l.colsInv} {
			if p.o.Ranks != nil {
				if err := p.o.Ranks.Broadcast(p.owners[2*i+k], x); err != nil {
					return fmt.Errorf("inverse factors of %s: %w", l.Param, err)
				}
			}
			if v := float64(x[0]); math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Errorf("layer %s: %w", l.Param, ErrNotFinite)
			}
		}
	}
	return nil
}

// inverse computes (X + damping·I)⁻¹ of a symmetric matrix with n rows, given by its lower triangle, in
// float64. It uses Cholesky's decomposition, and eigenvalues that are held at 0 or more where rounding left
// a matrix that is not positive definite. If X is not finite, the result is NaN.
//
// Shape: triangle [n(n+1)/2], to [n n].
// Cost: n³ products by Cholesky.
func inverse(to, triangle []float32, n int, damping float64) {
	x := mat.NewSymDense(n, nil)
	at := 0
	for i := range n {
		for j := range i + 1 {
			v := float64(triangle[at])
			if math.IsNaN(v) || math.IsInf(v, 0) {
				to[0] = float32(math.NaN())
				return
			}
			if i == j {
				v += damping
			}
			x.SetSym(i, j, v)
			at++
		}
	}
	var c mat.Cholesky
	inv := mat.NewSymDense(n, nil)
	if !c.Factorize(x) || c.InverseTo(inv) != nil {
		inverseByEigenvalues(inv, x, damping)
	}
	for i := range n {
		for j := range n {
			to[i*n+j] = float32(inv.At(i, j))
		}
	}
}

// inverseByEigenvalues inverts a symmetric matrix whose eigenvalues are at least floor without rounding.
// Without a floor, eigenvalues below the rounding of the largest are treated as that rounding.
func inverseByEigenvalues(inv, x *mat.SymDense, floor float64) {
	n := x.SymmetricDim()
	var e mat.EigenSym
	if !e.Factorize(x, true) {
		inv.SetSym(0, 0, math.NaN())
		return
	}
	values := e.Values(nil) // ascending
	floor = math.Max(floor, 0x1p-52*float64(n)*math.Abs(values[n-1]))
	var q mat.Dense
	e.VectorsTo(&q)
	scaled := mat.DenseCopyOf(&q)
	for j, v := range values {
		for i := range n {
			scaled.Set(i, j, q.At(i, j)/math.Max(v, floor))
		}
	}
	var product mat.Dense
	product.Mul(scaled, q.T())
	for i := range n {
		for j := range i + 1 {
			inv.SetSym(i, j, product.At(i, j))
		}
	}
}
