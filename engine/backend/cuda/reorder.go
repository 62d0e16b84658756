package cuda

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/kernels"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// reorder prepares the conversion of a field between the plain and the channels-last
// layout, or a copy if both layouts are equal. Tiles of 32×32 are transposed in shared
// memory, so that reads and writes are both contiguous.
func reorder(b *Backend, q backend.Request) (backend.Kernel, error) {
	x, y := q.In[0], q.Out
	if x.Layout == y.Layout {
		return b.chain(q, op.Chain{Operands: 1, Links: []op.Link{{Op: op.Find("broadcast"), Args: []int{0}}}})
	}
	w := &work{b: b}
	return w.kernel(w.reorder(x, y))
}

// reorder adds the call that converts the layout of a field, and returns the name of
// the kernel.
func (w *work) reorder(x, y backend.Tensor) string {
	const tile, rows = 32, 8 // of layout.cu
	f := fieldOf(y.Shape)
	size := device.Size{Grid: [3]int{int((f.P + tile - 1) / tile), (f.Lanes + tile - 1) / tile, f.N}, Block: [3]int{tile, rows}}
	name, inner := "to_plain", x
	if y.Layout == graph.ChannelsLast {
		name, inner = "to_last", y
	}
	w.call(kernels.Program("layout.cu", define("T", stored(inner))), name, size, at(x), at(y), int32(f.C), int32(f.Lanes), f.P)
	return name
}
