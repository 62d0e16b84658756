package engine_test

import (
	"bytes"
	"context"
	"math"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/rng"
)

// unet is a small network with every kind of layer of the 3-D U-Net.
func unet(t testing.TB, batch int, seed uint64) *graph.Graph {
	t.Helper()
	b := graph.New(seed)
	x := b.Input("x", graph.Shape{batch, 3, 2, 8, 16})
	y := b.Input("y", graph.Shape{batch, 1, 2, 8, 16})
	conv := func(name string, v graph.Value, out int) graph.Value {
		in := v.Dim(1)
		w := b.Param(name+".weight", graph.Shape{out, in, 3, 3, 3}, graph.HeNormal(in*27))
		c := b.Param(name+".bias", graph.Shape{out}, graph.KaimingUniform(in*27))
		return op.Bias(b, op.Conv3D(b, v, w, op.Conv{Pad: op.SameGlobal(3, 3, 3)}), c)
	}
	e0 := op.ReLU(b, conv("enc0", x, 4))
	p := op.MaxPool(b, e0, [3]int{1, 2, 2})
	e1 := op.Dropout(b, op.ReLU(b, conv("enc1", p, 6)), 0.1)
	norm := func(name string, v float64) graph.Value {
		return b.Param(name, graph.Shape{6}, graph.Fill(v))
	}
	mean := b.State("norm.running_mean", graph.Shape{6}, graph.Zeros())
	vari := b.State("norm.running_var", graph.Shape{6}, graph.Ones())
	e1 = op.BatchNorm(b, e1, norm("norm.weight", 1), norm("norm.bias", 0), mean, vari, op.BatchNormOptions{})
	u := op.Concat(b, 1, op.Upsample(b, e1, [3]int{1, 2, 2}, true), x)
	out := op.AddScalar(b, op.Softplus(b, conv("dec0", u, 1)), 1e-3)
	b.Output("spread", out)
	b.Loss(op.Mean(b, op.GaussianCRPS(b, op.Slice(b, x, 1, 0, 1), out, y)))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func fill(v []float32, key uint64) {
	for i := range v {
		v[i] = float32(rng.Normal(key, uint64(i)))
	}
}

// TestTrainingLearns: plain gradient descent lowers the loss on ref.
func TestTrainingLearns(t *testing.T) {
	p, err := engine.Compile(unet(t, 2, 1), engine.Options{Backend: "ref"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	fill(p.Input("x"), 1)
	fill(p.Input("y"), 2)
	var losses []float64
	for step := range 5 {
		if err := p.Run(context.Background(), uint64(step)); err != nil {
			t.Fatal(err)
		}
		losses = append(losses, p.Loss())
		s := p.Store()
		for i, g := range s.Grads() {
			s.Params()[i] -= 0.05 * g
		}
	}
	if !(losses[4] < losses[0]-0.01) || math.IsNaN(losses[4]) {
		t.Errorf("losses %v, want a clear fall", losses)
	}
}

// TestExplain prints a plan.
func TestExplain(t *testing.T) {
	p, err := engine.Compile(unet(t, 2, 1), engine.Options{Profile: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.Run(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := p.Explain(&b); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + b.String())
}
