package cuda

import (
	"slices"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/kernels"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// maxSetRows is the number of rows of a set that kernels hold.
const maxSetRows = 512

// setReductions are the kinds of pooling in the order of sets.cu.
var setReductions = []op.SetReduction{op.ReduceSum, op.ReduceMean, op.ReduceStd, op.ReduceMin, op.ReduceMax}

// setKernel makes a kernel of one call over the points of sets of so many rows of operand 0:
// kernel(operands…, result, n, inner, rows, more…). Of sets that are too large there is none.
func (b *Backend) setKernel(q backend.Request, name string, rows int, more ...any) (backend.Kernel, error) {
	if rows > maxSetRows {
		return backend.Kernel{}, nil
	}
	size := 1
	for size < rows {
		size *= 2
	}
	s := q.In[0].Shape
	inner := int64(s[1:].Size())
	n := int64(s[0]/rows) * inner
	w := &work{b: b}
	w.call(kernels.Program("sets.cu", define("SIZE", size)), name, gridFor(n), append(append(addresses(q), n, inner, int32(rows)), more...)...)
	return w.kernel(name)
}

func setPool(b *Backend, q backend.Request) (backend.Kernel, error) {
	a := q.Attrs.(op.Set)
	return b.setKernel(q, "set_pool", a.Size, int32(slices.Index(setReductions, a.Kind)))
}

// setPoolGrad serves set_std_grad and set_extreme_grad.
func setPoolGrad(b *Backend, q backend.Request) (backend.Kernel, error) {
	return b.setKernel(q, q.Op.Name, q.Attrs.(op.Set).Size)
}

// setCRPS serves set_crps and set_crps_grad.
func setCRPS(b *Backend, q backend.Request) (backend.Kernel, error) {
	a := q.Attrs.(op.SetScore)
	return b.setKernel(q, q.Op.Name, a.Size, int32(a.Groups), float32(a.PairWeight()))
}
