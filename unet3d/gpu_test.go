//go:build cgo && linux

package unet3d

import (
	"bytes"
	"context"
	"math"
	"regexp"
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
	"github.com/ensemble-weather/ensemble/engine/rng"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// idle is a device that compiles kernels and runs none.
type idle struct{ *emulate.Device }

func (idle) Load(device.Program) (device.Module, error) { return idleModule{}, nil }

type idleModule struct{}

func (idleModule) Call(string, device.Size, ...any) (device.Call, error) { return idleModule{}, nil }
func (idleModule) Run() error                                            { return nil }

// last stores all fields of a network with channels last, including small ones, for which this is
// not efficient.
type last struct{ *cuda.Backend }

func (l last) LayoutOptions(o *graph.Op, attrs any, in []graph.Shape, out graph.Shape) []backend.LayoutOption {
	ways := l.Backend.LayoutOptions(o, attrs, in, out)
	if len(ways) > 1 {
		ways[0].Cost++
	}
	return ways
}

func init() {
	add := func(name string, open func() (device.Device, error)) {
		e := engine.Backends[0]
		e.Name = name
		e.Open = func(engine.Options) (backend.Backend, error) {
			b, err := cuda.New(open)
			return last{b}, err
		}
		engine.Backends = append(engine.Backends, e)
	}
	add("emulated", func() (device.Device, error) { return emulate.Open(1 << 30) })
	add("idle", func() (device.Device, error) {
		d, err := emulate.Open(1 << 30)
		return idle{d}, err
	})
}

// TestTrainingWithChannelsLast: a training step on the emulated GPU, with dropout, gives the
// gradient of the reference: up to rounding in float32, to a few per cent with 16-bit fields. In
// float16 the loss is scaled, as small values underflow otherwise.
func TestTrainingWithChannelsLast(t *testing.T) {
	g, err := networks["unet3d"]()
	if err != nil {
		t.Fatal(err)
	}
	var want []float32
	for _, c := range []struct {
		o     engine.Options
		scale float64
		least float64
		most  float64
	}{
		{engine.Options{Device: engine.Device{Backend: "ref"}}, 1, 0, 0},
		{engine.Options{Device: engine.Device{Backend: "emulated"}}, 1, 0, 1e-5},
		{engine.Options{Device: engine.Device{Backend: "emulated"}, Numerics: engine.Numerics{Precision: "bf16"}}, 1, 1e-3, 0.1},
		{engine.Options{Device: engine.Device{Backend: "emulated"}, Numerics: engine.Numerics{Precision: "f16"}}, 0x1p12, 1e-4, 0.03},
		{engine.Options{Device: engine.Device{Backend: "emulated"}, Numerics: engine.Numerics{Precision: "f16"}}, 0x1p-16, 0.2, 1},
	} {
		p, err := engine.Compile(g, c.o)
		if err != nil {
			t.Fatal(err)
		}
		for i, name := range []string{"x", "y"} {
			for k := range p.Input(name) {
				p.Input(name)[k] = float32(rng.Normal(rng.Key(1, uint64(i)), uint64(k)))
			}
		}
		p.ScaleLoss(c.scale)
		if err := p.Run(context.Background(), 1); err != nil {
			t.Fatal(err)
		}
		got := p.Store().Grads()
		for i := range got {
			got[i] /= float32(c.scale)
		}
		if want == nil {
			want = got
		}
		var apart, size float64
		for i, w := range want {
			apart += float64(got[i]-w) * float64(got[i]-w)
			size += float64(w) * float64(w)
		}
		if e := math.Sqrt(apart / size); !(e >= c.least && e <= c.most) {
			t.Errorf("%s %s, of %g times the loss: the gradient is off by %.2g of its size, not by %.2g to %.2g", c.o.Backend, c.o.Precision, c.scale, e, c.least, c.most)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// losses lists graphs of losses for a prediction with four rows.
var losses = map[string]func(b *graph.Builder, z, y graph.Value) graph.Value{
	"l1":  op.L1,
	"mse": op.MSE,
	"gaussian crps": func(b *graph.Builder, z, y graph.Value) graph.Value {
		return op.Mean(b, op.GaussianCRPS(b, z, op.Softplus(b, z), y))
	},
	"weighted mse": func(b *graph.Builder, z, y graph.Value) graph.Value {
		return op.WeightedMSE(b, z, y, b.Const("w", graph.Shape{1, 1, 1, 16, 1}, make([]float32, 16)))
	},
	"pinball": func(b *graph.Builder, z, y graph.Value) graph.Value { return op.Mean(b, op.Pinball(b, z, y, 0.9)) },
	"kernel crps": func(b *graph.Builder, z, y graph.Value) graph.Value {
		return op.Mean(b, op.KernelCRPS(b, z, op.SetMean(b, y, 2), 2, dist.Fair))
	},
	"multiscale crps": func(b *graph.Builder, z, y graph.Value) graph.Value {
		s := []op.Smoothing{op.Gaussian(1, 16, 32, true), op.Gaussian(2, 16, 32, true)}
		return op.Mean(b, op.MultiScaleCRPS(b, z, op.SetMean(b, y, 2), 2, dist.Fair, s, []float64{1, 1, 1}))
	},
	"spread": func(b *graph.Builder, z, y graph.Value) graph.Value {
		return op.Mean(b, op.Add(b, op.SetStd(b, z, 2), op.Add(b, op.SetMin(b, y, 2), op.SetMax(b, z, 2))))
	},
	"ssim": func(b *graph.Builder, z, y graph.Value) graph.Value {
		return op.SSIM(b, z, y, op.SimilarityOptions{Range: 1})
	},
	"ms-ssim": func(b *graph.Builder, z, y graph.Value) graph.Value {
		return op.MSSSIM(b, z, y, op.SimilarityOptions{Range: 1})
	},
}

// scoreOf is the mean score of distributions with n parameters.
func scoreOf(rule dist.Rule, family string, n int) func(b *graph.Builder, z, y graph.Value) graph.Value {
	return func(b *graph.Builder, z, y graph.Value) graph.Value {
		par := op.Softplus(b, op.Concat(b, 1, slices.Repeat([]graph.Value{z}, (n+1)/2)...))
		return op.Mean(b, op.DistributionScore(b, op.Slice(b, par, 1, 0, n), op.Slice(b, y, 1, 0, 1), op.ScoreSpec{Rule: rule, Family: family, Parameters: n}))
	}
}

func init() {
	for _, r := range dist.Table { // a family without a program for the device would be listed as running on the CPU
		for _, rule := range r.Rules {
			n := len(r.New(7).Parameters)
			if rule == dist.CrossEntropyRule { // of as many logits as there are bins
				n = 5
			}
			losses[string(rule)+" of "+r.ID] = scoreOf(rule, r.ID, n)
		}
	}
}

// onTheProcessor lists the operations of a network that have no kernel on the GPU.
func onTheProcessor(t *testing.T, name string, g *graph.Graph, o engine.Options) (left []string) {
	t.Helper()
	o.Backend = "idle"
	p, err := engine.Compile(g, o)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return nil
	}
	var text bytes.Buffer
	if err := p.Explain(&text); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text.String()) {
		if strings.Contains(line, "on the processor") {
			left = append(left, operation.FindString(line))
		}
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(left)
	return slices.Compact(left)
}

// TestNothingRunsOnTheProcessor: all operations of all networks and losses have kernels on the GPU.
func TestNothingRunsOnTheProcessor(t *testing.T) {
	check := func(name string, g *graph.Graph) {
		t.Helper()
		for _, o := range []engine.Options{{Numerics: engine.Numerics{Precision: "bf16"}}, {Mode: engine.Infer}} {
			if left := onTheProcessor(t, name, g, o); len(left) > 0 {
				t.Errorf("%s, mode %v, precision %s: %v run on the processor", name, o.Mode, o.Precision, left)
			}
		}
	}
	for _, n := range prunable {
		check(n.name, buildPrunable(t, n.input, n.build))
	}
	for name, n := range leadsNets(2) {
		check(name, buildPrunable(t, graph.Shape{4, 3, 2, 8, 12}, n.Build))
	}
	for name, build := range networks {
		g, err := build()
		if err != nil {
			t.Fatal(err)
		}
		check(name, g)
	}
	for name, loss := range losses {
		check("loss "+name, graphOfLoss(t, name, loss))
	}
}

// graphOfLoss is a convolution with a loss.
func graphOfLoss(t *testing.T, name string, loss func(b *graph.Builder, z, y graph.Value) graph.Value) *graph.Graph {
	t.Helper()
	b := graph.New(1)
	z := conv3D(b, "z", b.Input("x", graph.Shape{4, 2, 1, 16, 32}), 2, [3]int{1, 3, 3}, true)
	b.Loss(loss(b, z, b.Input("y", z.Shape())))
	g, err := b.Build()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return g
}

// TestFamilyWithoutProgram: a family without a program for the device is scored on the CPU, not by
// the program of another family.
func TestFamilyWithoutProgram(t *testing.T) {
	before := dist.Table
	t.Cleanup(func() { dist.Table = before })
	f := *dist.Logistic
	f.ID = "without_program"
	dist.Table = append(slices.Clone(before), dist.Row{ID: f.ID, New: func(int) *dist.Family { return &f }, Rules: []dist.Rule{dist.CRPSRule}, Head: true})
	g := graphOfLoss(t, f.ID, scoreOf(dist.CRPSRule, f.ID, 2))
	left, want := onTheProcessor(t, f.ID, g, engine.Options{}), []string{"distribution_score", "distribution_score_grad"}
	if !slices.Equal(left, want) {
		t.Errorf("%v run on the processor, want %v", left, want)
	}
}

var operation = regexp.MustCompile(`[a-z][a-z0-9_]+`)
