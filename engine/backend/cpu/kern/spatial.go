//go:build cgo && linux

package kern

/*
#cgo noescape ens_strided_copy
#cgo nocallback ens_strided_copy
#cgo noescape ens_pad
#cgo nocallback ens_pad
#cgo noescape ens_pad_grad
#cgo nocallback ens_pad_grad
#cgo noescape ens_fold_filter
#cgo nocallback ens_fold_filter
#cgo noescape ens_maxpool
#cgo nocallback ens_maxpool
#cgo noescape ens_maxpool_grad
#cgo nocallback ens_maxpool_grad
#cgo noescape ens_upsample
#cgo nocallback ens_upsample
#cgo noescape ens_upsample_grad
#cgo nocallback ens_upsample_grad
#include "kern.h"
*/
import "C"

import "unsafe"

// CopyRows computes y[r·yStride + i] = x[r·xStride + i] for r < rows and i < n, for
// concatenation and slices. The slices begin at the first element of the first row.
func (p *Pool) CopyRows(y []float32, yStride int, x []float32, xStride, rows, n int) {
	p.rows(y, yStride, x, xStride, rows, n, 0)
}

// AddRows adds the rows instead of copying them, for the gradients of concatenation and
// slices.
func (p *Pool) AddRows(y []float32, yStride int, x []float32, xStride, rows, n int) {
	p.rows(y, yStride, x, xStride, rows, n, 1)
}

// rows copies or adds rows.
func (p *Pool) rows(y []float32, yStride int, x []float32, xStride, rows, n, add int) {
	if rows <= 0 || n <= 0 {
		return
	}
	if (rows-1)*yStride+n > len(y) || (rows-1)*xStride+n > len(x) || yStride < 0 || xStride < 0 || rows > 1 && yStride < n {
		panic("kern: CopyRows beyond the slices")
	}
	C.ens_strided_copy(p.ptr(), f32(y), C.long(yStride), f32(x), C.long(xStride), C.long(rows), C.long(n), C.int(add))
}

// volume returns the number of cells of a box.
func volume(d [3]int) int { return d[0] * d[1] * d[2] }

// padArgs are the arguments of a padding in C, on the stack of the caller.
type padArgs struct {
	in, lo, hi [3]C.long
	mode       [3]C.int
}

// newPadArgs returns the arguments and the padded size.
func newPadArgs(in [3]int, pad [3]Padding) (a padArgs, out [3]int) {
	for i, q := range pad {
		a.in[i], a.lo[i], a.hi[i], a.mode[i] = C.long(in[i]), C.long(q.Lo), C.long(q.Hi), C.int(q.Mode)
		out[i] = in[i] + q.Lo + q.Hi
	}
	return a, out
}

// Pad copies planes [D][H][W] and surrounds them with zeros or with their periodic
// continuation (longitude).
//
// Shape: x [planes D H W] → y [planes D+Lo+Hi H+Lo+Hi W+Lo+Hi].
func (p *Pool) Pad(y, x []float32, planes int, in [3]int, pad [3]Padding) {
	a, out := newPadArgs(in, pad)
	want("x", len(x), planes*volume(in))
	want("y", len(y), planes*volume(out))
	C.ens_pad(p.ptr(), f32(y), f32(x), C.long(planes), &a.in[0], &a.lo[0], &a.hi[0], &a.mode[0])
}

// PadGrad is the adjoint of Pad: the gradient of every padded cell is added to that of
// the cell it was copied from.
//
// Shape: dy as y of Pad → dx as its x.
func (p *Pool) PadGrad(dx, dy []float32, planes int, in [3]int, pad [3]Padding) {
	a, out := newPadArgs(in, pad)
	want("dx", len(dx), planes*volume(in))
	want("dy", len(dy), planes*volume(out))
	C.ens_pad_grad(p.ptr(), f32(dx), f32(dy), C.long(planes), &a.in[0], &a.lo[0], &a.hi[0], &a.mode[0])
}

// Fold describes a convolution whose depth axis becomes part of the channels.
type Fold struct {
	Cout, Cin       int
	KD, KHW         int // filter: depth, and the product of the other two
	DIn, DOut       int // depth before and after
	Stride, Dil, Lo int // of depth; Lo is the padding before it
}

// deep returns the number of values of the 3-D filter.
func (f Fold) deep() int { return f.Cout * f.Cin * f.KD * f.KHW }

// flat returns the number of values of the folded filter.
func (f Fold) flat() int { return f.Cout * f.DOut * f.Cin * f.DIn * f.KHW }

