package unet3d

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// TestBaselineParameterCounts: the baselines of ENS-10 have the numbers of parameters that follow
// from its code, for fields on pressure levels and at the surface.
func TestBaselineParameterCounts(t *testing.T) {
	for _, c := range []struct {
		name           string
		body           Body
		formula        func(channels, out int) int
		channels, want int
	}{
		{"mlp, 7 fields", DRN{}.Build, DRN{}.Parameters, 17, 2562},
		{"mlp, 11 fields", DRN{}.Build, DRN{}.Parameters, 25, 3586},
		{"unet2d, 7 fields", UNet2D{}.Build, UNet2D{}.Parameters, 14, 633698},
		{"unet2d, 11 fields", UNet2D{}.Build, UNet2D{}.Parameters, 22, 636002},
		// 6(25·14+1) + 16(25·6+1) + 120(25·16+1) + 84·121 + 2·85
		{"lenet", LeNet{}.Build, LeNet{}.Parameters, 14, 62976},
	} {
		got := count(t, func(b *graph.Builder) { c.body(b, b.Input("x", graph.Shape{1, c.channels, 1, 16, 24}), 2) })
		if got != c.want || c.formula(c.channels, 2) != c.want {
			t.Errorf("%s: %d parameters, by formula %d, want %d", c.name, got, c.formula(c.channels, 2), c.want)
		}
	}
}

// TestBaselinesEqualPyTorch: with PyTorch's weights the baselines give PyTorch's output and, in
// training, its gradient of the mean square, each to 1e-4 of the largest value.
func TestBaselinesEqualPyTorch(t *testing.T) {
	for _, backend := range backends(t) {
		for _, c := range []struct {
			file string
			out  int
			body Body
		}{
			{"drn_8.safetensors", 3, DRN{Hidden: 8}.Build},
			{"lenet_small.safetensors", 2, LeNet{Widths: []int{2, 3, 5, 4}}.Build},
			{"unet2d_base2.safetensors", 3, UNet2D{Base: 2}.Build},
		} {
			equalsPyTorch(t, c.file, backend, c.out, c.body)
		}
	}
}

func equalsPyTorch(t *testing.T, file, backend string, out int, body Body) {
	t.Helper()
	tensors, _, err := ckpt.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string][]float32{}
	var shape graph.Shape
	weights := 0
	for _, x := range tensors {
		values[x.Name] = x.Data.([]float32)
		if x.Name == "golden.input" {
			shape = graph.Shape{x.Shape[0], x.Shape[1], 1, x.Shape[2], x.Shape[3]}
		}
		if !strings.HasPrefix(x.Name, "golden.") {
			weights++
		}
	}
	for _, mode := range []engine.Mode{engine.Infer, engine.Train} {
		b := graph.New(1)
		y := body(b, b.Input("x", shape), out)
		b.Output("y", y)
		b.Loss(op.Mean(b, op.Mul(b, y, y)))
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		plan, err := engine.Compile(g, engine.Options{Device: engine.Device{Backend: backend}, Mode: mode})
		if err != nil {
			t.Fatal(err)
		}
		defer plan.Close()
		if n := len(plan.Store().Entries()); n != weights {
			t.Errorf("%s: %d parameters and states, PyTorch has %d", file, n, weights)
		}
		for _, e := range plan.Store().Entries() {
			if err := plan.Store().Set(e.Name, values[e.Name]); err != nil {
				t.Fatal(err)
			}
		}
		copy(plan.Input("x"), values["golden.input"])
		if err := plan.Run(context.Background(), 0); err != nil {
			t.Fatal(err)
		}
		compare := func(what string, got, want []float32) {
			var diff, size float64
			for i, w := range want {
				diff, size = max(diff, math.Abs(float64(got[i]-w))), max(size, math.Abs(float64(w)))
			}
			// The bias of a layer before a batch norm has no gradient but rounding.
			if len(want) == 0 || !(diff < 1e-4*size || size < 1e-6 && diff < 1e-6) {
				t.Errorf("%s on %s: %s differs by %g of %g", file, backend, what, diff, size)
			}
		}
		if mode == engine.Infer {
			compare("output", plan.Output("y"), values["golden.output"])
			continue
		}
		for _, e := range plan.Store().Entries() {
			if grad, ok := plan.Store().Grad(e.Name); ok {
				compare("gradient of "+e.Name, grad, values["golden.gradient."+e.Name])
			}
		}
	}
}

// TestBodiesStartAtZero: untrained networks leave the forecast that they correct unchanged: the
// reference or, without one, the members' mean with their spread as sigma.
func TestBodiesStartAtZero(t *testing.T) {
	shape := graph.Shape{1, 1, 1, 2, 2}
	for _, reference := range []bool{false, true} {
		b := graph.New(1)
		in := CalibratedInput{Features: b.Input("features", graph.Shape{1, 3, 1, 2, 2}), Spread: b.Input("spread", shape), Anomaly: b.Input("anomaly", shape)}
		if reference {
			in.ReferenceShift, in.ReferenceSigma = b.Input("shift", shape), b.Input("sigma", shape)
		}
		in.Features = Embedding(b, in.Features, 2)
		out := Calibrated{Body: DRN{Hidden: 4}.Build, NoMaps: true, SpreadAffine: [][2]float64{{-1, 2}}, SpreadScale: []float64{1}}.Build(b, in)
		b.Output("shift", out.Shift)
		b.Output("sigma", out.Sigma)
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		plan, err := engine.Compile(g, engine.Options{Device: engine.Device{Backend: "ref"}, Mode: engine.Infer})
		if err != nil {
			t.Fatal(err)
		}
		defer plan.Close()
		copy(plan.Input("features"), []float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})
		copy(plan.Input("spread"), []float32{0, 0.5, 1, 2})
		wantShift, wantSigma := []float32{0, 0, 0, 0}, []float32{sigmaFloor, 0.5, 1, 2}
		if reference {
			wantShift, wantSigma = []float32{-1, 0, 0.25, 3}, []float32{0.1, 0.2, 0.3, 0.4}
			copy(plan.Input("shift"), wantShift)
			copy(plan.Input("sigma"), wantSigma)
		}
		if err := plan.Run(context.Background(), 0); err != nil {
			t.Fatal(err)
		}
		for i := range wantShift {
			if got := plan.Output("shift")[i]; math.Abs(float64(got-wantShift[i])) > 1e-6 {
				t.Errorf("reference %v: shift %g at %d, want %g", reference, got, i, wantShift[i])
			}
			if got := plan.Output("sigma")[i]; math.Abs(float64(got-wantSigma[i])) > 1e-6 {
				t.Errorf("reference %v: sigma %g at %d, want %g", reference, got, i, wantSigma[i])
			}
		}
	}
}
