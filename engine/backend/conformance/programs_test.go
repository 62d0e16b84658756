//go:build long && cgo && linux

package conformance

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/emulate"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/kernels"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/libraries"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/nvrtc"
	"github.com/ensemble-weather/ensemble/engine/graph"
)

// collector is a device that writes programs down and runs none.
type collector struct {
	*emulate.Device
	programs map[string]device.Program
}

func (c collector) Load(p device.Program) (device.Module, error) {
	c.programs[strings.Join(append([]string{p.Name, p.Source}, p.Defines...), "\x00")] = p
	return c, nil
}

func (c collector) Call(string, device.Size, ...any) (device.Call, error) { return c, nil }

func (c collector) Run() error { return nil }

// TestLongPrograms: every program that some case of some operation is computed with, chains
// of formulas among them, compiles with NVRTC for all architectures, as it does for the
// emulated device.
func TestLongPrograms(t *testing.T) {
	dir, err := filepath.Abs("../../../build/venv")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(libraries.PathVariable, dir)
	compiler, err := nvrtc.Open()
	if err != nil {
		t.Fatalf("%v\nscripts/setup.sh test installs it", err)
	}
	c := collector{programs: map[string]device.Program{}}
	dev, err := cuda.Over(func() (device.Device, error) {
		var err error
		c.Device, err = emulate.Open(1 << 30)
		return c, err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	eachCase(t, func(t *testing.T, o *graph.Op, c graph.Case) {
		s, err := o.Shape(c.In, c.Attrs)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range ways(t, dev, o, c) {
			for _, d := range storages(dev, w) {
				prepared(t, dev, o, c, s, w, d)
			}
		}
	})
	all := make([]string, 0, len(c.programs))
	for key := range c.programs {
		all = append(all, key)
	}
	slices.Sort(all)
	t.Logf("%d programs", len(all))
	for _, key := range all {
		p := c.programs[key]
		for _, a := range []int{70, 80, 90} {
			if _, err := compiler.Compile(p, a); err != nil {
				_, tail, _ := strings.Cut(p.Source, "\nKERNEL chain(")
				t.Errorf("%s: %v\n%s", kernels.Variant(p), err, tail)
			}
		}
	}
}

// prepared prepares the kernel of a case in one way, on memory of the device.
func prepared(t *testing.T, dev *cuda.Backend, o *graph.Op, c graph.Case, out graph.Shape, w backend.Way, d graph.DType) {
	t.Helper()
	of := func(l graph.Layout, s graph.Shape) (*guarded, backend.Tensor) {
		elem := dev.Elem()
		if l != graph.Plain {
			elem = d
		}
		g := newGuarded(elem, make([]float64, l.Elems(s)))
		return g, g.tensor(s, l)
	}
	q := backend.Request{Op: o, Attrs: c.Attrs, Seed: seed, Step: new(uint64)}
	var bufs []*guarded
	for k, s := range c.In {
		g, x := of(w.In[k], s)
		bufs, q.In = append(bufs, g), append(q.In, x)
	}
	g, x := of(w.Out, out)
	bufs, q.Out = append(bufs, g), x
	there, back := onDevice(t, dev, dev, q, bufs)
	defer back()
	err := dev.Do(func() error {
		k, err := dev.Prepare(there)
		if err == nil && k.Place != nil {
			scratch, made := dev.Make(int(k.Scratch/4) + 1)
			if made != nil {
				return made
			}
			err = errors.Join(k.Place(scratch), dev.Free(scratch))
		}
		if err == nil && k.Close != nil {
			k.Close()
		}
		return err
	})
	if err != nil {
		t.Errorf("%v, %v: %v", w.In, d, err)
	}
}
