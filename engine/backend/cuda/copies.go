package cuda

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/kernels"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// bytesOf returns the size of an element of a value.
func bytesOf(t backend.Tensor) int {
	if t.U16 != nil {
		return 2
	}
	return elem
}

// storageAxes returns the axes of a value in memory order, with channels padded, and
// the position of axis among them.
func storageAxes(t backend.Tensor, axis int) (s graph.Shape, at int) {
	if t.Layout != graph.ChannelsLast {
		return t.Shape, axis
	}
	n := t.Shape
	return graph.Shape{n[0], n[2], n[3], n[4], graph.ChannelsLast.PaddedChannels(n[1])}, [...]int{0, 4, 1, 2, 3}[axis]
}

// boxAxis is an axis of a box: its size, and its strides in source and destination, in
// elements.
type boxAxis struct{ n, x, y int }

// mergeAxes drops axes of size 1 and merges adjacent axes that are contiguous on both
// sides.
func mergeAxes(box []boxAxis) []boxAxis {
	var out []boxAxis
	for _, a := range box {
		if a.n == 1 {
			continue
		}
		if k := len(out) - 1; k >= 0 && out[k].x == a.n*a.x && out[k].y == a.n*a.y {
			out[k] = boxAxis{out[k].n * a.n, a.x, a.y}
			continue
		}
		out = append(out, a)
	}
	return out
}

// unit returns the widest type, and its size, in which elements can be copied if all
// addresses, sizes and strides are multiples of it. least is the size of an element.
func unit(least int, multiples ...int) (name string, bytes int) {
	for _, u := range []struct {
		name  string
		bytes int
	}{{"words4", 16}, {"uint32_t", 4}, {"uint16_t", 2}} {
		ok := u.bytes >= least
		for _, m := range multiples {
			ok = ok && m%u.bytes == 0
		}
		if ok {
			return u.name, u.bytes
		}
	}
	panic("cuda: elements of one byte are not copied so")
}

// address returns the low bits of an address, for alignment.
func address(p device.Pointer) int { return int(uintptr(p) % 64) }

// maxAxes is the number of axes of the kernel copy_box.
const maxAxes = 5

// copyBox adds the copy of a box, outermost axis first, of elements of the given size
// in bytes. If x is nil the box is set to zero.
//
// Axes are merged where both sides are contiguous, and elements are combined into the
// widest unit to which all addresses, sizes and strides are aligned.
//
// Errors: it panics if more than maxAxes axes remain, which no operation causes.
func (w *work) copyBox(x, y device.Pointer, bytes int, box ...boxAxis) {
	box = mergeAxes(box)
	// The innermost axis must be contiguous, so that its elements can be combined.
	if k := len(box) - 1; k < 0 || box[k].x != 1 || box[k].y != 1 {
		box = append(box, boxAxis{1, 1, 1})
	}
	last := len(box) - 1
	multiples := []int{address(x), address(y), box[last].n * bytes}
	for _, a := range box[:last] {
		multiples = append(multiples, a.x*bytes, a.y*bytes)
	}
	name, wide := unit(bytes, multiples...)
	per := wide / bytes
	box[last].n /= per
	for k := range box[:last] {
		box[k].x /= per
		box[k].y /= per
	}
	// The kernel derives the size of the first axis from n, as it may exceed 32 bits.
	for len(box) < maxAxes {
		box = append(box, boxAxis{1, 0, 0})
	}
	if len(box) > maxAxes {
		panic("cuda: a box of more than five axes")
	}
	n := int64(1)
	var sizes, xs, ys []any
	for k, a := range box {
		n *= int64(a.n)
		if k > 0 {
			sizes = append(sizes, int32(a.n))
		}
		xs, ys = append(xs, int64(a.x)), append(ys, int64(a.y))
	}
	if x == nil {
		w.call(copies(name), "clear_box", gridFor(n), append(append([]any{y, n}, sizes...), ys...)...)
		return
	}
	args := append([]any{x, y, n}, sizes...)
	w.call(copies(name), "copy_box", gridFor(n), append(append(args, xs...), ys...)...)
}

