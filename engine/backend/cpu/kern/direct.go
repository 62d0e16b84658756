//go:build cgo && linux

package kern

/*
#cgo noescape ens_direct
#cgo nocallback ens_direct
#cgo noescape ens_direct_filter
#cgo nocallback ens_direct_filter
#include "kern.h"
*/
import "C"

// HasAMX reports whether the instruction set in use multiplies tiles of bfloat16 (AMX_BF16).
func HasAMX() bool { return ISA() == "amx" }

// SupportsDirect reports whether a convolution can be computed by its definition with AMX (WinoVariant.Direct):
// one of bfloat16. Direct and Winograd's results differ by rounding.
func SupportsDirect(s WinoSpec) bool { return s.BF16 && HasAMX() && SupportsWino(s) }

// Constants of direct.inc.h: places and source channels of a tile, and values of one in float32 words.
const (
	places    = 16
	deep      = 32
	tileWords = 16 * deep / 2
)

// bandWords is the memory of a packed band that a second cache holds beside the filters, in float32 words.
const bandWords = 1 << 18

// direct has the division of a direct convolution. Results do not depend on it.
type direct struct {
	height, width int // of a band of the result, which is computed from a packed copy of its surroundings
	slices        int // of the result channels, which are other items
}

// divide chooses bands that fit into a cache, and slices where bands are fewer than threads.
func (s WinoSpec) divide(threads int) direct {
	d := direct{height: min(8, s.Size[1]), width: min(64, s.Size[2]), slices: 1}
	for s.packedWords(d) > bandWords && (d.height > 1 || d.width > places) {
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

// setDirect makes a prepared convolution a direct one, with scratch memory of that many words.
func (j *Wino) setDirect(d direct, words int) {
	if j.direct.height > 0 {
		j.geom = j.geom[:len(j.geom)-3]
	}
	j.direct, j.scratch = d, words
	j.geom = append(j.geom, C.long(d.height), C.long(d.width), C.long(d.slices))
}

// columnPairs is the number of pairs of blocks of result channels.
func (s WinoSpec) columnPairs() int { return ceil(blocks(s.K), 2) }

// groups is the number of groups of 32 source channels.
func (s WinoSpec) groups() int { return ceil(blocks(s.Parts[0])+blocks(s.Parts[1]), 2) }

// packedWords is the memory of a packed band, in float32 words.
func (s WinoSpec) packedWords(d direct) int {
	level := (d.height+s.Side-1)*(d.width+s.Side-1) + 2*places
	return s.groups() * s.Source()[0] * level * deep / 2
}

// alignment is the room for the alignment of scratch memory to the lines of a cache, in words.
const alignment = 16

// words is the scratch memory of a direct convolution in float32 words: filters and the packed bands of all threads.
func (d direct) words(s WinoSpec, threads int) int {
	return alignment + s.columnPairs()*s.KD*s.Side*s.Side*s.groups()*2*tileWords + threads*s.packedWords(d)
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
