//go:build cgo && linux

package kern

/*
#cgo noescape ens_direct
#cgo nocallback ens_direct
#cgo noescape ens_direct_filter
#cgo nocallback ens_direct_filter
#cgo noescape ens_direct_int8
#cgo nocallback ens_direct_int8
#include "kern.h"
*/
import "C"

import (
	"math"
	"unsafe"
)

// HasAMX reports whether the instruction set in use multiplies tiles of bfloat16 (AMX_BF16).
func HasAMX() bool { return ISA() == "amx" }

// SupportsDirect reports whether a convolution can be computed by its definition with AMX (WinoVariant.Direct):
// one of bfloat16. Direct and Winograd's results differ by rounding.
func SupportsDirect(s WinoSpec) bool { return s.BF16 && HasAMX() && SupportsWino(s) }

// HasAMXInt8 reports whether the instruction set in use also multiplies tiles of int8 (AMX_INT8).
func HasAMXInt8() bool { return C.ens_has_amx_int8() == 1 }

// mostProducts is the number of products of a code and a filter of eight bits whose sum an int32 holds.
const mostProducts = math.MaxInt32 / (255 * 127)

// SupportsDirectInt8 reports whether an int8 convolution can be computed by its definition with AMX.
func SupportsDirectInt8(s WinoSpec) bool {
	return HasAMXInt8() && WinoInt8Points(s) > 0 && (s.Parts[0]+s.Parts[1])*s.KD*s.Side*s.Side <= mostProducts
}

// Constants of direct.inc.h: places of a tile, bfloat16 of a row of it, and its bytes.
const (
	places    = 16
	deep      = 32
	tileBytes = 1024
)

// bandBytes is the memory of a packed band that a second cache holds beside the filters.
const bandBytes = 1 << 20

// Bytes of values that are multiplied.
const codeSize, halfSize = 1, 2

// direct has the division of a direct convolution. Results do not depend on it.
type direct struct {
	height, width int // of a band of the result, which is computed from a packed copy of its surroundings
	slices        int // of the result channels, which are other items
}

// divide chooses bands that fit into a cache, and slices where bands are fewer than threads, for values of size bytes.
func (s WinoSpec) divide(size, threads int) direct {
	d := direct{height: min(8, s.Size[1]), width: min(64, s.Size[2]), slices: 1}
	for s.packedBytes(d, size) > bandBytes && (d.height > 1 || d.width > places) {
		if d.height > 4 || d.width <= places {
			d.height = ceil(d.height, 2)
		} else {
			d.width = max(places, ceil(d.width, 2))
		}
	}
	bands := s.N * ceil(s.Size[1], d.height) * ceil(s.Size[2], d.width)
	if bands < 4*threads && threads > 1 {
		d.slices = min(s.columnPairs(), ceil(4*threads, bands))
	}
	return d
}

// filterPlaces is the number of places of all levels of which a second cache holds the values of 32 source and 32 result channels.
const filterPlaces = 1 << 13

// divideFilter chooses bands of whole latitudes for the gradient of the filter. It determines the order of sums, so it does not
// depend on threads.
func (s WinoSpec) divideFilter() direct {
	rows := filterPlaces / (s.Size[0] * (s.Size[2] + s.Side - 1))
	return direct{height: min(max(1, rows), s.Size[1]), width: s.Size[2], slices: 1}
}

// geometry appends the division to that of the convolution, or replaces it.
func (d direct) geometry(geom []C.long) []C.long {
	return append(geom[:directGeometry:directGeometry], C.long(d.height), C.long(d.width), C.long(d.slices))
}

// directGeometry is where the division stands in the geometry (W_BAND_H in wino.inc.h).
const directGeometry = 29

// setDirect makes a prepared convolution a direct one, with scratch memory of that many words.
func (j *Wino) setDirect(d direct, words int) {
	j.direct, j.scratch = d, words
	j.geom = d.geometry(j.geom)
}

// columnPairs is the number of pairs of blocks of result channels.
func (s WinoSpec) columnPairs() int { return ceil(blocks(s.K), 2) }

// groups is the number of groups of 32 source channels.
func (s WinoSpec) groups() int { return ceil(blocks(s.Parts[0])+blocks(s.Parts[1]), 2) }

// placeBytes is the memory of all source channels of a place.
func (s WinoSpec) placeBytes(size int) int {
	return (blocks(s.Parts[0]) + blocks(s.Parts[1])) * Block * size
}

// packedBytes is the memory of a packed band.
func (s WinoSpec) packedBytes(d direct, size int) int {
	n := ((d.height+s.Side-1)*(d.width+s.Side-1) + places) * s.placeBytes(size)
	return s.Source()[0] * (ceil(n, line) + 1) * line
}

// line is the size of a line of a cache in bytes; alignment the room for the alignment of scratch memory to lines, in float32 words.
const line, alignment = 64, 16

// words is the scratch memory of a direct convolution in float32 words: filters, with what sums of codes begin with and are
// multiplied by, and the packed bands of all threads.
func (d direct) words(s WinoSpec, size, threads int) int {
	column := s.KD*s.Side*ceil(s.Side*s.placeBytes(size), line)*tileBytes + (s.KD+1)*4*Block
	return alignment + (blocks(s.K)*column+threads*s.packedBytes(d, size))/4
}

// filterWords is that of the gradient of the filter: sums for all taps, the transposed source and the gradient of a band, and a row
// of it for each thread.
func (d direct) filterWords(s WinoSpec, threads int) int {
	rows, cols := d.height+s.Side-1, d.width+s.Side-1
	length := (ceil(rows*cols+2*deep, deep) | 1) * deep
	sums := s.groups() * s.columnPairs() * s.KD * s.Side * s.Side * 4 * 16 * Block
	source := (blocks(s.Parts[0]) + blocks(s.Parts[1])) * s.Source()[0] * Block * length
	gradient := blocks(s.K) * s.Size[0] * ceil(d.height*cols, deep) * deep * Block
	return alignment + sums + (source+gradient+threads*Block*length)/2
}

// runDirect computes the convolution.
func (j *Wino) runDirect(v WinoValues) {
	C.ens_direct(j.pool.ptr(), v.Y.storage(), v.Y.ptr, v.X0.ptr, v.X1.ptr, j.halos[0].ptr, j.halos[1].ptr, f32(v.Filter), f32(v.Bias), v.Gate.ptr, v.Plus.ptr,
		f32(v.Scratch), &j.geom[0])
}

// runDirectFilter computes the gradient of the filter.
func (j *Wino) runDirectFilter(dw []float32, x0, x1, dy Stored, scratch []float32) {
	C.ens_direct_filter(j.pool.ptr(), f32(dw), x0.ptr, x1.ptr, j.halos[0].ptr, j.halos[1].ptr, dy.ptr, f32(scratch), &j.geom[0])
}

// runDirect computes the convolution of codes to y, or codes of storage 0.
func (j *WinoInt8) runDirect(y unsafe.Pointer, storage C.int, x0, x1 []uint8, w, bias, scratch []float32) {
	C.ens_direct_int8(j.pool.ptr(), storage, y, unsafe.Pointer(unsafe.SliceData(x0)), unsafe.Pointer(unsafe.SliceData(x1)), f32(w), f32(bias),
		unsafe.Pointer(unsafe.SliceData(scratch)), &j.geom[0], &j.params)
}
