package kfac

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"
	"gonum.org/v1/gonum/mat"
)

// sweepBlock is the number of columns of a piece of an inversion.
const sweepBlock = 48

// sweep computes (X + damping·I)⁻¹ of a symmetric matrix in float64, a block of columns at a time, so that the pieces fit into short
// idle times. With the pivot P of the block K, a piece replaces the matrix S by
//
//	S(K,K) = −P⁻¹,   S(·,K) = S(·,K)·P⁻¹,   S −= S(·,K)·P⁻¹·S(K,·) elsewhere
//
// which after all blocks is −(X + damping·I)⁻¹. Pivots are Schur complements, positive definite like the matrix. Where rounding left
// one that is not, the inverse follows from eigenvalues that are held at 0 or more. If X is not finite, the result is NaN.
//
// Cost: n³ operations, about n²·sweepBlock in each piece.
// Source: Beaton 1964 (the sweep operator); Goodnight 1979, doi:10.1080/00031305.1979.10482685.
type sweep struct {
	n, done  int
	s        []float64 // lower triangle of the matrix, rows of n
	panel    []float64 // [n sweepBlock]
	triangle []float32 // X
	damping  float64
	inverse  *mat.SymDense // by eigenvalues, or NaN; nil if the pieces give it
}

// newSweep prepares the inversion of a matrix with n rows, given by its lower triangle [n(n+1)/2], which must not change.
func newSweep(triangle []float32, n int, damping float64) *sweep {
	w := &sweep{n: n, s: make([]float64, n*n), panel: make([]float64, n*sweepBlock), triangle: triangle, damping: damping}
	w.fill(w.s)
	for _, v := range triangle {
		if x := float64(v); math.IsNaN(x) || math.IsInf(x, 0) {
			w.inverse = mat.NewSymDense(n, nil)
			w.inverse.SetSym(0, 0, math.NaN())
			break
		}
	}
	return w
}

// fill sets the lower triangle of x [n n] to that of X + damping·I.
func (w *sweep) fill(x []float64) {
	at := 0
	for i := range w.n {
		for j := range i + 1 {
			x[i*w.n+j] = float64(w.triangle[at])
			at++
		}
		x[i*(w.n+1)] += w.damping
	}
}

// sweepPieces is the number of pieces of an inversion.
func sweepPieces(n int) int { return (n + sweepBlock - 1) / sweepBlock }

// next runs a piece and reports whether it was the last.
func (w *sweep) next() bool {
	if w.inverse != nil {
		return true
	}
	n, lo := w.n, w.done
	hi := min(lo+sweepBlock, n)
	size := hi - lo
	pivot := blas64.Symmetric{Uplo: blas.Lower, N: size, Stride: n, Data: w.s[lo*n+lo:]}
	root, ok := lapack64.Potrf(pivot)
	if !ok {
		w.byEigenvalues()
		return true
	}
	panel := blas64.General{Rows: n, Cols: size, Stride: size, Data: w.panel[:n*size]}
	w.exchange(lo, hi, func(s, x *float64) { *x = *s })
	clear(panel.Data[lo*size : hi*size]) // the pivot itself
	blas64.Trsm(blas.Right, blas.Trans, 1, root, panel)
	blas64.Syrk(blas.NoTrans, -1, panel, 1, blas64.Symmetric{Uplo: blas.Lower, N: n, Stride: n, Data: w.s})
	blas64.Trsm(blas.Right, blas.NoTrans, 1, root, panel)
	lapack64.Potri(root)
	for i := range size {
		for j := range i + 1 {
			pivot.Data[i*n+j] *= -1
		}
	}
	w.exchange(lo, hi, func(s, x *float64) { *s = *x })
	w.done = hi
	return hi == n
}

// exchange visits the columns lo to hi of the matrix, without their pivot, beside the panel.
func (w *sweep) exchange(lo, hi int, visit func(s, x *float64)) {
	size := hi - lo
	for i := range w.n {
		for j := range size {
			switch x := &w.panel[i*size+j]; {
			case i < lo: // by symmetry
				visit(&w.s[(lo+j)*w.n+i], x)
			case i >= hi:
				visit(&w.s[i*w.n+lo+j], x)
			}
		}
	}
}

// byEigenvalues computes the inverse at once.
func (w *sweep) byEigenvalues() {
	x := mat.NewSymDense(w.n, nil)
	w.fill(w.s)
	for i := range w.n {
		for j := range i + 1 {
			x.SetSym(i, j, w.s[i*w.n+j])
		}
	}
	w.inverse = mat.NewSymDense(w.n, nil)
	inverseByEigenvalues(w.inverse, x, w.damping)
}

// write writes the inverse [n n].
func (w *sweep) write(to []float32) {
	for i := range w.n {
		for j := range i + 1 {
			v := -w.s[i*w.n+j]
			if w.inverse != nil {
				v = w.inverse.At(i, j)
			}
			to[i*w.n+j], to[j*w.n+i] = float32(v), float32(v)
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
