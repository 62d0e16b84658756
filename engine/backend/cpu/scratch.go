//go:build cgo && linux

package cpu

import (
	"slices"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/internal/bigmem"
)

// Scratch returns the bytes of scratch that the kernel of a request needs.
//
// The kernel is prepared on dummy memory that it never touches, and scratch is not
// allocated (dryRun).
//
// Errors: those of Prepare.
func (b *Backend) Scratch(q backend.Request) (bytes int64, err error) {
	blank := func(t backend.Tensor) backend.Tensor {
		n := t.Layout.Elems(t.Shape)
		if len(b.dummy) < n {
			b.dummy = bigmem.Make[float32](n)
		}
		t.F32 = b.dummy[:n]
		if t.DType == graph.UInt8 {
			t.F32, t.U8 = nil, bigmem.Bytes(b.dummy)[:n]
		}
		return t
	}
	q.In = slices.Clone(q.In)
	for i, t := range q.In {
		q.In[i] = blank(t)
	}
	q.Out = blank(q.Out)
	err = b.Do(func() error {
		b.dryRun = true
		defer func() { b.dryRun = false }()
		k, err := b.Prepare(q)
		if err == nil && k.Close != nil {
			k.Close()
		}
		bytes = k.Scratch
		return err
	})
	return bytes, err
}
