package unet3d

import (
	"math"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/backend/ref/reftest"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// TestCorrectionLearnsFromZero: the output of an untrained correction is 0, and its network has a
// gradient from the first step, although the weights of the locally connected layer are 0.
func TestCorrectionLearnsFromZero(t *testing.T) {
	for _, local := range []int{0, 3} {
		b := graph.New(1)
		features, anomaly := b.Input("features", graph.Shape{1, 4, 1, 6, 8}), b.Input("anomaly", graph.Shape{1, 2, 1, 6, 8})
		shift, roughness := Correction{UNet: BiasUNet{Base: 2, Stages: 1, Periodic: true}, Local: local}.Build(b, features, anomaly)
		if want := anomaly.Shape(); !shift.Shape().Equal(want) {
			t.Errorf("local %d: shift %v, want %v", local, shift.Shape(), want)
		}
		loss := op.WeightedMSE(b, shift, anomaly, b.Const("", graph.Shape{1, 1, 1, 1, 1}, []float32{1}))
		if local > 0 {
			loss = op.Add(b, loss, roughness)
		}
		b.Loss(loss)
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		if err := g.AddGradients(op.Add); err != nil {
			t.Fatal(err)
		}
		feed := map[string][]float64{}
		for name, n := range map[string]int{"features": features.Shape().Size(), "anomaly": anomaly.Shape().Size()} {
			for i := range n {
				feed[name] = append(feed[name], math.Sin(float64(i)*1.7))
			}
		}
		got, err := reftest.Eval(g, feed, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range got[shift.ID()] {
			if v != 0 {
				t.Fatalf("local %d: shift %g before training", local, v)
			}
		}
		learns := map[string]bool{}
		for _, d := range g.Grads {
			learns[g.Nodes[d.Param].Name] = largest(got[d.Value]) > 0
		}
		if !learns["out.weight"] || learns[LocalLayer+".weight"] != (local > 0) {
			t.Errorf("local %d: what learns is %v", local, learns)
		}
	}
}

func largest(x []float64) (y float64) {
	for _, v := range x {
		y = max(y, math.Abs(v))
	}
	return y
}

// TestSigmaOfSpread: sigma is above its floor where the spread is clipped at 0, and equals the
// spread plus the floor where that is not small.
func TestSigmaOfSpread(t *testing.T) {
	b := graph.New(1)
	shape := graph.Shape{1, 1, 1, 2, 2}
	in := CalibratedInput{Features: b.Input("features", graph.Shape{1, 3, 1, 2, 2}), Spread: b.Input("spread", shape), Anomaly: b.Input("anomaly", shape), Season: b.Input("season", graph.Shape{1, 2, 1, 1, 1})}
	out := Calibrated{Body: UNetKind.Body(Layout{Base: 2, Stages: 1}), SpreadAffine: [][2]float64{{-1, 2}}, SpreadScale: []float64{1}, SpreadOnly: true, SigmaFromSpread: true}.Build(b, in)
	b.Output("spread", out.Spread)
	b.Output("sigma", out.Sigma)
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	// An untrained network gives −1 + 2s.
	got, err := reftest.Eval(g, map[string][]float64{"features": make([]float64, 12), "spread": {-20, 0, 0.5, 3}, "anomaly": make([]float64, 4), "season": {0, 1}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][2]float64{{0, 0.01}, {0, 0.01 + math.Log1p(math.Exp(-10))/10}, {0, 0.01 + math.Ln2/10}, {5, 5.01}} {
		spread, sigma := got[out.Spread.ID()][i], got[out.Sigma.ID()][i]
		if math.Abs(spread-want[0]) > 1e-9 || math.Abs(sigma-want[1]) > 1e-9 {
			t.Errorf("point %d: spread %g, sigma %g, want %v", i, spread, sigma, want)
		}
	}
}
