package conformance

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/emulated"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/internal/allocs"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// TestValues compares every operation on every backend with the reference, in
// every way that the backend has: in all its layouts, and these in all types in
// which it stores them.
func TestValues(t *testing.T) { allValues(t, 11) }

// allValues tries, on the emulated GPU, one of step combinations of case, way, storage type and cut, and the first of each
// operation; on others all.
func allValues(t *testing.T, step int) {
	for _, b := range engine.Backends {
		for _, threads := range []int{1, 2} {
			if b.Name != "cpu" && threads > 1 {
				continue
			}
			t.Run(fmt.Sprintf("%s-%d", b.Name, threads), func(t *testing.T) {
				every := 1
				dev, err := b.Open(engine.Options{Device: engine.Device{Threads: threads}, Numerics: engine.Numerics{UseHeuristics: true, Winograd: true}})
				if exit.CodeOf(err) == exit.NoDevice && b.Name == "cuda" {
					t.Log("emulated:", err)
					dev, err = emulated.Open(1 << 30)
					every = step
				}
				if exit.CodeOf(err) == exit.NoDevice {
					t.Skip("skipped: no device:", err)
				}
				if err != nil {
					t.Fatal(err)
				}
				defer dev.Close()
				n, tried := 0, map[string]bool{}
				eachCase(t, func(t *testing.T, o *graph.Op, c graph.Case) {
					for _, w := range ways(t, dev, o, c) {
						for _, d := range storages(dev, w) {
							for _, cut := range cuts(t, dev, o, c, w, d) {
								if n++; n%every == 0 || !tried[o.Name] {
									tried[o.Name] = true
									values(t, dev, o, c, w, d, cut)
								}
							}
						}
					}
				})
			})
		}
	}
}

