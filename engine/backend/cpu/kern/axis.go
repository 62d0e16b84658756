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
	Blocks, PerRow, RowStride, PointStride, Width, LineStride, ElemRows, ElemPoints, Length int
	Channels, Plane, Heads, Reach                                                           int
	Windows                                                                                 []int
}

// AxisPart is what is computed of attention along an axis.
type AxisPart int

// The parts: the result, and the gradients by queries, keys and values, and by weights of offsets.
const (
	AxisResult AxisPart = iota
	AxisGrad
	AxisGradBias
)

// The most that the kernels take of channels of a head, points of a window, and weights of offsets: what they need
// of scratch grows with them.
const (
	MaxAxisHead   = 32
	MaxAxisWindow = 1024
)

// axisLanes is how many lines side by side kernels take at a time, at most.
const axisLanes = 16

// parts is how many items the windows of a head of a block are dealt out to.
func (a Axis) parts() int {
	units, longest := (a.Width+axisLanes-1)/axisLanes*len(a.Windows)/2, a.longest()
	each := min(max(128/longest, 1), 16)
	return (units + each - 1) / each
}

// longest is the number of points of the largest window.
func (a Axis) longest() int {
	n := 1
	for i := 1; i < len(a.Windows); i += 2 {
		n = max(n, a.Windows[i])
	}
	return n
}

// threadScratchLen is the number of values that a thread needs as scratch: panels of keys, values and their gradients; of the queries whose
// scores are held, these, three panels and two rows of scores each; sums by offset, and weights of offsets.
func (a Axis) threadScratchLen() int {
	n, per := a.longest(), a.Channels/a.Heads
	held := min(n, max(4, 256/n)) // axis_rows
	return axisLanes*(4*n*per+3*held*per+2*held*n+2*n) + 2*n + 2*axisLanes
}

// ScratchLen is the number of values that a part needs as scratch.
func (a Axis) ScratchLen(part AxisPart, threads int) int {
	n := a.threadScratchLen() * threads
	if part == AxisGradBias {
		n += 2 + 2*a.Blocks*a.Heads*a.parts()*(2*a.Reach+1) // sums in double
	}
	return n
}

// Axis computes a part of attention along an axis: y of x [rows 3·channels plane] and offsets [heads 2·reach+1], and
// of dy for gradients. Sums are in one order, whatever the threads.
func (p *Pool) Axis(part AxisPart, y, x, offsets, dy, scratch []float32, a Axis) {
	lines := a.Blocks * a.Width * a.Length
	want("x", len(x), 3*a.Channels*lines)
	want("offsets", len(offsets), a.Heads*(2*a.Reach+1))
	want("y", len(y), map[AxisPart]int{AxisResult: a.Channels * lines, AxisGrad: len(x), AxisGradBias: len(offsets)}[part])
	if part != AxisResult {
		want("dy", len(dy), a.Channels*lines)
	}
	atLeast("scratch", len(scratch), a.ScratchLen(part, p.Threads()))
	var window [2 * MaxAxisWindow]C.long
	for i, w := range a.Windows {
		window[i] = C.long(w)
	}
	g := [16]C.long{C.long(a.Blocks), C.long(a.PerRow), C.long(a.RowStride), C.long(a.PointStride), C.long(a.Width), C.long(a.LineStride),
		C.long(a.ElemRows), C.long(a.ElemPoints), C.long(a.Length), C.long(a.Channels), C.long(a.Plane), C.long(a.Heads), C.long(a.Reach), C.long(len(a.Windows) / 2),
		C.long(a.parts()), C.long(a.threadScratchLen())}
	C.ens_axis(p.ptr(), C.int(part), f32(y), f32(x), f32(offsets), f32(dy), f32(scratch), &g[0], &window[0])
}
