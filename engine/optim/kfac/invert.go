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

// invert inverts the damped averages of a version that are not inverted yet. Each rank inverts its share, and all get all
// inverses; with Options.Owners each those of its layers.
//
// Errors: on all ranks, if an inversion failed on one; communication errors.
func (p *Preconditioner) invert(of func(*layer) *version) error {
	for i := range p.layers {
		l := &p.layers[i]
		if _, ok := p.dampings(l, of(l)); !ok {
			of(l).inverse = [2][]float32{}
			continue
		}
		for k := range l.sides() {
			p.invertFactor(2*i+k, of)
		}
	}
	clear(p.inverted)
	return p.complete(of)
}

// invertFactor computes an inverse if this rank does and has not yet. All ranks allocate it.
func (p *Preconditioner) invertFactor(i int, of func(*layer) *version) {
	l, k := &p.layers[i/2], i%2
	v, n := of(l), l.sides()[k]
	damp, ok := p.dampings(l, v)
	if ok && v.inverse[k] == nil {
		v.inverse[k] = make([]float32, n*n)
	}
	if ok && p.isOwn(i) && !p.inverted[i] {
		inverse(v.inverse[k], v.average[k], n, damp[k])
	}
	p.inverted[i] = true
}

// isOwn reports whether this rank inverts a factor.
func (p *Preconditioner) isOwn(i int) bool {
	return p.o.Ranks == nil || p.owners[i] == p.o.Ranks.Rank()
}

// complete gives all ranks the inverses of a version. A failed inversion is sent as NaN, or counted, so that all ranks return an
// error.
func (p *Preconditioner) complete(of func(*layer) *version) error {
	bad := ""
	for i := range p.layers {
		for k, x := range of(&p.layers[i]).inverse {
			if x == nil {
				continue
			}
			param := p.layers[i].Param
			if p.o.Ranks != nil {
				if err := p.o.Ranks.Broadcast(p.owners[2*i+k], x); err != nil {
					return fmt.Errorf("inverse factors of %s: %w", param, err)
				}
			}
			if v := float64(x[0]); bad == "" && (math.IsNaN(v) || math.IsInf(v, 0)) {
				bad = param
			}
		}
	}
	if r := p.o.Owners; r != nil {
		failed := []float64{0}
		if bad != "" {
			failed[0] = 1
		}
		if err := r.AllReduce(failed); err != nil {
			return fmt.Errorf("inverse factors: %w", err)
		}
		if bad == "" && failed[0] > 0 {
			bad = "of another rank"
		}
	}
	if bad != "" {
		return fmt.Errorf("layer %s: %w", bad, ErrNotFinite)
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
