//go:build cgo && linux

package kern

/*
#cgo noescape ens_direct
#cgo nocallback ens_direct
#include "kern.h"
*/
import "C"

// HasAMX reports whether the instruction set in use multiplies tiles of bfloat16 (AMX_BF16).
func HasAMX() bool { return C.ens_has_amx() == 1 }

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

// setDirect makes a prepared convolution a direct one.
func (j *Wino) setDirect(d direct) {
	if j.direct.height > 0 {
		j.geom = j.geom[:len(j.geom)-3]
	}
	j.direct, j.scratch = d, d.words(j.spec, j.pool.Threads())
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

// words is the scratch memory of a direct convolution in float32 words: filters and the packed bands of all threads.
func (d direct) words(s WinoSpec, threads int) int {
	const alignment = 16
	return alignment + s.columnPairs()*s.KD*s.Side*s.Side*s.groups()*2*tileWords + threads*s.packedWords(d)
}

// runDirect computes the convolution.
func (j *Wino) runDirect(v WinoValues) {
	C.ens_direct(j.pool.ptr(), v.Y.storage(), v.Y.ptr, v.X0.ptr, v.X1.ptr, j.halos[0].ptr, j.halos[1].ptr, f32(v.Filter), f32(v.Bias), v.Gate.ptr, v.Plus.ptr,
		f32(v.Scratch), &j.geom[0])
}
