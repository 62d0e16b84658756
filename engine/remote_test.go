//go:build cgo && linux

package engine_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/emulate"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/pass"
)

// watched is an emulated device that counts copied bytes and fails on demand.
type watched struct {
	*emulate.LazyDevice
	copied   int64
	fail     error // for the next copies
	recorded int
}

func (w *watched) Copy(dst, src device.Pointer, bytes int64) error {
	w.copied += bytes
	if w.fail != nil {
		return w.fail
	}
	return w.LazyDevice.Copy(dst, src, bytes)
}

func (w *watched) Record(f func() error) (device.Recording, error) {
	w.recorded++
	return w.LazyDevice.Record(f)
}

// watch adds a backend of this name with watched devices, and returns the last
// device that was opened.
func watch(t *testing.T, name string) func() *watched {
	t.Helper()
	var last *watched
	before := engine.Backends
	t.Cleanup(func() { engine.Backends = before })
	e := before[0]
	e.Name = name
	e.Open = func(engine.Options) (backend.Backend, error) {
		return cuda.New(func() (device.Device, error) {
			d, err := emulate.OpenLazy(1 << 28)
			last = &watched{LazyDevice: d}
			return last, err
		})
	}
	engine.Backends = append(slices.Clone(before), e)
	return func() *watched { return last }
}

