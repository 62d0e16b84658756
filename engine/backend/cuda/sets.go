package cuda

import (
	"slices"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/kernels"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// maxSetRows is the largest number of members of a set that kernels hold.
const maxSetRows = 512

// setReductions lists the reductions in the order of sets.cu.
var setReductions = []op.SetReduction{op.ReduceSum, op.ReduceMean, op.ReduceStd, op.ReduceMin, op.ReduceMax}

// setKernel returns a kernel of one call with a thread per point of each set of operand
// 0: kernel(operands…, result, n, inner, rows, more…). Larger sets run the reference
// kernel.
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

// setPool prepares set_pool, a reduction over the members of each set: sum, mean,
// standard deviation (divisor M−1), minimum or maximum.
//
// Shape: x [N·M C …] → y [N C …].
func setPool(b *Backend, q backend.Request) (backend.Kernel, error) {
	a := q.Attrs.(op.Set)
	return b.setKernel(q, "set_pool", a.Size, int32(slices.Index(setReductions, a.Kind)))
}

// setPoolGrad prepares set_std_grad and set_extreme_grad:
//
//	standard deviation  dy·(x − mean)/((M−1)·max(y, 1e-6))
//	minimum, maximum    dy in equal shares to the members equal to y
//
// Shape: x [N·M C …], y, dy [N C …] → dx [N·M C …].
func setPoolGrad(b *Backend, q backend.Request) (backend.Kernel, error) {
	return b.setKernel(q, q.Op.Name, q.Attrs.(op.Set).Size)
}

// setCRPS prepares set_crps and set_crps_grad: the kernel CRPS of an ensemble.
//
//	(1/M) Σᵢ|xᵢ−y| − pair · Σ_{i<j}|xᵢ−xⱼ|
//
// Source: Ferro 2014, doi:10.1002/qj.2270 (fair CRPS).
func setCRPS(b *Backend, q backend.Request) (backend.Kernel, error) {
	a := q.Attrs.(op.SetScore)
	return b.setKernel(q, q.Op.Name, a.Size, int32(a.Groups), float32(a.PairWeight()))
}
