//go:build cgo && linux

package kern

/*
#cgo noescape ens_axis
#cgo nocallback ens_axis
#include "kern.h"
*/
import "C"

// Axis is attention along an axis: how lines lie in a field of Channels (of the result) and Plane points per row, as
// op.LineSteps says, and the windows of a line, first index and length one behind the other.
type Axis struct {
	Blocks, PerRow, RowStep, PointStep, Width, Beside, AlongRows, AlongPoints, Length int
	Channels, Plane, Heads, Reach                                                     int
	Windows                                                                           []int
}

// AxisPart is what is computed of attention along an axis.
type AxisPart int

// The parts: the result, and the gradients by queries, keys and values, and by weights of offsets.
const (
	AxisResult AxisPart = iota
	AxisGrad
	AxisOffsets
)

// The most that the kernels take of channels of a head, points of a window, and weights of offsets: what they need
// of the stack grows with them.
const (
	MaxAxisHead   = 32
	MaxAxisWindow = 1024
)

// Axis computes a part of attention along an axis: y of x [rows 3·channels plane] and offsets [heads 2·reach+1], and
// of dy for gradients. Sums are in one order, whatever the threads.
func (p *Pool) Axis(part AxisPart, y, x, offsets, dy []float32, a Axis) {
	lines := a.Blocks * a.Width * a.Length
	want("x", len(x), 3*a.Channels*lines)
	want("offsets", len(offsets), a.Heads*(2*a.Reach+1))
	want("y", len(y), map[AxisPart]int{AxisResult: a.Channels * lines, AxisGrad: len(x), AxisOffsets: len(offsets)}[part])
	if part != AxisResult {
		want("dy", len(dy), a.Channels*lines)
	}
	var window [2 * MaxAxisWindow]C.long
	for i, w := range a.Windows {
		window[i] = C.long(w)
	}
	g := [14]C.long{C.long(a.Blocks), C.long(a.PerRow), C.long(a.RowStep), C.long(a.PointStep), C.long(a.Width), C.long(a.Beside),
		C.long(a.AlongRows), C.long(a.AlongPoints), C.long(a.Length), C.long(a.Channels), C.long(a.Plane), C.long(a.Heads), C.long(a.Reach), C.long(len(a.Windows) / 2)}
	C.ens_axis(p.ptr(), C.int(part), f32(y), f32(x), f32(offsets), f32(dy), &g[0], &window[0])
}
