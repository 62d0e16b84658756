package conformance

import (
	"fmt"
	"math"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// TestValues compares every operation on every backend with the reference.
func TestValues(t *testing.T) {
	for _, b := range engine.Backends {
		for _, threads := range []int{1, 2} {
			if b.Name == "ref" && threads > 1 {
				continue
			}
			t.Run(fmt.Sprintf("%s-%d", b.Name, threads), func(t *testing.T) {
				dev, err := b.Open(engine.Options{Threads: threads, ByRule: true})
				if exit.CodeOf(err) == exit.NoDevice {
					t.Skip("skipped: no device:", err)
				}
				if err != nil {
					t.Fatal(err)
				}
				defer dev.Close()
				eachCase(t, func(t *testing.T, o *graph.Op, c graph.Case) { values(t, dev, o, c) })
			})
		}
	}
}

// values checks one case: into a buffer of its own, then over every operand
// over which the operation may run in place.
func values(t *testing.T, dev backend.Backend, o *graph.Op, c graph.Case) {
	in := operands(o, c)
	want, s := reference(t, o, c, in)
	tol := tolerance(o, c, s, want)
	for over := -1; over < len(in); over++ {
		if over >= 0 && (o.InPlace == nil || !o.InPlace(over, c.Attrs) || c.In[over].Size() != s.Size()) {
			continue
		}
		var bufs []*guarded
		q := backend.Request{Op: o, Attrs: c.Attrs, Seed: seed, Step: new(uint64)}
		*q.Step = step
		for k, x := range in {
			g := newGuarded(dev.Elem(), x)
			bufs = append(bufs, g)
			q.In = append(q.In, g.tensor(c.In[k]))
		}
		if over < 0 {
			nan := make([]float64, s.Size())
			for i := range nan {
				nan[i] = math.NaN()
			}
			g := newGuarded(dev.Elem(), nan)
			bufs = append(bufs, g)
			q.Out = g.tensor(s)
		} else {
			q.Out = q.In[over]
			q.Out.Shape = s
		}
		name := run(t, dev, q)
		out := bufs[len(bufs)-1]
		if over >= 0 {
			out = bufs[over]
		}
		for i, w := range want {
			if got := out.at(i); !(math.Abs(got-w) <= tol) {
				t.Fatalf("kernel %s over operand %d: element %d of %v is %v, want %v ± %.2g", name, over, i, s, got, w, tol)
			}
		}
		for k, g := range bufs {
			if !g.intact() {
				t.Errorf("kernel %s over operand %d wrote outside of buffer %d", name, over, k)
			}
			if k < len(in) && k != over {
				for i, w := range in[k] {
					if g.at(i) != w {
						t.Fatalf("kernel %s changed operand %d", name, k)
					}
				}
			}
		}
	}
}

// run prepares and runs a kernel, on its own buffer twice: a second run must
// not build on the first, and must not allocate.
func run(t *testing.T, dev backend.Backend, q backend.Request) string {
	t.Helper()
	var k backend.Kernel
	if err := dev.Do(func() (err error) { k, err = dev.Prepare(q); return err }); err != nil {
		t.Fatalf("prepare: %v", err)
	}
	if k.Close != nil {
		defer func() {
			if err := dev.Do(func() error { k.Close(); return nil }); err != nil {
				t.Errorf("close: %v", err)
			}
		}()
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
	if dev.Name() != "ref" && k.Name != "ref" && !inPlace { // reference kernels are plain and may allocate
		if n := testing.AllocsPerRun(3, func() { _ = dev.Do(k.Run) }); n > 0 {
			t.Errorf("kernel %s allocates %v times a run", k.Name, n)
		}
	}
	return k.Name
}

// same tells whether two values share their memory.
func same(x, y backend.Tensor) bool {
	if len(x.F32) > 0 && len(y.F32) > 0 {
		return &x.F32[0] == &y.F32[0]
	}
	return len(x.F64) > 0 && len(y.F64) > 0 && &x.F64[0] == &y.F64[0]
}
