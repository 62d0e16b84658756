//go:build cgo && linux

package kern

/*
#cgo noescape ens_wino_sparse
#cgo nocallback ens_wino_sparse
#cgo noescape ens_wino_sparse_filter
#cgo nocallback ens_wino_sparse_filter
#include "kern.h"
*/
import "C"

import (
	"fmt"
	"unsafe"
)

// BlockMask marks the kept blocks of a filter; the others are zero. It has a '1' or '0'
// for every block of Block result channels and every block of Block input channels, all
// taps together, result blocks outermost. Blocks of two input tensors follow each
// other. Empty: all blocks are kept.
//
// Source: Narang et al. 2017, arXiv:1711.02782 (block sparsity); Lavin and Gray 2016,
// doi:10.1109/CVPR.2016.435. A zero block of a filter stays zero when the filter is
// transformed, since channels are not mixed.
type BlockMask string

// WinoSparseVariants are the variants that multiply only the kept blocks of a filter.
var WinoSparseVariants = []WinoVariant{{Tiles: 14, Sparse: true}, {Tiles: 7, Sparse: true}, {Tiles: 28, Sparse: true}}

// WinoSparseFilterVariants are those of the gradient of the filter.
var WinoSparseFilterVariants = []WinoVariant{{Tiles: 32, Sparse: true}, {Tiles: 16, Sparse: true}, {Tiles: 64, Sparse: true}}

// SupportsSparseWino reports whether there are sparse variants of a convolution: masked
// 3×3 filters with float32 products. Of two input tensors, the first must consist of
// whole blocks.
func SupportsSparseWino(s WinoSpec) bool {
	return s.Mask != "" && s.Side == 3 && !s.BF16 && (s.Parts[1] == 0 || s.Parts[0]%Block == 0)
}

// blockList is a BlockMask in the form of the kernels (kept_of of winosparse.inc.h).
type blockList struct {
	list          []C.long
	read, reached int // input blocks that a kept block reads, and result blocks that one reaches
	kept          int // number of kept blocks
}

// list converts the mask for a convolution. It panics if the mask has the wrong length.
func (k BlockMask) list(s WinoSpec) blockList {
	columns, sources := blocks(s.K), blocks(s.Parts[0])+blocks(s.Parts[1])
	if len(k) != columns*sources {
		panic(fmt.Sprintf("kern: %d blocks of a filter, want %d×%d", len(k), columns, sources))
	}
	var l blockList
	index := make([]C.long, sources) // of a source block among those that are read
	var source, first, of, used []C.long
	for c := range sources {
		for o := range columns {
			if k[o*sources+c] == '1' {
				index[c] = C.long(len(source))
				source = append(source, C.long(c))
				break
			}
		}
	}
	for o := range columns {
		first = append(first, C.long(len(of)))
		for c := range sources {
			if k[o*sources+c] == '1' {
				of = append(of, index[c])
			}
		}
		if C.long(len(of)) > first[o] {
			used = append(used, C.long(o))
		}
	}
	first = append(first, C.long(len(of)))
	l.kept, l.read, l.reached = len(of), len(source), len(used)
	l.list = append(l.list, C.long(columns), C.long(l.read), C.long(l.kept), C.long(l.reached))
	for _, part := range [][]C.long{source, first, of, used} {
		l.list = append(l.list, part...)
	}
	return l
}

// SparseLoad returns the number of kept blocks, and of the input and result blocks that
// they connect. These bound the work of a sparse variant.
func (s WinoSpec) SparseLoad() (kept, read, used int) {
	l := s.Mask.list(s)
	return l.kept, l.read, l.reached
}

// sparseScratch returns the scratch of a sparse variant, in values. It suffices for every mask of the
// whole filter with as many kept blocks, as these may change during a training. Of a part of the result channels they
// may all be in that part.
func (j *Wino) sparseScratch(w WinoVariant, filter bool, threads int) int {
	kept, columns := j.kept.kept, blocks(j.spec.K)
	if j.spec.Flip && j.spec.K < j.spec.FilterIn {
		kept = len(j.spec.Mask)
	}
	read, reached := min(kept, len(j.spec.Mask)/columns), min(kept, columns)
	if filter {
		t := min(w.Tiles, j.tiles)
		return j.points * (Block*(t*(read+reached)+kept*Block) + 2*Block)
	}
	return j.points * (kept*Block*Block + threads*(Block*w.Tiles*(read+1)+2*Block))
}

// runSparse is run for a sparse variant.
func (j *Wino) runSparse(items []C.long, again bool, v WinoValues) {
	C.ens_wino_sparse(j.pool.ptr(), v.X0.storage(), v.Y.storage(), v.Y.ptr, v.X0.ptr, v.X1.ptr, j.halos[0].ptr, j.halos[1].ptr, f32(v.Filter), f32(v.Bias), v.Gate.ptr, v.Plus.ptr,
		f32(v.Scratch), &j.geom[0], &j.kept.list[0], unsafe.SliceData(items), C.long(len(items)), flag(again))
}

// runSparseFilter is RunFilter for a sparse variant.
func (j *Wino) runSparseFilter(dw []float32, x0, x1, dy Stored, scratch []float32) {
	C.ens_wino_sparse_filter(j.pool.ptr(), x0.storage(), f32(dw), x0.ptr, x1.ptr, j.halos[0].ptr, j.halos[1].ptr, dy.ptr, f32(scratch), &j.geom[0], &j.kept.list[0])
}
