package cuda

import (
	"fmt"
	"unsafe"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/kernels"
	"github.com/ensemble-weather/ensemble/engine/graph"
)

// boxOf returns the sizes and strides of a box of a value in memory order, and the
// index of its first element.
//
// Errors: a box beyond the value, or one that cuts channels that are last.
func boxOf(t backend.Tensor, lo, size graph.Shape) (n, strides []int, first int, err error) {
	s, _ := storageAxes(t, 0)
	n, strides = make([]int, len(s)), s.Strides()
	for axis := range s {
		if lo[axis] < 0 || size[axis] < 0 || lo[axis]+size[axis] > t.Shape[axis] {
			return nil, nil, 0, fmt.Errorf("box of size %v at %v is outside of shape %v", size, lo, t.Shape)
		}
		_, k := storageAxes(t, axis)
		n[k] = size[axis]
		first += lo[axis] * strides[k]
	}
	if t.Layout == graph.ChannelsLast {
		if size[1] != t.Shape[1] {
			return nil, nil, 0, fmt.Errorf("channels %d to %d of shape %v: with channels last, want all channels", lo[1], lo[1]+size[1], t.Shape)
		}
		n[4] = s[4] // include the padding channels
	}
	return n, strides, first, nil
}

// TensorAt returns a tensor of shape s in the given memory, with the layout and storage
// type of like.
func (b *Backend) TensorAt(place []float32, like backend.Tensor, s graph.Shape) backend.Tensor {
	t := backend.Tensor{Shape: s, Layout: like.Layout, DType: like.DType}
	if n := like.Layout.Elems(s); like.U16 != nil {
		t.U16 = unsafe.Slice((*uint16)(start(place)), n)
	} else {
		t.F32 = place[:n]
	}
	return t
}

// CopyBox returns a kernel that copies the box of x at lo to the box of y at to. Both
// have one layout and storage type. Boxes of channels-last fields include all channels.
// Halo exchange uses it to pack and unpack messages.
func (b *Backend) CopyBox(x backend.Tensor, lo graph.Shape, y backend.Tensor, to, size graph.Shape) (backend.Kernel, error) {
	n, from, i, err := boxOf(x, lo, size)
	if err != nil {
		return backend.Kernel{}, err
	}
	_, into, j, err := boxOf(y, to, size)
	if err != nil {
		return backend.Kernel{}, err
	}
	box := make([]boxAxis, len(n))
	for k := range n {
		box[k] = boxAxis{n[k], from[k], into[k]}
	}
	w := &work{b: b}
	w.copyBox(offset(x, i), offset(y, j), bytesOf(x), box...)
	return w.kernel("copy")
}

// ClearBox returns a kernel that sets the box of y at lo to zero.
func (b *Backend) ClearBox(y backend.Tensor, lo, size graph.Shape) (backend.Kernel, error) {
	n, strides, i, err := boxOf(y, lo, size)
	if err != nil {
		return backend.Kernel{}, err
	}
	box := make([]boxAxis, len(n))
	for k := range n {
		box[k] = boxAxis{n[k], strides[k], strides[k]}
	}
	w := &work{b: b}
	w.copyBox(nil, offset(y, i), bytesOf(y), box...)
	return w.kernel("clear")
}

// MergeMoments returns a kernel that merges the moments [2 C] of several ranks,
// concatenated in all, to the moments y of their union. Part k has counts[k] values per
// channel.
//
//	n = n₁ + n₂,  δ = m₂ − m₁
//	m = m₁ + δ·n₂/n,  S = S₁ + S₂ + δ²·n₁n₂/n,  variance = S/n
//
// Source: Chan, Golub and LeVeque 1979, Stanford STAN-CS-79-773, equation 2.1.
func (b *Backend) MergeMoments(all []float32, counts []int, y backend.Tensor) (backend.Kernel, error) {
	bits := make([]int32, 0, 2*len(counts))
	for _, n := range counts { // 64 bits each
		bits = append(bits, int32(uint32(n)), int32(uint32(uint64(n)>>32)))
	}
	table, release, err := b.table(bits)
	if err != nil {
		return backend.Kernel{}, err
	}
	w, channels := &work{b: b}, y.Shape[1]
	w.call(momentsProgram, "join_moments", gridFor(int64(channels)), start(all), table, at(y), int32(channels), int32(len(counts)))
	k, err := w.kernel("join_moments")
	k.Close = release
	if err != nil {
		release()
		return backend.Kernel{}, err
	}
	return k, nil
}

// momentsProgram merges moments.
var momentsProgram = kernels.Program("moments.cu")
