package unet3d

import (
	"context"
	"math"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// golden runs a network with the weights of a PyTorch file on the input in that file. It returns
// the largest difference from PyTorch's output, relative to the largest output.
func golden(t *testing.T, file, backend string, build func(*graph.Builder, graph.Value) graph.Value) float64 {
	t.Helper()
	tensors, _, err := ckpt.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]ckpt.Tensor{}
	for _, x := range tensors {
		byName[x.Name] = x
	}
	in, want := byName["golden.input"], byName["golden.output"]
	shape := graph.Shape(in.Shape)
	if len(shape) == 4 { // Conv2d: one level
		shape = graph.Shape{shape[0], shape[1], 1, shape[2], shape[3]}
	}
	b := graph.New(1)
	b.Output("y", build(b, b.Input("x", shape)))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	plan, err := engine.Compile(g, engine.Options{Device: engine.Device{Backend: backend}, Mode: engine.Infer})
	if err != nil {
		t.Fatal(err)
	}
	defer plan.Close()
	for _, e := range plan.Store().Entries() {
		w, ok := byName[e.Name]
		if !ok {
			t.Fatalf("%s has no %q", file, e.Name)
		}
		if !graph.Shape(w.Shape).Equal(e.Shape) {
			t.Fatalf("%s: PyTorch has shape %v, the network %v", e.Name, w.Shape, e.Shape)
		}
		if err := plan.Store().Set(e.Name, w.Data.([]float32)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(plan.Store().Entries()); n != len(tensors)-2 {
		t.Errorf("%d parameters and states, PyTorch has %d", n, len(tensors)-2)
	}
	copy(plan.Input("x"), in.Data.([]float32))
	if err := plan.Run(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	var diff, size float64
	for i, y := range want.Data.([]float32) {
		diff = max(diff, math.Abs(float64(plan.Output("y")[i]-y)))
		size = max(size, math.Abs(float64(y)))
	}
	return diff / size
}

// backends lists the available CPU backends, the fastest first; without cgo that is ref alone.
func backends(t *testing.T) (names []string) {
	t.Helper()
	for _, b := range engine.Backends {
		if b.Name != "cpu" && b.Name != "ref" {
			continue
		}
		dev, err := b.Open(engine.Options{Device: engine.Device{Threads: 1}})
		if exit.CodeOf(err) == exit.NoDevice {
			t.Logf("left out: %v", err)
			continue
		}
		if err == nil {
			err = dev.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, b.Name)
	}
	return names
}

// TestOutputEqualsPyTorch: with PyTorch's weights the networks give PyTorch's output, to 1e-4 of
// its largest value.
func TestOutputEqualsPyTorch(t *testing.T) {
	for _, backend := range backends(t) {
		for _, c := range []struct {
			name, file string
			build      func(*graph.Builder, graph.Value) graph.Value
		}{
			{"unet3d", "unet3d_base2.safetensors", UNet{Base: 2}.Build},
			{"resnet2d_simple", "resnet2d_simple_div8.safetensors", ResNet2D{Widths: []int{8, 12, 16, 20, 28}, Reinject: PublishedReinject}.Build},
			{"bias network, locally connected", "bias_unet_base2.safetensors", func(b *graph.Builder, x graph.Value) graph.Value {
				y, _ := LocallyConnected{Size: 3, Periodic: true}.Build(b, "local", BiasUNet{Out: 3, Base: 2, Stages: 2, Periodic: true}.Build(b, x))
				return y
			}},
		} {
			if d := golden(t, c.file, backend, c.build); !(d < 1e-4) {
				t.Errorf("%s on %s: relative difference %.2g", c.name, backend, d)
			} else {
				t.Logf("%s on %s: relative difference %.2g", c.name, backend, d)
			}
		}
	}
}

// TestForwardOracle: reference output of the published layers with base 4, from sines: weights
// sin(.37n+.11g)·√(2/(27·in)) and biases .01 cos(n+g) of parameter tensor g.
func TestForwardOracle(t *testing.T) {
	b := graph.New(1)
	b.Output("y", UNet{Base: 4}.Build(b, b.Input("x", graph.Shape{1, 3, 2, 32, 32})))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	plan, err := engine.Compile(g, engine.Options{Device: engine.Device{Backend: "ref"}, Numerics: engine.Numerics{Float64: true}, Mode: engine.Infer})
	if err != nil {
		t.Fatal(err)
	}
	defer plan.Close()
	for i, name := range plan.Store().Names() {
		w, shape, _ := plan.Store().Get(name)
		for n := range w {
			if len(shape) > 1 {
				w[n] = float32(math.Sin(.37*float64(n)+.11*float64(i)) * math.Sqrt(2/(27*float64(shape[1]))))
			} else {
				w[n] = float32(.01 * math.Cos(float64(n+i)))
			}
		}
	}
	for n := range plan.Input("x") {
		plan.Input("x")[n] = float32(math.Sin(.05 * float64(n)))
	}
	if err := plan.Run(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	y := plan.Output("y")
	var sum, abs float64
	for _, v := range y {
		sum += float64(v)
		abs += math.Abs(float64(v))
	}
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"sum", sum, -4.0467384162}, {"mean |y|", abs / float64(len(y)), 0.0549885777}, {"y[0,0,0]", float64(y[0]), -0.0109101204},
		{"y[1,16,7]", float64(y[1024+16*32+7]), -0.0051662204}, {"y[0,31,31]", float64(y[1023]), 0.0166943781},
	} {
		// Weights and input are float32; the sum adds 2048 rounded values.
		if math.Abs(c.got-c.want) > 2e-5*math.Max(1, math.Abs(c.want)) {
			t.Errorf("%s = %.9f, want %.9f", c.name, c.got, c.want)
		}
	}
}
