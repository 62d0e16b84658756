package kfac

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/ensemble-weather/ensemble/engine/backend/cpu/dnnl"
	"github.com/ensemble-weather/ensemble/engine/pass"
)

// Apply computes U = G′⁻¹ ∇W A′⁻¹ for all layers with inverses, and copies the gradients of all other
// parameters. With factors of the channels only, A′⁻¹ acts on the channels at each tap.
//
// Shape: to and g have the layout of the store's parameters, with Options.Owners that of this rank's chunks; they must not overlap.
// Cost: 2·rows·columns·(rows + columns) FLOPs for each layer.
func (p *Preconditioner) Apply(to, g []float32) {
	copy(to, g)
	for i := range p.layers {
		l := &p.layers[i]
		if l.now.inverse[0] == nil {
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
	width := l.Width()
	product(l.half, l.now.inverse[0], l.gradient, [3]int{l.Rows, width, l.Rows})
	if l.Form == pass.ExactFactors {
		product(l.gradient, l.half, l.now.inverse[1], [3]int{l.Rows, width, l.Cols})
		return
	}
	for r := range l.Rows { // [channels × taps] of a row
		lo, hi := r*width, (r+1)*width
		product(l.gradient[lo:hi], l.now.inverse[1], l.half[lo:hi], [3]int{l.Cols, l.Taps, l.Cols})
	}
}

// product computes c = a·b of matrices by rows, of the sizes m×k and k×n. oneDNN does on one thread, where it is
// installed.
func product(c, a, b []float32, sizes [3]int) {
	m, n, k := sizes[0], sizes[1], sizes[2]
	if dnnl.SGEMM(m, n, k, a, b, c, 1) == nil {
		return
	}
	blas32.Gemm(blas.NoTrans, blas.NoTrans, 1, blas32.General{Rows: m, Cols: k, Stride: k, Data: a}, blas32.General{Rows: k, Cols: n, Stride: n, Data: b},
		0, blas32.General{Rows: m, Cols: n, Stride: n, Data: c})
}
