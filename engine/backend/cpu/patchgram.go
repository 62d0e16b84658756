//go:build cgo && linux

package cpu

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// patchGram prepares patch_gram: patches are packed as rows of a matrix, piece by piece, and
// multiplied with its transpose (kern.Pool.Gram).
//
// The average over the taps is one sum over the points of x instead of one for each tap: each
// point counts as often as a tap reads it.
//
// Shape: x [N C D H W], dy [N O D' H' W'] → [side·(side+1)/2].
func patchGram(b *Backend, q backend.Request) (backend.Kernel, error) {
	a, x, y := q.Attrs.(op.PatchGram), q.In[0], q.In[1].Shape
	s := &kern.Gram{N: x.Shape[0], C: x.Shape[1], In: [3]int(x.Shape[2:]), Out: [3]int(y[2:]), Taps: a.Taps, Ones: a.Ones}
	if a.Channels {
		s.Out, s.Taps = s.In, [3]int{1, 1, 1}
	}
	for i := range 3 {
		s.Index[i] = a.Index(i, x.Shape, y)
		if a.Channels {
			s.Scale[i] = a.ChannelWeights(i, x.Shape, y)
			s.Index[i] = make([]int, s.In[i])
			for k := range s.Index[i] {
				s.Index[i][k] = k
			}
		}
	}
	s.Prepare()
	b.needScratch(s.ScratchLen())
	in, out := x.F32, q.Out.F32
	return kernel("gram", func() { b.pool.Gram(out, in, s, b.scratch) })
}