// copies returns the program of copies in a unit.
func copies(unit string) device.Program { return kernels.Program("copies.cu", define("U", unit)) }

// copyLanes adds the copy of channels first to first+count of x to the channels from to
// on of y, both with channels last. It writes room channels of y from at0 on; those
// that are not copied become zero.
func (w *work) copyLanes(x, y backend.Tensor, first, count, at0, room, to int) {
	points := y.Shape.Size() / y.Shape[1]
	xl, yl := graph.ChannelsLast.PaddedChannels(x.Shape[1]), graph.ChannelsLast.PaddedChannels(y.Shape[1])
	name, wide := unit(bytesOf(x), first*bytesOf(x), count*bytesOf(x), at0*bytesOf(x), room*bytesOf(x), to*bytesOf(x), xl*bytesOf(x), yl*bytesOf(x))
	per := wide / bytesOf(x)
	args := append([]any{at(x), at(y), int64(points) * int64(room/per)}, int32s(xl/per, first/per, count/per, yl/per, at0/per, room/per, to/per)...)
	w.call(copies(name), "copy_lanes", gridFor(int64(points)*int64(room/per)), args...)
}

// isChannelAxis reports whether an axis is that of channels which are last.
func isChannelAxis(t backend.Tensor, axis int) bool {
	return t.Layout == graph.ChannelsLast && axis == 1
}

// runs returns the number of elements outer an axis, along it and after it, in memory
// order.
func runs(t backend.Tensor, axis int) (outer, size, inner int) {
	s, k := storageAxes(t, axis)
	return s[:k].Size(), s[k], s[k+1:].Size()
}

// concat prepares concat along an axis. Every operand is a box of the result; boxes are
// copied in the widest type that addresses and strides permit.
//
// Along channels that are last, operands need not begin at a multiple of 8 channels,
// and the last operand also writes the padding.
//
// Shape: [… nᵢ …] → [… Σnᵢ …].
func concat(b *Backend, q backend.Request) (backend.Kernel, error) {
	w, axis, at0 := &work{b: b}, q.Attrs.(op.AlongAxis).Axis, 0
	_, all, inner := runs(q.Out, axis)
	for i, t := range q.In {
		if isChannelAxis(q.Out, axis) {
			n, room := t.Shape[1], t.Shape[1]
			if i == len(q.In)-1 {
				room = all - at0
				if at0%widthLast == 0 { // its lanes beyond the channels are zero
					n = room
				}
			}
			w.copyLanes(t, q.Out, 0, n, at0, room, 0)
			at0 += n
			continue
		}
		outer, size, _ := runs(t, axis)
		w.copyBox(at(t), offset(q.Out, at0*inner), bytesOf(t), boxAxis{outer, size * inner, all * inner}, boxAxis{size * inner, 1, 1})
		at0 += size
	}
	return w.kernel("concat")
}

// slice prepares slice: the range [Lo, Hi) of an axis.
//
// Shape: [… n …] → [… Hi−Lo …].
func slice(b *Backend, q backend.Request) (backend.Kernel, error) {
	w, a := &work{b: b}, q.Attrs.(op.Range)
	if isChannelAxis(q.Out, a.Axis) {
		w.copyLanes(q.In[0], q.Out, a.Lo, a.Hi-a.Lo, 0, graph.ChannelsLast.PaddedChannels(q.Out.Shape[1]), 0)
		return w.kernel("slice")
	}
	outer, all, inner := runs(q.In[0], a.Axis)
	run := (a.Hi - a.Lo) * inner
	w.copyBox(offset(q.In[0], a.Lo*inner), at(q.Out), bytesOf(q.Out), boxAxis{outer, all * inner, run}, boxAxis{run, 1, 1})
	return w.kernel("slice")
}

