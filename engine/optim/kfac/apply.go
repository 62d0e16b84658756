package kfac

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/ensemble-weather/ensemble/engine/pass"
)

// Apply computes U = G′⁻¹ ∇W A′⁻¹ for all layers with inverses, and copies the gradients of all other
// parameters. With factors of the channels only, A′⁻¹ acts on the channels at each tap.
//
// Shape: to and g have the layout of the store's parameters; they must not overlap.
// Cost: 2·rows·columns·(rows + columns) FLOPs for each layer.
func (p *Preconditioner) Apply(to, g []float32) {
	copy(to, g)
	for i := range p.layers {
		l := &p.layers[i]
		if l.rowsInv == nil {
			continue
		}
		l.load(g)
		l.multiply()
		l.store(to)
	}
}

// load copies the gradient of a layer to its matrix, the bias to the last column.
func (l *layer) load(g []float32) {
	filter := g[l.filter.Offset : l.filter.Offset+l.filter.Size()]
	if l.Bias == "" {
		copy(l.gradient, filter)
		return
	}
	n := l.Cols - 1
	for r := range l.Rows {
		row := l.gradient[r*l.Cols : (r+1)*l.Cols]
		copy(row, filter[r*n:(r+1)*n])
		row[n] = g[l.bias.Offset+r]
	}
}

// store is the inverse of load.
func (l *layer) store(to []float32) {
	filter := to[l.filter.Offset : l.filter.Offset+l.filter.Size()]
	if l.Bias == "" {
		copy(filter, l.gradient)
		return
	}
	n := l.Cols - 1
	for r := range l.Rows {
		row := l.gradient[r*l.Cols : (r+1)*l.Cols]
		copy(filter[r*n:(r+1)*n], row[:n])
		to[l.bias.Offset+r] = row[n]
	}
}

// multiply multiplies the matrix of the gradient with both inverses.
func (l *layer) multiply() {
	width := len(l.gradient) / l.Rows
	matrix := func(x []float32, rows, cols int) blas32.General {
		return blas32.General{Rows: rows, Cols: cols, Stride: cols, Data: x}
	}
	product := func(a, b, c blas32.General) { blas32.Gemm(blas.NoTrans, blas.NoTrans, 1, a, b, 0, c) }
	product(matrix(l.rowsInv, l.Rows, l.Rows), matrix(l.gradient, l.Rows, width), matrix(l.half, l.Rows, width))
	inv := matrix(l.colsInv, l.Cols, l.Cols)
	if l.Form == pass.ExactFactors {
		product(matrix(l.half, l.Rows, width), inv, matrix(l.gradient, l.Rows, width))
		return
	}
	for r := range l.Rows { // [channels × taps] of a row
		product(inv, matrix(l.half[r*width:(r+1)*width], l.Cols, l.Taps), matrix(l.gradient[r*width:(r+1)*width], l.Cols, l.Taps))
	}
}
