//go:build cgo && linux

package engine_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/engine"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/emulate"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/pass"
)

// slow is a device that does not identify itself as emulated, and whose
// asynchronous copies take time.
type slow struct{ *emulate.Device }

func (s slow) Properties() device.Properties {
	p := s.Device.Properties()
	p.Emulated = false
	return p
}

func (s slow) CopyAsync(dst, src device.Pointer, bytes int64) (device.Event, error) {
	time.Sleep(20 * time.Millisecond)
	return s.Device.CopyAsync(dst, src, bytes)
}

// TestCopyRates verifies that copy rates are measured once, and that the memory of
// the measurement is freed.
func TestCopyRates(t *testing.T) {
	b, err := cuda.New(func() (device.Device, error) {
		d, err := emulate.Open(1 << 28)
		return slow{d}, err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	var dev backend.Remote = b
	var rates [4]float64
	var before, after int64
	if err := b.Do(func() (err error) {
		if before, err = dev.FreeBytes(); err != nil {
			return err
		}
		if rates[0], rates[1], err = dev.CopyRates(); err != nil {
			return err
		}
		if rates[2], rates[3], err = dev.CopyRates(); err != nil {
			return err
		}
		after, err = dev.FreeBytes()
		return err
	}); err != nil {
		t.Fatal(err)
	}
	most := float64(32<<20) / 20e-3
	if rates[0] <= 0 || rates[0] > most || rates[1] <= 0 || rates[1] > most || rates[2] != rates[0] || rates[3] != rates[1] {
		t.Errorf("rates %g, at most %g are possible", rates, most)
	}
	if after < before {
		t.Errorf("%d bytes free, %d before", after, before)
	}
}

// deep is a U-Net of three stages.
func deep(t *testing.T) *graph.Graph {
	t.Helper()
	b := graph.New(5)
	x, y := b.Input("x", graph.Shape{1, 3, 1, 8, 24}), b.Input("y", graph.Shape{1, 1, 1, 8, 24})
	layer := func(name string, v graph.Value, out int) graph.Value {
		c := graph.Shape{out}
		v = op.Conv3D(b, v, b.Param(name+".weight", graph.Shape{out, v.Dim(1), 3, 3, 3}, graph.HeNormal(v.Dim(1)*27)), op.Conv{Pad: op.Same(3, 3, 3)})
		v = op.BatchNorm(b, v, b.Param(name+".gamma", c, graph.Ones()), b.Param(name+".beta", c, graph.Zeros()),
			b.State(name+".mean", c, graph.Zeros()), b.State(name+".var", c, graph.Ones()), op.BatchNormOptions{})
		return op.ReLU(b, v)
	}
	half := [3]int{1, 2, 2}
	v := layer("e0", x, 8)
	skips := []graph.Value{v}
	for i, name := range []string{"e1", "e2"} {
		v = layer(name, op.MaxPool(b, v, half), 8+8*i)
		skips = append(skips, v)
	}
	v = op.Dropout(b, layer("m", op.MaxPool(b, v, half), 16), 0.2)
	for i, name := range []string{"d2", "d1", "d0"} {
		v = layer(name, op.Concat(b, 1, op.Upsample(b, v, half, true), skips[2-i]), 8)
	}
	z := op.Conv3D(b, v, b.Param("out", graph.Shape{1, v.Dim(1), 1, 1, 1}, graph.Ones()), op.Conv{})
	b.Output("z", z)
	b.Loss(op.MSE(b, z, y))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// row is a sequence of layers without convolutions, all of whose kernels are
// recorded.
func row(t *testing.T) *graph.Graph {
	t.Helper()
	b := graph.New(5)
	x, y := b.Input("x", graph.Shape{1, 8, 2, 8, 24}), b.Input("y", graph.Shape{1, 8, 2, 8, 24})
	v := x
	for i := range 6 {
		w := b.Param(fmt.Sprint("w", i), graph.Shape{8}, graph.HeNormal(4))
		v = op.Softplus(b, op.Bias(b, v, w))
		v = op.Mul(b, v, op.Sigmoid(b, v))
	}
	b.Output("z", v)
	b.Loss(op.MSE(b, v, y))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// counted is a device that counts asynchronous copies and recordings, and
// rejects a wait in one recording for a copy that started in another.
type counted struct {
	*emulate.LazyDevice
	aside, recorded, now int // now is the number of the recording in progress, or 0
	begun                map[device.Event]int
}

func (c *counted) CopyAsync(dst, src device.Pointer, bytes int64) (device.Event, error) {
	c.aside++
	t, err := c.LazyDevice.CopyAsync(dst, src, bytes)
	c.begun[t] = c.now
	return t, err
}

func (c *counted) Join(t device.Event) error {
	if in, ok := c.begun[t]; ok && in != c.now {
		return fmt.Errorf("a copy of recording %d is waited for in %d", in, c.now)
	}
	return c.LazyDevice.Join(t)
}

func (c *counted) Record(f func() error) (device.Recording, error) {
	c.recorded++
	c.now = c.recorded
	defer func() { c.now = 0 }()
	return c.LazyDevice.Record(f)
}

// TestOffload verifies that training with offloaded activations gives the same
// bits as training in full memory, within the limit. The emulated device fails
// if a kernel reads or overwrites memory that is being copied.
func TestOffload(t *testing.T) {
	before := engine.Backends
	t.Cleanup(func() { engine.Backends = before })
	e := before[0]
	e.Name = "counted"
	var dev *counted
	memory := int64(1 << 28)
	e.Open = func(engine.Options) (backend.Backend, error) {
		return cuda.New(func() (device.Device, error) {
			d, err := emulate.OpenLazy(memory)
			dev = &counted{LazyDevice: d, begun: map[device.Event]int{}}
			return dev, err
		})
	}
	engine.Backends = append(slices.Clone(before), e)
	r := rand.New(rand.NewPCG(3, 1))
	for _, c := range []struct {
		name, precision string
		g               *graph.Graph
		limits          int
	}{{"deep", "f32", deep(t), 3}, {"deep", "bf16", deep(t), 1}, {"row", "f32", row(t), 1}} {
		o := engine.Options{Device: engine.Device{Backend: e.Name}, Numerics: engine.Numerics{Precision: c.precision}}
		all := compile(t, c.g, o)
		train(t, all, 2)
		want := bits(all.Store())
		// the scratch memory of kernels is known only after they are prepared
		o.Memory.Limit = 1
		for range 5 {
			var small *pass.MemoryLimitError
			p, err := engine.Compile(c.g, o)
			if errors.As(err, &small) {
				o.Memory.Limit = small.Smallest
				continue
			}
			if err != nil || o.Memory.Limit == 1 {
				t.Fatalf("in %d bytes: %v", o.Memory.Limit, err)
			}
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
			break
		}
		least := o.Memory.Limit
		away := 0
		for _, limit := range []int64{least, max(least, all.MemoryBytes()/2), least + r.Int64N(all.MemoryBytes()-least)}[:c.limits] {
			o.Memory.Limit = limit
			p := compile(t, c.g, o)
			losses := train(t, p, 2)
			if bits(p.Store()) != want || p.MemoryBytes() > o.Memory.Limit || p.FLOPs() != all.FLOPs() {
				t.Errorf("%s in %s, %d bytes: takes %d, losses %v, or other bits", c.name, c.precision, o.Memory.Limit, p.MemoryBytes(), losses)
			}
			var text strings.Builder
			if err := p.Explain(&text); err != nil || strings.Contains(text.String(), "fetch_done") != (dev.aside > 0) {
				t.Errorf("%s in %s, %d bytes: %v, or the printed plan does not report offloading", c.name, c.precision, o.Memory.Limit, err)
			}
			away += dev.aside
			if c.name == "row" && dev.recorded == 0 {
				t.Error("nothing was recorded")
			}
		}
		if away == 0 {
			t.Errorf("%s in %s: nothing left the device", c.name, c.precision)
		}
	}
	// a device with nine tenths of the memory of arena and scratch can train too
	g := deep(t)
	all := compile(t, g, engine.Options{Device: engine.Device{Backend: e.Name}})
	train(t, all, 2)
	s := all.Store()
	memory = (4*int64(5*len(s.Params())+2*len(s.States())+2*len(all.Input("x"))+2*len(all.Input("y"))) + all.MemoryBytes()*9/10) * 16 / 15
	p, err := engine.Compile(g, engine.Options{Device: engine.Device{Backend: e.Name}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	train(t, p, 2)
	if p.MemoryBytes() >= all.MemoryBytes() || bits(p.Store()) != bits(s) {
		t.Errorf("on a device of %d bytes: takes %d, of %d with all, or other bits", memory, p.MemoryBytes(), all.MemoryBytes())
	}
}

// TestOffloadAroundKernels verifies that copies in progress while a kernel
// waits for the device are not recorded with the work around them, and that no
// bit changes.
func TestOffloadAroundKernels(t *testing.T) {
	before := engine.Backends
	t.Cleanup(func() { engine.Backends = before })
	e := before[0]
	e.Name = "counted"
	var dev *counted
	e.Open = func(engine.Options) (backend.Backend, error) {
		return cuda.New(func() (device.Device, error) {
			d, err := emulate.OpenLazy(1 << 28)
			dev = &counted{LazyDevice: d, begun: map[device.Event]int{}}
			return dev, err
		})
	}
	engine.Backends = append(slices.Clone(before), e)
	calls := 0
	o := engine.Options{Device: engine.Device{Backend: e.Name}, Debug: engine.Debug{Passes: withoutChains()}, Extension: kernels{of: map[string]func(backend.Request) (backend.Kernel, error){
		"sigmoid": func(q backend.Request) (backend.Kernel, error) {
			return backend.Kernel{Name: "own", Run: func() error {
				calls++
				for i, v := range q.In[0].F32 {
					q.Out.F32[i] = float32(1 / (1 + math.Exp(-float64(v))))
				}
				return nil
			}}, nil
		}}}}
	g := row(t)
	all := compile(t, g, o)
	train(t, all, 3)
	o.Memory.Limit = all.ArenaBytes() * 7 / 10
	p := compile(t, g, o)
	train(t, p, 3)
	if bits(p.Store()) != bits(all.Store()) || dev.aside == 0 || dev.recorded == 0 || calls == 0 {
		t.Errorf("other bits, or %d copies aside, %d recordings, %d calls", dev.aside, dev.recorded, calls)
	}
}
