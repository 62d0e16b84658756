//go:build cgo && linux

package kern

/*
#cgo noescape ens_products
#cgo nocallback ens_products
#include "kern.h"
*/
import "C"

import "fmt"

// ProductAxis is an outer axis of Products: its size N, and its strides in the result
// and in both factors.
type ProductAxis struct{ N, Z, A, B int }

// ProductRun is a run of N consecutive products: its first index in the result and in
// both factors.
type ProductRun struct{ Z, A, B, N int }

// Products is a plan of sums of products
//
//	z[i·Z₀ + j·Z₁ + run.Z + k] = Σ_r Σ_run a[i·A₀ + j·A₁ + r·A₂ + run.A + k] · b[i·B₀ + j·B₁ + r·B₂ + run.B + k]
//
// over runs within rows of z. Elements of z in no run become 0.
//
// Locally connected convolutions and their gradients have this form: a filter for each
// point, so that a run is a row of points with one tap.
//
// Source: Grönquist et al. 2021, doi:10.1098/rsta.2020.0092; op.LocalConv.
type Products struct {
	g       [13]C.long
	first   []C.long // first run of each row, and the number of runs
	runs    []C.long // four numbers each
	z, a, b int      // lengths
}

// NewProducts plans the sums. The third outer axis is summed over. It panics if a run
// leaves its row.
func NewProducts(outer [3]ProductAxis, rows, row int, runs []ProductRun) *Products {
	p := &Products{first: make([]C.long, rows+1), runs: make([]C.long, 4*len(runs))}
	for _, r := range runs {
		if r.Z%row+r.N > row || r.Z/row >= rows {
			panic(fmt.Sprintf("kern: run %+v leaves its row of %d", r, row))
		}
		p.first[r.Z/row+1]++
		p.a, p.b = max(p.a, r.A+r.N), max(p.b, r.B+r.N)
	}
	for i := range rows {
		p.first[i+1] += p.first[i]
	}
	next := append([]C.long(nil), p.first...)
	for _, r := range runs {
		at := 4 * next[r.Z/row]
		next[r.Z/row]++
		p.runs[at], p.runs[at+1], p.runs[at+2], p.runs[at+3] = C.long(r.Z), C.long(r.A), C.long(r.B), C.long(r.N)
	}
	p.z = rows * row
	p.g[3], p.g[4] = C.long(rows), C.long(row)
	for i, o := range outer {
		p.g[i] = C.long(o.N)
		if i < 2 {
			p.g[5+i] = C.long(o.Z)
		}
		p.g[7+i], p.g[10+i] = C.long(o.A), C.long(o.B)
		p.z, p.a, p.b = p.z+(o.N-1)*o.Z, p.a+(o.N-1)*o.A, p.b+(o.N-1)*o.B
	}
	return p
}

// Products executes a plan. The order of summation does not depend on the number of
// threads.
func (p *Pool) Products(z, a, b []float32, w *Products) {
	want("z", len(z), w.z)
	atLeast("a", len(a), w.a)
	atLeast("b", len(b), w.b)
	if len(w.runs) == 0 {
		clear(z)
		return
	}
	C.ens_products(p.ptr(), f32(z), f32(a), f32(b), &w.g[0], &w.first[0], &w.runs[0])
}
