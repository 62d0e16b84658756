//go:build cgo && linux

package kern

/*
#cgo noescape ens_axis
#cgo nocallback ens_axis
#include "kern.h"
*/
import "C"

// Axis describes attention along an axis of a field with Channels result channels and
// Plane grid points per row. The strides are those of op.LineStrides. Windows holds the
// first index and the length of each window of a line.
type Axis struct {
	Blocks, PerRow, RowStride, PointStride, Width, LineStride, ElemRows, ElemPoints, Length int
	Channels, Plane, Heads, Reach                                                           int
	Windows                                                                                 []int
}

// AxisPart is a part of attention along an axis.
type AxisPart int

// The parts: the result; the gradient with respect to queries, keys and values; and
// that with respect to the relative position bias.
const (
	AxisResult AxisPart = iota
	AxisGrad
	AxisGradBias
)

// Limits of the kernels: channels of a head, and points of a window or a relative
// position bias. Scratch grows with them.
const (
	MaxAxisHead   = 32
	MaxAxisWindow = 1024
)

// axisLanes is the largest number of adjacent lines that are computed together.
const axisLanes = 16

// parts returns the number of work items into which the windows of a head are divided.
func (a Axis) parts() int {
	units, longest := (a.Width+axisLanes-1)/axisLanes*len(a.Windows)/2, a.longest()
	each := min(max(128/longest, 1), 16)
	return (units + each - 1) / each
}

// longest returns the number of points of the largest window.
func (a Axis) longest() int {
	n := 1
	for i := 1; i < len(a.Windows); i += 2 {
		n = max(n, a.Windows[i])
	}
	return n
}

// threadScratchLen returns the scratch of a thread, in values: panels of keys, values
// and their gradients; three panels and two rows of scores for each of the queries that
// are processed together; sums by relative position; and the bias.
func (a Axis) threadScratchLen() int {
	n, per := a.longest(), a.Channels/a.Heads
	held := min(n, max(4, 256/n)) // axis_rows
	return axisLanes*(4*n*per+3*held*per+2*held*n+2*n) + 2*n + 2*axisLanes
}

// ScratchLen returns the number of values of scratch that a part needs.
func (a Axis) ScratchLen(part AxisPart, threads int) int {
	n := a.threadScratchLen() * threads
	if part == AxisGradBias {
		n += 2 + 2*a.Blocks*a.Heads*a.parts()*(2*a.Reach+1) // sums in double
	}
	return n
}

// Axis computes a part of attention along an axis. x holds queries, keys and values;
// offsets is the relative position bias.
//
//	y_i = Σ_j softmax_j(q_i·k_j/√d + offsets[j−i])·v_j,  j in the window of i
//
// with d channels of a head. Distances beyond Reach use the outermost bias. The order of
// summation does not depend on the number of threads.
//
// Shape: x [rows 3·Channels plane], offsets [Heads 2·Reach+1], y and dy [rows Channels
// plane].
// Source: Ho et al. 2019, arXiv:1912.12180 (axial attention); Liu et al. 2021,
// arXiv:2103.14030 (relative position bias); Dao et al. 2022, arXiv:2205.14135 (scores
// are recomputed in the gradient).
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