// ways lists the ways in which a backend runs an operation.
func ways(t *testing.T, dev backend.Backend, o *graph.Op, c graph.Case) []backend.LayoutOption {
	t.Helper()
	all, err := layoutOptionsOf(dev, o, c)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// storages lists the types in which a backend stores the blocked values of a way.
func storages(dev backend.Backend, w backend.LayoutOption) []graph.DType {
	all := []graph.DType{dev.Elem()}
	l, ok := dev.(backend.Layouts)
	for _, d := range []graph.DType{graph.BFloat16, graph.Float16} {
		if ok && l.CanStore(d) && slices.Contains(append(w.In[:len(w.In):len(w.In)], w.Out), l.InnerLayout()) {
			all = append(all, d)
		}
	}
	return all
}

// cuts lists the cuts of the work of a way whose filter has blocks that are zero, which
// differ in what they compute, and the guess of the backend, which stands for all others.
func cuts(t *testing.T, dev backend.Backend, o *graph.Op, c graph.Case, w backend.LayoutOption, d graph.DType) []string {
	t.Helper()
	all := []string{""}
	l, ok := dev.(backend.VariantLister)
	if !ok || !strings.Contains(c.Name, "blocks") {
		return all
	}
	s, err := o.Shape(c.In, c.Attrs)
	if err != nil {
		t.Fatalf("shape rule: %v", err)
	}
	q := backend.Request{Op: o, Attrs: c.Attrs, Out: backend.Tensor{Shape: s, Layout: w.Out}}
	for k, x := range c.In {
		q.In = append(q.In, backend.Tensor{Shape: x, Layout: w.In[k]})
		if w.In[k] != graph.Plain {
			q.In[k].DType = d
		}
	}
	found, err := l.Variants(q)
	if err != nil {
		t.Fatalf("cuts: %v", err)
	}
	for _, f := range found {
		all = append(all, f.Name)
	}
	return all
}

// values checks one case in one way and cut, with blocked values of type d: into a buffer
// of its own, then over every operand over which the operation may run in place.
func values(t *testing.T, dev backend.Backend, o *graph.Op, c graph.Case, w backend.LayoutOption, d graph.DType, cut string) {
	of := func(l graph.Layout) graph.DType {
		if l != graph.Plain {
			return d
		}
		return dev.Elem()
	}
	in := operands(o, c)
	for k, x := range in {
		if of(w.In[k]).Bytes() == 2 || multiplied(dev, o, d) && len(c.In[k]) == 5 {
			for i, v := range x {
				x[i] = halves[d].nearest(v)
			}
		}
	}
	want, s := reference(t, o, c, in)
	tol := tolerance(o, c, s, want)
	to := of(w.Out)
	for over := -1; over < len(in); over++ {
		if over >= 0 && (o.InPlace == nil || !o.InPlace(over, c.Attrs) || of(w.In[over]) != to || w.In[over].Elems(c.In[over]) != w.Out.Elems(s)) {
			continue
		}
		var bufs []*guarded
		q := backend.Request{Op: o, Attrs: c.Attrs, Variant: cut, Seed: seed, Step: new(uint64)}
		*q.Step = step
		for k, x := range in {
			g := newGuarded(of(w.In[k]), stored(x, c.In[k], w.In[k]))
			bufs = append(bufs, g)
			q.In = append(q.In, g.tensor(c.In[k], w.In[k]))
		}
		if over < 0 {
			nan := make([]float64, w.Out.Elems(s))
			for i := range nan {
				nan[i] = math.NaN()
			}
			g := newGuarded(to, nan)
			bufs = append(bufs, g)
			q.Out = g.tensor(s, w.Out)
		} else {
			q.Out = q.In[over]
			q.Out.Shape = s
		}
		back := func() {}
		if r, ok := dev.(backend.Remote); ok {
			q, back = onDevice(t, dev, r, q, bufs)
		}
		name := run(t, dev, q)
		back()
		out := bufs[len(bufs)-1]
		if over >= 0 {
			out = bufs[over]
		}
		for i, v := range stored(want, s, w.Out) {
			tol := tol
			if h, ok := halves[to]; ok {
				tol += h.relative*math.Abs(v) + h.least
			}
			if got := out.at(i); !(math.Abs(got-v) <= tol) {
				t.Fatalf("kernel %s (%v, %v) over operand %d: element %d of %v %v is %v, want %v ± %.2g", name, w.In, d, over, i, w.Out, s, got, v, tol)
			}
		}
		for k, g := range bufs {
			if !g.intact() {
				t.Errorf("kernel %s (%v, %v) over operand %d wrote outside of buffer %d", name, w.In, d, over, k)
			}
			if k < len(in) && k != over {
				for i, v := range stored(in[k], c.In[k], w.In[k]) {
					if g.at(i) != v {
						t.Fatalf("kernel %s (%v, %v) changed operand %d", name, w.In, d, k)
					}
				}
			}
		}
	}
}

// multiplied reports whether all that an operation multiplies may be rounded to how the inner
// values are stored: matrix units take no others. It is the filter, which itself is float32.
func multiplied(dev backend.Backend, o *graph.Op, d graph.DType) bool {
	_, ok := dev.(backend.Remote)
	return ok && d.Bytes() == 2 && strings.HasPrefix(o.Name, "conv3d")
}

// run prepares and runs a kernel, on its own buffer twice: a second run must
// not build on the first, and must not allocate. What the backend says of its
// scratch beforehand, without its memory, must be so.
func run(t *testing.T, dev backend.Backend, q backend.Request) string {
	t.Helper()
	foreseen := int64(-1)
	if c, ok := dev.(backend.VariantLister); ok {
		var err error
		bare := q
		bare.Out, bare.In = withoutMemory(q.Out), nil
		for _, x := range q.In {
			bare.In = append(bare.In, withoutMemory(x))
		}
		if foreseen, err = c.Scratch(bare); err != nil {
			t.Fatalf("scratch: %v", err)
		}
	}
	k, free := withScratch(t, dev, q)
	defer free()
	if foreseen >= 0 && foreseen != k.Scratch {
		t.Errorf("kernel %s: %d bytes of scratch were foreseen, %d are wanted", k.Name, foreseen, k.Scratch)
	}
	if err := dev.Do(k.Run); err != nil {
		t.Fatalf("kernel %s: %v", k.Name, err)
	}
	inPlace := false
	for _, x := range q.In {
		inPlace = inPlace || same(x, q.Out)
	}
	if !inPlace {
		if err := dev.Do(k.Run); err != nil {
			t.Fatalf("kernel %s, second run: %v", k.Name, err)
		}
	}
	if dev.Name() != "ref" && k.Name != "ref" && !k.Blocking && !inPlace { // reference kernels are plain and may allocate
		runs := 3
		if _, ok := dev.(backend.Remote); ok {
			runs = 1 // emulation is slow
		}
		if n := allocs.PerRun(runs, func() { _ = dev.Do(k.Run) }); n > 0 {
			t.Errorf("kernel %s allocates %v times a run", k.Name, n)
		}
	}
	return k.Name
}

// withScratch prepares a kernel with its scratch. free releases both.
func withScratch(t *testing.T, dev backend.Backend, q backend.Request) (k backend.Kernel, free func()) {
	t.Helper()
	if err := dev.Do(func() (err error) { k, err = dev.Prepare(q); return err }); err != nil {
		t.Fatalf("prepare: %v", err)
	}
	free = func() {
		if k.Close == nil {
			return
		}
		if err := dev.Do(func() error { k.Close(); return nil }); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if b, ok := dev.(backend.ScratchSetter); ok { // results must not depend on the contents of scratch
		scratch := make([]float32, k.Scratch/4)
		for i := range scratch {
			scratch[i] = float32(math.NaN())
		}
		b.SetScratch(scratch)
	}
	r, remote := dev.(backend.Remote)
	if k.SetScratch != nil {
		var scratch []float32
		if err := dev.Do(func() error {
			scratch = fresh(t, r, int(k.Scratch/4))
			return k.SetScratch(scratch)
		}); err != nil {
			t.Fatalf("kernel %s: place: %v", k.Name, err)
		}
		closeKernel := free
		free = func() {
			closeKernel()
			if err := dev.Do(func() error { return r.Free(scratch) }); err != nil {
				t.Error(err)
			}
		}
	}
	if remote {
		if err := dev.Do(func() error { return r.SetStep(step) }); err != nil {
			t.Fatal(err)
		}
	}
	return k, free
}

func withoutMemory(x backend.Tensor) backend.Tensor {
	return backend.Tensor{Shape: x.Shape, Layout: x.Layout, DType: x.Stored()}
}

// same reports whether two values share their memory.
func same(x, y backend.Tensor) bool {
	if len(x.F32) > 0 && len(y.F32) > 0 {
		return &x.F32[0] == &y.F32[0]
	}
	if len(x.U16) > 0 && len(y.U16) > 0 {
		return &x.U16[0] == &y.U16[0]
	}
	return len(x.F64) > 0 && len(y.F64) > 0 && &x.F64[0] == &y.F64[0]
}
