package cuda

import (
	"math"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/kernels"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// combineProgram holds the kernels of weight templates.
var combineProgram = kernels.Program("combine.cu")

// Kinds of templates in combine.cu.
const (
	sameSize = iota
	resized
)

// templateArgs returns the arguments at the end of all kernels of templates: their
// offsets on the device, and their form.
func templateArgs(offsets device.Pointer, a op.Templates) []any {
	n := a.To.Size()
	kind, values, rows, columns := sameSize, n, 0, 0
	if a.Rows > 0 {
		kind, values, rows, columns = resized, a.Rows*a.Columns, a.To[0], n/a.To[0]
	}
	return append([]any{offsets}, int32s(len(a.Offsets), n, kind, values, a.Rows, a.Columns, rows, columns)...)
}

// templates prepares a kernel of templates, with their offsets on the device. Kernels
// use 32-bit indices; larger templates run the reference kernel.
func (b *Backend) templates(q backend.Request, a op.Templates, store int, bind func(args []any) (backend.Kernel, error)) (backend.Kernel, error) {
	if max(store, a.To.Size()) > math.MaxInt32 {
		return backend.Kernel{}, nil
	}
	var offsets []int32
	for _, o := range a.Offsets {
		offsets = append(offsets, int32(o))
	}
	p, release, err := b.table(offsets)
	if err != nil {
		return backend.Kernel{}, err
	}
	k, err := bind(templateArgs(p, a))
	if err != nil {
		release()
		return backend.Kernel{}, err
	}
	k.Close = release
	return k, nil
}

// combine prepares combine: the weights of a layer as a linear combination of shared
// templates:
//
//	w = Σ_k a_k·template_k
//
// Shape: templates in a flat store, at offsets; coefficients [K] → the shape of the
// weights.
// Source: Plummer et al. 2020, arXiv:2006.10598, section 3.
func combine(b *Backend, q backend.Request) (backend.Kernel, error) {
	a := q.Attrs.(op.Templates)
	return b.templates(q, a, q.In[0].Shape.Size(), func(args []any) (backend.Kernel, error) {
		w := &work{b: b}
		w.call(combineProgram, "combine", gridFor(int64(a.To.Size())), append(addresses(q), args...)...)
		return w.kernel("combine")
	})
}

// combineGradStore prepares combine_grad_store, the gradient with respect to the
// templates.
func combineGradStore(b *Backend, q backend.Request) (backend.Kernel, error) {
	a, size := q.Attrs.(op.StoreTemplates), q.Out.Shape.Size()
	return b.templates(q, a.Templates, size, func(args []any) (backend.Kernel, error) {
		w := &work{b: b}
		w.call(combineProgram, "combine_grad_store", gridFor(int64(size)), append(append(addresses(q), args...), int32(size))...)
		return w.kernel("combine_grad_store")
	})
}

// combineGradCoefficients prepares combine_grad_coefficients, the gradient with respect
// to the coefficients: da_k = Σ dw·template_k, as sums over parts that are added in a
// fixed order.
func combineGradCoefficients(b *Backend, q backend.Request) (backend.Kernel, error) {
	a := q.Attrs.(op.Templates)
	n, k := a.To.Size(), len(a.Offsets)
	each := threads * 32
	parts := (n + each - 1) / each
	join := reduction{kept: []boxAxis{{k, 1, 1}}, summed: []boxAxis{{parts, k, k}}, innerKept: true}
	return b.templates(q, a, q.In[0].Shape.Size(), func(args []any) (backend.Kernel, error) {
		return b.withScratch("combine_grad_coefficients", parts*k, func(w *work, scratch []float32) {
			args := append(append([]any{at(q.In[0]), at(q.In[1]), start(scratch)}, args...), int32(each))
			w.call(combineProgram, "combine_grad_coefficients", device.Size{Grid: [3]int{parts, k}, Block: [3]int{threads}}, args...)
			w.sumBox("float", start(scratch), at(q.Out), join, int64(parts))
		})
	})
}
