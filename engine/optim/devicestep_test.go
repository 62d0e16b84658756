//go:build cgo && linux

package optim_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/emulate"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/emulated"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/engine/rng"
)

// journey trains a small network on a backend for some steps with all operations of an optimiser,
// and returns the states on the way.
func journey(t *testing.T, backend string, o optim.Options) (passed [][]float32) {
	t.Helper()
	g := func() *graph.Graph {
		b := graph.New(3)
		x := b.Input("x", graph.Shape{4, 5})
		h := op.Tanh(b, op.Mul(b, x, b.Param("a.weight", graph.Shape{4, 5}, graph.HeNormal(5))))
		h = op.Add(b, h, b.ParamOf(graph.Bias, "b.bias", graph.Shape{1, 5}, graph.Fill(0.1)))
		b.Loss(op.Mean(b, op.Square(b, op.Mul(b, h, b.Param("c.weight", graph.Shape{4, 5}, graph.HeNormal(5))))))
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	plan, err := engine.Compile(g(), engine.Options{Device: engine.Device{Backend: backend}})
	must(err)
	defer plan.Close()
	if o.EMA > 0 {
		o.Average = engine.NewStore()
		eval, err := engine.Compile(g(), engine.Options{Device: engine.Device{Backend: backend}, Reuse: engine.Reuse{Store: o.Average}, Mode: engine.Infer})
		must(err)
		defer eval.Close()
	}
	s := plan.Store()
	if (s.DeviceParams() != nil) != (backend == "emulated") {
		t.Fatalf("backend %s: parameters lie on a device: %v", backend, s.DeviceParams() != nil)
	}
	opt, err := optim.New(s, o)
	must(err)
	defer opt.Close()
	run := func(n int) {
		t.Helper()
		x := plan.Input("x")
		for i := range x {
			x[i] = float32(rng.Normal(uint64(n), uint64(i)))
		}
		must(plan.Run(context.Background(), uint64(n)))
	}
	step := func(n int) {
		t.Helper()
		run(n)
		norm, err := opt.Step(0.05)
		must(err)
		passed = append(passed, []float32{float32(norm)})
	}
	look := func() {
		t.Helper()
		passed = append(passed, slices.Clone(s.Params()))
		if o.Average != nil {
			passed = append(passed, slices.Clone(o.Average.Params()))
		}
		state, err := opt.State()
		must(err)
		for _, x := range state {
			passed = append(passed, slices.Clone(x.Values))
		}
	}
	for n := range 3 {
		step(n)
	}
	look()
	step(3) // continues unchanged after the state was read
	s.Params()[2] = 0.25
	step(4)
	look()
	run(5) // two accumulated gradients
	opt.Accumulate(1)
	run(6)
	opt.Accumulate(2)
	_, err = opt.Step(0.05)
	must(err)
	step(7)
	run(13)
	opt.Accumulate(1)
	present := make([]float32, len(s.Params())) // read between two accumulated gradients
	opt.AddScaledGradient(present, 2)
	passed = append(passed, present)
	run(14)
	opt.Accumulate(3)
	opt.SetLossScale(4)
	if ok, err := opt.IsFinite(); !ok || err != nil {
		t.Errorf("a gradient is not finite: %v, %v", ok, err)
	}
	step(15)
	look()
	opt.SetLossScale(1)
	run(13)
	opt.Accumulate(1)
	all := slices.Repeat([]bool{true}, len(s.Params()))
	must(opt.SetMask(all))
	must(opt.SetMask(nil))
	_, err = opt.Step(0.05)
	must(err)
	look()
	keep := make([]bool, len(s.Params()))
	for i := range keep {
		keep[i] = i%3 > 0
	}
	must(opt.SetMask(keep))
	step(8)
	look()
	run(16) // accumulated with a mask, which changes in between
	opt.Accumulate(2)
	keep = slices.Clone(keep)
	keep[1], keep[3], keep[4] = false, true, false
	must(opt.SetMask(keep))
	run(17)
	opt.Accumulate(1)
	step2, err := opt.Step(0.05)
	must(err)
	passed = append(passed, []float32{float32(step2)})
	step(18)
	look()
	must(opt.SetMask(nil))
	step(9)
	state, err := opt.State()
	must(err)
	before := slices.Clone(s.Params())
	step(10)
	copy(s.Params(), before)
	must(opt.Restore(9, func(name string, n int) ([]float32, error) {
		i := slices.IndexFunc(state, func(x optim.Tensor) bool { return x.Name == name })
		return state[i].Values, nil
	}))
	step(11)
	look()
	run(12)
	nan := s.Params()[0]
	s.Params()[0] = float32(math.NaN())
	run(12)
	s.Params()[0] = nan
	if ok, err := opt.IsFinite(); ok || err != nil {
		t.Errorf("a gradient that is no number is finite: %v, %v", ok, err)
	}
	if _, err := opt.Step(0.05); !errors.Is(err, optim.ErrNotFinite) {
		t.Errorf("a step along a gradient that is no number: %v", err)
	}
	look()
	return passed
}

// counted is an emulated device that counts copied bytes.
type counted struct {
	*emulate.LazyDevice
	bytes int64
}

func (c *counted) Copy(dst, src device.Pointer, bytes int64) error {
	c.bytes += bytes
	return c.LazyDevice.Copy(dst, src, bytes)
}

// TestMaskedStepsStayOnDevice: a mask is copied to the device once, and steps with it copy no
// parameters, gradients or moments.
func TestMaskedStepsStayOnDevice(t *testing.T) {
	var at *counted
	before := engine.Backends
	t.Cleanup(func() { engine.Backends = before })
	engine.Backends = append(slices.Clone(before), engine.Backend{Name: "counted", Open: func(engine.Options) (backend.Backend, error) {
		return cuda.New(func() (device.Device, error) {
			d, err := emulate.OpenLazy(1 << 26)
			at = &counted{LazyDevice: d}
			return at, err
		})
	}})
	const n = 1 << 14
	b := graph.New(1)
	b.Loss(op.Mean(b, op.Square(b, op.Mul(b, b.Input("x", graph.Shape{n}), b.Param("w.weight", graph.Shape{n}, graph.HeNormal(1))))))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	plan, err := engine.Compile(g, engine.Options{Device: engine.Device{Backend: "counted"}})
	if err != nil {
		t.Fatal(err)
	}
	defer plan.Close()
	opt, err := optim.New(plan.Store(), optim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer opt.Close()
	keep := make([]bool, n)
	for i := range keep {
		keep[i] = i%5 > 0
	}
	for i := range plan.Input("x") {
		plan.Input("x")[i] = 1
	}
	for step := range 4 {
		if err := plan.Run(context.Background(), 1); err != nil {
			t.Fatal(err)
		}
		at.bytes = 0
		if step == 1 {
			if err := opt.SetMask(keep); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := opt.Step(0.1); err != nil {
			t.Fatal(err)
		}
		if most := [...]int64{4 * 3 * n, n + 1000, 1000, 1000}[step]; at.bytes > most {
			t.Errorf("step %d copies %d bytes, want at most %d", step, at.bytes, most)
		}
	}
	for i, v := range plan.Store().Params() {
		if (v == 0) == keep[i] {
			t.Fatalf("parameter %d is %v, kept %v", i, v, keep[i])
		}
	}
}

// TestOptimizerOnDevice: steps on the emulated GPU equal those on the host up to rounding, with all
// operations in between.
func TestOptimizerOnDevice(t *testing.T) {
	before := engine.Backends
	t.Cleanup(func() { engine.Backends = before })
	engine.Backends = append(slices.Clone(before), engine.Backend{Name: "emulated",
		Open: func(engine.Options) (backend.Backend, error) { return emulated.OpenLazy(1 << 26) }})
	for _, o := range []optim.Options{
		{Kind: optim.Adam, Clip: 0.1, EMA: 0.9}, {Kind: optim.AdamW, Decay: 0.1}, {Kind: optim.SGD, Momentum: 0.9, Nesterov: true},
		{Kind: optim.LARS, Momentum: 0.9, Trust: 0.02, Decay: 0.01}, {Kind: optim.LAMB, Decay: 0.1, EMA: 0.5},
	} {
		t.Run(fmt.Sprint(o.Kind), func(t *testing.T) {
			got, want := journey(t, "emulated", o), journey(t, "ref", o)
			for k := range want {
				for i, v := range want[k] {
					if d := math.Abs(float64(got[k][i] - v)); !(d <= 2e-5*(1+math.Abs(float64(v)))) {
						t.Fatalf("station %d, element %d: %v, want %v", k, i, got[k][i], v)
					}
				}
			}
		})
	}
}
