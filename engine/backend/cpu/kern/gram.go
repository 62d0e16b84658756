//go:build cgo && linux

package kern

/*
#cgo noescape ens_gram
#cgo nocallback ens_gram
#include "kern.h"
*/
import "C"

import "slices"

// Gram is the geometry of sums of outer products of patches. A patch has the values that
// one position of a convolution reads, by channel and tap, and a one if Ones is set.
type Gram struct {
	N, C         int    // samples and channels of the input
	In, Out      [3]int // sizes of the input and of the positions along level, latitude, longitude
	Taps         [3]int // of the filter
	Ones         bool
	Index        [3][]int     // input that position o reads by tap t: [o·Taps+t]; −1 reads 0
	Scale        [3][]float32 // factor of a patch by its position along each axis; nil: 1
	g            [12]C.long
	index        [3][]C.long
	scale        []float32
	side, length int
}

// gramPiece is GRAM_PIECE, the number of patches that the kernel packs at once.
const gramPiece = 256

// Prepare checks the geometry and converts it for the kernel. It panics if a list has another
// length than the sizes require, or an index is out of range.
func (s *Gram) Prepare() {
	s.side = s.C * s.Taps[0] * s.Taps[1] * s.Taps[2]
	s.length = s.N * s.C * s.In[0] * s.In[1] * s.In[2]
	s.g[0], s.g[1] = C.long(s.N), C.long(s.C)
	if s.Ones {
		s.side++
		s.g[11] = 1
	}
	s.scale = nil
	for i := range 3 {
		s.g[2+i], s.g[5+i], s.g[8+i] = C.long(s.In[i]), C.long(s.Out[i]), C.long(s.Taps[i])
		want("index", len(s.Index[i]), s.Out[i]*s.Taps[i])
		s.index[i] = make([]C.long, len(s.Index[i]))
		for k, v := range s.Index[i] {
			if v < -1 || v >= s.In[i] {
				panic("kern: Gram with an index out of range")
			}
			s.index[i][k] = C.long(v)
		}
		if s.Scale[i] == nil {
			s.Scale[i] = slices.Repeat([]float32{1}, s.Out[i])
		}
		want("scale", len(s.Scale[i]), s.Out[i])
		s.scale = append(s.scale, s.Scale[i]...)
	}
}

// Side returns the number of rows of the matrix.
func (s *Gram) Side() int { return s.side }

// ScratchLen returns the number of values of scratch that Gram needs: packed patches, and
// the sums in float64.
func (s *Gram) ScratchLen() int {
	width := (s.side + 15) / 16 * 16
	if width%256 == 0 {
		width += 16
	}
	return gramPiece*width + 2*s.side*width
}

// Gram computes the lower triangle, by rows, of
//
//	Σ p·pᵀ
//
// over the patches p of all samples and positions. Products are added in float32 within
// pieces of 256 patches, and in float64 between them, in a fixed order.
//
// Shape: x [N C In], y [side·(side+1)/2].
// Source: Goto and van de Geijn 2008, doi:10.1145/1356052.1356053 (packed panels);
// Chellapilla et al. 2006, inria-00112631 (patches as rows of a matrix).
func (p *Pool) Gram(y, x []float32, s *Gram, scratch []float32) {
	want("x", len(x), s.length)
	want("y", len(y), s.side*(s.side+1)/2)
	atLeast("scratch", len(scratch), s.ScratchLen())
	C.ens_gram(p.ptr(), f32(y), f32(x), &s.g[0], &s.index[0][0], &s.index[1][0], &s.index[2][0], f32(s.scale), f32(scratch))
}