// embed prepares embed, the adjoint of slice: x in the range [Lo, Hi) of an axis, zeros
// elsewhere.
//
// Shape: [… Hi−Lo …] → [… Size …].
func embed(b *Backend, q backend.Request) (backend.Kernel, error) {
	w, a := &work{b: b}, q.Attrs.(op.Range)
	if isChannelAxis(q.Out, a.Axis) {
		w.copyLanes(q.In[0], q.Out, 0, a.Hi-a.Lo, 0, graph.ChannelsLast.PaddedChannels(q.Out.Shape[1]), a.Lo)
		return w.kernel("embed")
	}
	outer, all, inner := runs(q.Out, a.Axis)
	name, wide := unit(bytesOf(q.Out), inner*bytesOf(q.Out), address(at(q.In[0])), address(at(q.Out)))
	inner = inner * bytesOf(q.Out) / wide
	n := int64(outer) * int64(all) * int64(inner)
	w.call(copies(name), "embed", gridFor(n), append([]any{at(q.In[0]), at(q.Out), n}, int32s(inner, all, a.Lo, a.Hi)...)...)
	return w.kernel("embed")
}

// setRepeat prepares set_repeat: x repeated for every member of a set.
//
// Shape: x [N …] → y [N·M …].
func setRepeat(b *Backend, q backend.Request) (backend.Kernel, error) {
	w, m := &work{b: b}, q.Attrs.(op.Set).Size
	rows, run := q.In[0].Shape[0], int(elems(q.In[0]))/q.In[0].Shape[0]
	w.copyBox(at(q.In[0]), at(q.Out), bytesOf(q.Out), boxAxis{rows, run, m * run}, boxAxis{m, 0, run}, boxAxis{run, 1, 1})
	return w.kernel("set_repeat")
}

// setTranspose prepares set_transpose: the members of a set, a grid of rows × columns,
// are stored by columns.
//
// Shape: x [N·R·C …] → y [N·C·R …].
func setTranspose(b *Backend, q backend.Request) (backend.Kernel, error) {
	w, a := &work{b: b}, q.Attrs.(op.Grid)
	set := a.Rows * a.Columns
	run := int(elems(q.In[0])) / q.In[0].Shape[0]
	w.copyBox(at(q.In[0]), at(q.Out), bytesOf(q.Out), boxAxis{q.In[0].Shape[0] / set, set * run, set * run},
		boxAxis{a.Columns, run, a.Rows * run}, boxAxis{a.Rows, a.Columns * run, run}, boxAxis{run, 1, 1})
	return w.kernel("set_transpose")
}

// setSwap prepares set_swap: the axis of members and the level axis exchange their
// places. Attention between levels uses it, with levels as members.
//
// Shape: x [N·M C D H W] → y [N·D C M H W].
func setSwap(b *Backend, q backend.Request) (backend.Kernel, error) {
	w, rows, s := &work{b: b}, q.Attrs.(op.Swap).Size, q.In[0].Shape
	samples, channels, levels, run := s[0]/rows, s[1], s[2], s[3]*s[4]
	if q.Out.Layout == graph.ChannelsLast { // channels are part of the runs
		run, channels = run*graph.ChannelsLast.PaddedChannels(channels), 1
	}
	row, to := channels*levels*run, channels*rows*run
	w.copyBox(at(q.In[0]), at(q.Out), bytesOf(q.Out), boxAxis{samples, rows * row, levels * to}, boxAxis{levels, run, to},
		boxAxis{channels, levels * run, rows * run}, boxAxis{rows, row, run}, boxAxis{run, 1, 1})
	return w.kernel("set_swap")
}

// copied prepares operations that do not change a value as it is stored, reshape and
// stop_gradient.
func copied(b *Backend, q backend.Request) (backend.Kernel, error) {
	w := &work{b: b}
	w.copyBox(at(q.In[0]), at(q.Out), bytesOf(q.Out), boxAxis{int(elems(q.Out)), 1, 1})
	return w.kernel("copy")
}