// perceptron is a network whose operations all have kernels on the device.
func perceptron(t *testing.T) *graph.Graph {
	t.Helper()
	b := graph.New(1)
	x, y := b.Input("x", graph.Shape{4, 8}), b.Input("y", graph.Shape{4, 8})
	w := b.Param("w", graph.Shape{1, 8}, graph.HeNormal(8))
	s := b.State("seen", graph.Shape{4, 8}, graph.Zeros())
	z := op.Tanh(b, op.Mul(b, x, w))
	b.Assign(s, op.Add(b, s, x))
	b.Output("z", z)
	b.Loss(op.Mean(b, op.Square(b, op.Sub(b, z, y))))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestStoreOnDevice verifies that parameters and states stay on the device while a plan
// trains there, and are copied only if the program reads them or may have
// changed them.
func TestStoreOnDevice(t *testing.T) {
	dev := watch(t, "watched")
	ctx := context.Background()
	p := compile(t, perceptron(t), engine.Options{Device: engine.Device{Backend: "watched"}})
	w := dev()
	s := p.Store()
	judge := compile(t, perceptron(t), engine.Options{Device: engine.Device{Backend: "ref"}})
	step := func(p *engine.Plan, n uint64) {
		t.Helper()
		fill(p.Input("x"), 7+n)
		fill(p.Input("y"), 8)
		if err := p.Run(ctx, n); err != nil {
			t.Fatal(err)
		}
	}
	step(p, 0)
	step(judge, 0)
	w.copied = 0
	step(p, 1)
	step(judge, 1)
	// Step number; inputs to the arena, output and loss; new value of the state.
	if want := int64(8 + 4*(2*32+32+1) + 4*32); w.copied != want {
		t.Errorf("a run whose results are not read copies %d bytes, want %d", w.copied, want)
	}
	near := func(what string, a, b []float32) {
		t.Helper()
		for i := range b {
			if math.Abs(float64(a[i]-b[i])) > 1e-6 {
				t.Fatalf("%s: %v, want %v", what, a, b)
			}
		}
	}
	near("gradients", s.Grads(), judge.Store().Grads())
	near("states", s.States(), judge.Store().States())
	for _, x := range []*engine.Store{s, judge.Store()} {
		for i := range x.Params() {
			x.Params()[i] -= 0.1 * x.Grads()[i]
		}
	}
	// Another plan of the store, on another device, uses the written values and the
	// results of the first plan since then.
	step(p, 2)
	step(judge, 2)
	eval := compile(t, perceptron(t), engine.Options{Device: engine.Device{Backend: "watched"}, Reuse: engine.Reuse{Store: s}, Mode: engine.Infer})
	step(eval, 3)
	step(judge, 3)
	near("output", eval.Output("z"), judge.Output("z"))
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	step(eval, 3)
	near("output without the home", eval.Output("z"), judge.Output("z"))
}

// TestRecorded verifies that from the second run on work is enqueued as
// recordings, with the same results, and that a host kernel splits a recording.
func TestRecorded(t *testing.T) {
	dev := watch(t, "watched")
	p := compile(t, perceptron(t), engine.Options{Device: engine.Device{Backend: "watched"}})
	var losses []float64
	for range 4 {
		fill(p.Input("x"), 1)
		fill(p.Input("y"), 2)
		if err := p.Run(context.Background(), 0); err != nil {
			t.Fatal(err)
		}
		losses = append(losses, p.Loss())
	}
	if slices.Min(losses) != slices.Max(losses) || dev().recorded != 1 {
		t.Errorf("losses %v, %d recordings", losses, dev().recorded)
	}
	fill(p.Input("x"), 3) // a recording reads the inputs of the current run
	if err := p.Run(context.Background(), 0); err != nil || p.Loss() == losses[0] {
		t.Errorf("loss %v of other inputs, %v", p.Loss(), err)
	}
	foreign := func(q backend.Request) (backend.Kernel, error) {
		return backend.Kernel{Name: "ours", Run: func() error {
			for i, v := range q.In[0].F32 {
				q.Out.F32[i] = float32(math.Tanh(float64(v)))
			}
			return nil
		}}, nil
	}
	p = compile(t, perceptron(t), engine.Options{Device: engine.Device{Backend: "watched"}, Debug: engine.Debug{Passes: withoutChains()}, Extension: kernels{of: map[string]func(backend.Request) (backend.Kernel, error){"tanh": foreign}}})
	for range 3 {
		fill(p.Input("x"), 1)
		fill(p.Input("y"), 2)
		if err := p.Run(context.Background(), 0); err != nil {
			t.Fatal(err)
		}
		if math.Abs(p.Loss()-losses[0]) > 1e-6 {
			t.Errorf("loss %v with a kernel of the program, want %v", p.Loss(), losses[0])
		}
	}
	if dev().recorded != 3 { // and a recording of the work after Extension.Finish
		t.Errorf("%d recordings around a kernel of the program, want 3", dev().recorded)
	}
}

// TestDeviceFails verifies that a run returns an error of the device, and that
// an error in a method without error result is returned by the next run.
func TestDeviceFails(t *testing.T) {
	dev := watch(t, "watched")
	p := compile(t, perceptron(t), engine.Options{Device: engine.Device{Backend: "watched"}})
	run := func() error { return p.Run(context.Background(), 0) }
	if err := run(); err != nil {
		t.Fatal(err)
	}
	lost := errors.New("the GPU has fallen off the bus")
	dev().fail = lost
	p.Store().States()
	dev().fail = nil
	if err := run(); !errors.Is(err, lost) {
		t.Errorf("after a failed copy of states: %v", err)
	}
	if err := run(); err != nil {
		t.Errorf("an error is reported twice: %v", err)
	}
	dev().fail = lost
	if err := run(); !errors.Is(err, lost) {
		t.Errorf("run: %v", err)
	}
	dev().fail = nil
}

// TestDeviceMemory verifies that Compile rejects a device with too little
// memory.
func TestDeviceMemory(t *testing.T) {
	before := engine.Backends
	t.Cleanup(func() { engine.Backends = before })
	e := before[0]
	e.Name = "small"
	e.Open = func(engine.Options) (backend.Backend, error) {
		return cuda.New(func() (device.Device, error) { return emulate.Open(1 << 14) })
	}
	engine.Backends = append(slices.Clone(before), e)
	_, err := engine.Compile(unet(t, 2, 1), engine.Options{Device: engine.Device{Backend: "small"}})
	var small *pass.MemoryLimitError
	if !errors.As(err, &small) || small.Limit >= 1<<14 || small.Smallest <= small.Limit || !strings.Contains(err.Error(), "too little memory") {
		t.Errorf("%v", err)
	}
}

// withoutChains is the list of passes without fuse-chains.
func withoutChains() []pass.Pass {
	return slices.DeleteFunc(slices.Clone(pass.List), func(p pass.Pass) bool { return p.Name == "fuse-chains" })
}

// TestStageInputs verifies that inputs of the next step can be filled while a step
// runs, and that every step uses its own inputs.
func TestStageInputs(t *testing.T) {
	watch(t, "watched")
	for _, backend := range []string{"watched", "ref", "cpu"} {
		p := compile(t, perceptron(t), engine.Options{Device: engine.Device{Backend: backend}})
		judge := compile(t, perceptron(t), engine.Options{Device: engine.Device{Backend: "ref"}})
		ctx := context.Background()
		put := func(p *engine.Plan, n uint64) {
			fill(p.Input("x"), n)
			fill(p.Input("y"), 100+n)
		}
		call := func(f func() error) {
			t.Helper()
			if err := f(); err != nil {
				t.Fatal(err)
			}
		}
		put(p, 0)
		call(p.StageInputs)
		for n := range uint64(6) {
			call(func() error { return p.Start(ctx, n) })
			if n != 3 { // a step without staging
				put(p, n+1)
				call(p.StageInputs)
			}
			call(p.Wait)
			if n == 3 {
				put(p, n+1)
			}
			put(judge, n)
			call(func() error { return judge.Run(ctx, n) })
			if !(math.Abs(p.Loss()-judge.Loss()) <= 1e-6) {
				t.Errorf("%s, step %d: loss %v, want %v", backend, n, p.Loss(), judge.Loss())
			}
		}
	}
}