// FoldFilter writes the 3-D filter w as a 2-D filter over Cin·DIn channels with the
// same result. It has zeros where a level of the filter meets padding.
//
//	w2[co·DOut+do][ci·DIn+di] = w[co][ci][kd],  di = do·Stride − Lo + kd·Dil
//
// Shape: w [Cout Cin KD KHW] → w2 [Cout·DOut Cin·DIn KHW].
func (p *Pool) FoldFilter(w2, w []float32, f Fold) { p.fold(w2, w, f, 0) }

// FoldFilterGrad is the adjoint of FoldFilter: each element of w is the sum of its
// copies in w2.
func (p *Pool) FoldFilterGrad(w, w2 []float32, f Fold) { p.fold(w2, w, f, 1) }

// fold copies the filter to the folded one, or adds up in reverse.
func (p *Pool) fold(w2, w []float32, f Fold, grad C.int) {
	want("filter", len(w), f.deep())
	want("folded filter", len(w2), f.flat())
	C.ens_fold_filter(p.ptr(), f32(w2), f32(w), C.long(f.Cout), C.long(f.Cin), C.long(f.KD), C.long(f.KHW), C.long(f.DIn),
		C.long(f.DOut), C.long(f.Stride), C.long(f.Dil), C.long(f.Lo), grad)
}

// MaxPool computes the maximum over disjoint windows of size k, and its position in the
// window (in memory order, the first of equal ones). Cells beyond the last whole window
// are ignored.
//
// Shape: x [planes D H W] → y, arg [planes ⌊D/k⌋ ⌊H/k⌋ ⌊W/k⌋]; at most 256 cells in a
// window.
// Missing: NaN in a window gives NaN.
func (p *Pool) MaxPool(y []float32, arg []uint8, x []float32, planes int, in, k [3]int) {
	n := p.poolLens(len(y), len(arg), len(x), planes, in, k)
	ci, ck := want3(in), want3(k)
	if n == 0 {
		return
	}
	C.ens_maxpool(p.ptr(), f32(y), (*C.uchar)(unsafe.Pointer(&arg[0])), f32(x), C.long(planes), &ci[0], &ck[0])
}

// MaxPoolGrad adds dy to the cells of the maxima; all others get 0.
func (p *Pool) MaxPoolGrad(dx, dy []float32, arg []uint8, planes int, in, k [3]int) {
	n := p.poolLens(len(dy), len(arg), len(dx), planes, in, k)
	ci, ck := want3(in), want3(k)
	if n == 0 {
		clear(dx)
		return
	}
	C.ens_maxpool_grad(p.ptr(), f32(dx), f32(dy), (*C.uchar)(unsafe.Pointer(&arg[0])), C.long(planes), &ci[0], &ck[0])
}

// poolLens checks the lengths and returns the number of windows.
func (p *Pool) poolLens(y, arg, x, planes int, in, k [3]int) int {
	if volume(k) < 1 || volume(k) > 256 {
		panic("kern: MaxPool with a window of no cell or more than 256")
	}
	n := planes * (in[0] / k[0]) * (in[1] / k[1]) * (in[2] / k[2])
	want("x", x, planes*volume(in))
	want("y", y, n)
	want("arg", arg, n)
	return n
}

// MaxFineRow is the longest row that Upsample can write.
const MaxFineRow = 1 << 16

// Upsample interpolates linearly between cell centres, by integer factors, as PyTorch's
// trilinear interpolation with align_corners=False. Beyond the first and last centre
// the edge value is repeated; with wrap the last axis is periodic (longitude).
//
// Shape: x [planes D H W] → y [planes D·f H·f W·f], W·f ≤ MaxFineRow.
func (p *Pool) Upsample(y, x []float32, planes int, in, factor [3]int, wrap bool) {
	ci, cf, w := p.upArgs(len(y), len(x), planes, in, factor, wrap)
	C.ens_upsample(p.ptr(), f32(y), f32(x), C.long(planes), &ci[0], &cf[0], w)
}

// UpsampleGrad is the adjoint of Upsample.
func (p *Pool) UpsampleGrad(dx, dy []float32, planes int, in, factor [3]int, wrap bool) {
	ci, cf, w := p.upArgs(len(dy), len(dx), planes, in, factor, wrap)
	C.ens_upsample_grad(p.ptr(), f32(dx), f32(dy), C.long(planes), &ci[0], &cf[0], w)
}

// upArgs checks the lengths and returns the arguments in C.
func (p *Pool) upArgs(fine, coarse, planes int, in, factor [3]int, wrap bool) (ci, cf [3]C.long, w C.int) {
	want("coarse", coarse, planes*volume(in))
	want("fine", fine, planes*volume(in)*volume(factor))
	if in[2]*factor[2] > MaxFineRow {
		panic("kern: Upsample of a row longer than MaxFineRow")
	}
	if wrap {
		w = 1
	}
	return want3(in), want3(factor), w
}
