//go:build cgo && linux

package kern

/*
#cgo noescape ens_narrow
#cgo nocallback ens_narrow
#cgo noescape ens_narrow_data
#cgo nocallback ens_narrow_data
#cgo noescape ens_narrow_filter
#cgo nocallback ens_narrow_filter
#include "kern.h"
*/
import "C"

// NarrowSpec describes a convolution from a blocked field to a few plain channels, such
// as the last layer of a network. Stride is 1, sizes of the filter are odd, the number
// of levels does not change. Padding is zero, or periodic in longitude.
type NarrowSpec struct {
	X    Blocked // shape of the input
	Pad  [2]int  // padding before the first latitude and longitude
	K    int     // channels of the result
	KD   int     // levels of the filter, odd
	Side int     // latitudes and longitudes of the filter, odd
	Wrap bool    // longitudes are periodic
	ReLU bool
}

// Result returns the latitudes and longitudes of the result.
func (s NarrowSpec) Result() (rows, cols int) {
	return s.X.S[1] + 2*s.Pad[0] - s.Side + 1, s.X.S[2] + 2*s.Pad[1] - s.Side + 1
}

// Narrow is a prepared convolution of a NarrowSpec. It holds no memory of C.
type Narrow struct {
	pool            *Pool
	spec            NarrowSpec
	geom            []C.long
	result, filter  int
	filters, padded int // scratch: filters by channel, and padded rows of the gradient
}

// SupportsNarrow reports whether the kernels support a convolution: at most 4 result
// channels, and at most 12 of them times the side of the filter.
func SupportsNarrow(s NarrowSpec) bool {
	rows, cols := s.Result()
	fits := rows > 0 && cols > 0 && s.Pad[0] >= 0 && s.Pad[0] < s.Side && s.Pad[1] >= 0 && s.Pad[1] < s.Side
	return fits && s.K <= 4 && s.K*s.Side <= 12 && s.Side%2 == 1 && s.KD%2 == 1 && (!s.Wrap || cols == s.X.S[2] && cols >= s.Side/2)
}

// NewNarrow prepares all three passes.
//
// Errors: ErrUnsupported if SupportsNarrow is false.
func NewNarrow(p *Pool, s NarrowSpec) (*Narrow, error) {
	if !SupportsNarrow(s) {
		return nil, ErrUnsupported
	}
	taps := s.KD * s.Side * s.Side
	rows, cols := s.Result()
	results := s.X.N * s.K * s.X.S[0] * rows
	t := &Narrow{pool: p, spec: s, result: results * cols, filter: s.K * s.X.C * taps,
		filters: s.K * taps * s.X.Blocks() * Block, padded: results * (cols + 2*(s.Side-1-s.Pad[1]))}
	t.geom = []C.long{C.long(s.X.N), C.long(s.X.C), C.long(s.K), C.long(s.X.S[0]), C.long(s.X.S[1]), C.long(s.X.S[2]),
		C.long(s.KD), C.long(s.Side), C.long(rows), C.long(cols), C.long(s.Pad[0]), C.long(s.Pad[1]),
		C.long(flag(s.Wrap)), C.long(flag(s.ReLU))}
	return t, nil
}

// ScratchLen returns the number of float32 values of scratch that a run needs.
func (t *Narrow) ScratchLen() int { return t.filters + t.padded }

// Forward computes y = conv(x, w) (+ bias) (ReLU).
//
// Shape: x blocked; w plain [K C kD k k]; bias [K] or nil; y plain [N K D H' W']
// (Result).
// Source: torch.nn.Conv3d; op.Conv3D.
func (t *Narrow) Forward(y []float32, x Stored, w, bias, scratch []float32) {
	t.check(x, len(y), len(w), len(scratch))
	if bias != nil {
		want("bias", len(bias), t.spec.K)
	}
	C.ens_narrow(t.pool.ptr(), x.storage(), f32(y), x.ptr, f32(w), f32(bias), f32(scratch), &t.geom[0])
}

// Data computes dx, the gradient with respect to the input, with 0 where gate, if set,
// is not positive. It is the correlation of dy, padded by the size of the filter, with
// the reversed filter.
func (t *Narrow) Data(dx Stored, dy, w []float32, gate Stored, scratch []float32) {
	t.check(dx, len(dy), len(w), len(scratch))
	gate.wantIfSet("gate", dx.Len(), dx)
	C.ens_narrow_data(t.pool.ptr(), dx.storage(), dx.ptr, f32(dy), f32(w), gate.ptr, f32(scratch), &t.geom[0])
}

// Filter computes dw, the gradient of the filter. It is the correlation of x with dy.
func (t *Narrow) Filter(dw []float32, x Stored, dy, scratch []float32) {
	t.check(x, len(dy), len(dw), len(scratch))
	C.ens_narrow_filter(t.pool.ptr(), x.storage(), f32(dw), x.ptr, f32(dy), f32(scratch), &t.geom[0])
}

// check panics unless all lengths fit.
func (t *Narrow) check(x Stored, result, filter, scratch int) {
	x.want("the blocked field", t.spec.X.Len(), x)
	want("the plain field", result, t.result)
	want("filter", filter, t.filter)
	atLeast("scratch", scratch, t.ScratchLen())
}
