package conformance

import (
	"math"
	"testing"
	"unsafe"

	"github.com/ensemble-weather/ensemble/engine/backend"
)

// words is the memory of a buffer with its guards, as float32.
func (g *guarded) words() []float32 {
	if g.all16 != nil {
		return unsafe.Slice((*float32)(unsafe.Pointer(&g.all16[0])), len(g.all16)/2)
	}
	return g.all32
}

// fresh is memory of the device that holds no numbers. It is called within Do.
func fresh(t *testing.T, r backend.Remote, n int) []float32 {
	t.Helper()
	x, err := r.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	nan := make([]float32, n)
	for i := range nan {
		nan[i] = float32(math.NaN())
	}
	if err := r.Copy(x, nan); err != nil {
		t.Fatal(err)
	}
	return x
}

// onDevice brings the buffers of a request to the device, guards included; back brings
// them all back, and frees them there.
func onDevice(t *testing.T, dev backend.Backend, r backend.Remote, q backend.Request, bufs []*guarded) (there backend.Request, back func()) {
	t.Helper()
	do := func(f func() error) {
		t.Helper()
		if err := dev.Do(f); err != nil {
			t.Fatal(err)
		}
	}
	memory := make([][]float32, len(bufs))
	do(func() error {
		for i, g := range bufs {
			memory[i] = fresh(t, r, len(g.words()))
			if err := r.Copy(memory[i], g.words()); err != nil {
				return err
			}
		}
		return nil
	})
	move := func(x backend.Tensor) backend.Tensor {
		for i, g := range bufs {
			if !same(x, g.tensor(x.Shape, x.Layout)) {
				continue
			}
			if g.all16 != nil {
				x.U16 = unsafe.Slice((*uint16)(unsafe.Pointer(&memory[i][0])), len(g.all16))[guard : guard+g.n : guard+g.n]
			} else {
				x.F32 = memory[i][guard : guard+g.n : guard+g.n]
			}
			return x
		}
		t.Fatal("a tensor without a buffer")
		return x
	}
	there = q
	there.Out, there.In = move(q.Out), nil
	for _, x := range q.In {
		there.In = append(there.In, move(x))
	}
	return there, func() {
		t.Helper()
		do(func() error {
			for i, g := range bufs {
				if err := r.Copy(g.words(), memory[i]); err != nil {
					return err
				}
			}
			if err := r.Wait(); err != nil {
				return err
			}
			for _, x := range memory {
				if err := r.Free(x); err != nil {
					return err
				}
			}
			return nil
		})
	}
}
