package cuda

import (
	"cmp"
	"errors"
	"slices"
	"time"
	"unsafe"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/tune"
)

// variantRules lists the operations with several variants.
var variantRules = map[string]func(b *Backend, q backend.Request) (own []variant, library libraryVariants, err error){
	"conv3d":                   convVariants,
	"conv3d_fused":             convVariants,
	"conv3d_grad_data":         dataVariants,
	"conv3d_fused_grad_data":   dataVariants,
	"conv3d_grad_filter":       filterVariants,
	"conv3d_fused_grad_filter": filterVariants,
	"conv3d_int8":              int8Variants,
}

// Variants lists the variants of a convolution, those of the library also in pieces,
// with their times.
//
// Times are measured if the device can time and has memory for the operands; else they
// are estimates that increase in the order of variants. A variant that was chosen
// before has time 0, so that it is used wherever its scratch fits. Variants differ in
// the last bits of their results.
func (b *Backend) Variants(q backend.Request) (cuts []backend.Variant, err error) {
	ways := variantRules[q.Op.Name]
	if ways == nil {
		return nil, nil
	}
	key := describe(q)
	e, known := b.timingsOf(key)
	if !known {
		if err := b.Do(func() (err error) { e, err = b.measure(key, q); return err }); err != nil {
			return nil, err
		}
	}
	for _, c := range e.Candidates {
		cut := backend.Variant{Name: c.Name, Bytes: c.Bytes, Time: c.Wall}
		if c.Name == b.choices[key] {
			cut.Time = 0
		}
		cuts = append(cuts, cut)
	}
	return cuts, nil
}

// timingsOf returns the known timings of an operation.
func (b *Backend) timingsOf(key string) (tune.Entry, bool) {
	if e, ok := b.estimates[b.timesKey(key)]; ok {
		return e, true
	}
	return b.timings.Lookup(b.timesKey(key))
}

// measure benchmarks the variants of an operation on temporary memory, or estimates
// their times.
func (b *Backend) measure(key string, q backend.Request) (e tune.Entry, err error) {
	if clock, ok := b.dev.(device.Profiler); ok {
		bound, free, err := b.allocOperands(q)
		if err == nil {
			own, library, err := variantRules[q.Op.Name](b, bound)
			all := append(own, library.all(true)...)
			if err == nil && len(all) > 0 {
				var i int
				if i, err = b.benchmark(clock, key, all); err == nil && all[i].onChosen != nil {
					all[i].onChosen() // it will be prepared soon
				}
			}
			closeVariants(all)
			e, _ = b.timingsOf(key)
			b.estimates[b.timesKey(key)] = e
			return e, errors.Join(err, free())
		}
		if !errors.Is(err, device.ErrOutOfMemory) {
			return e, err
		}
	}
	// No clock, or not enough memory for the operands: estimate.
	b.dryRun = true
	defer func() { b.dryRun = false }()
	own, library, err := variantRules[q.Op.Name](b, withDummyMemory(q))
	if err != nil {
		return e, err
	}
	all := append(own[:min(len(own), 1)], library.all(true)...) // estimates do not rank our tiles
	defer closeVariants(all)
	estimate := time.Duration(b.EstimateSeconds(q) * float64(time.Second))
	for i, w := range all {
		took := estimate + estimate*time.Duration(i)/16
		e.Candidates = append(e.Candidates, tune.Timing{Name: w.name, Wall: took, Bytes: elem * int64(w.scratch)})
	}
	b.estimates[b.timesKey(key)] = e
	return e, nil
}

// closeVariants frees variants.
func closeVariants(all []variant) {
	for _, w := range all {
		if w.close != nil {
			w.close()
		}
	}
}

// allocOperands allocates memory for the tensors of a request that have none; free
// frees it.
func (b *Backend) allocOperands(q backend.Request) (bound backend.Request, free func() error, err error) {
	var taken []device.Pointer
	free = func() (err error) {
		for _, p := range taken {
			err = errors.Join(err, b.dev.Free(p))
		}
		return err
	}
	place := func(t backend.Tensor) (backend.Tensor, error) {
		bytes := int64(storedBytes(t))
		p, err := b.dev.Alloc(bytes)
		if err != nil {
			return t, err
		}
		taken = append(taken, p)
		return bindMemory(t, p), b.dev.Zero(p, bytes)
	}
	bound = q
	bound.In = slices.Clone(q.In)
	for i := range q.In {
		if bound.In[i], err = place(q.In[i]); err != nil {
			return q, nil, errors.Join(err, free())
		}
	}
	if bound.Out, err = place(q.Out); err != nil {
		return q, nil, errors.Join(err, free())
	}
	return bound, free, nil
}

// bindMemory returns a value at an address, unless it has memory.
func bindMemory(t backend.Tensor, p device.Pointer) backend.Tensor {
	if t.F32 != nil || t.U16 != nil || t.U8 != nil {
		return t
	}
	n := int(elems(t))
	switch t.DType {
	case graph.BFloat16, graph.Float16:
		t.U16 = unsafe.Slice((*uint16)(p), n)
	case graph.UInt8:
		t.U8 = unsafe.Slice((*uint8)(p), n)
	default:
		t.F32 = unsafe.Slice((*float32)(p), n)
	}
	return t
}

// withDummyMemory returns a request with invalid addresses in place of missing memory,
// to prepare kernels that will not run.
func withDummyMemory(q backend.Request) backend.Request {
	const nowhere = 1 << 16
	in := slices.Clone(q.In)
	for i, t := range in {
		in[i] = bindMemory(t, unsafe.Add(device.Pointer(nil), nowhere))
	}
	q.In, q.Out = in, bindMemory(q.Out, unsafe.Add(device.Pointer(nil), nowhere))
	return q
}

// Scratch returns the bytes of scratch of the kernel of a request, in the variant that
// it names.
func (b *Backend) Scratch(q backend.Request) (bytes int64, err error) {
	if op.IsHostCopy(q.Op) {
		return 0, nil
	}
	if variantRules[q.Op.Name] != nil {
		cuts, err := b.Variants(q)
		if err != nil || len(cuts) == 0 {
			return 0, err
		}
		i := max(0, slices.IndexFunc(cuts, func(c backend.Variant) bool { return c.Name == q.Variant }))
		return cuts[i].Bytes, nil
	}
	err = b.Do(func() error {
		b.dryRun = true
		defer func() { b.dryRun = false }()
		k, err := b.Prepare(withDummyMemory(q))
		if k.Close != nil {
			k.Close()
		}
		bytes = k.Scratch
		return err
	})
	return bytes, err
}

// sorted sorts timings, the fastest first.
func sorted(all []tune.Timing) []tune.Timing {
	slices.SortStableFunc(all, func(a, b tune.Timing) int { return cmp.Compare(a.Wall, b.Wall) })
	return all
}
