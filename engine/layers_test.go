package engine_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// TestBatchNorm verifies that, in training, the result has mean 0 and variance
// 1, and the running statistics follow PyTorch (unbiased variance, momentum
// 0.1).
func TestBatchNorm(t *testing.T) {
	b := graph.New(1)
	x := b.Input("x", graph.Shape{3, 2, 1, 2, 2})
	gamma, beta := b.Param("gamma", graph.Shape{2}, graph.Ones()), b.Param("beta", graph.Shape{2}, graph.Zeros())
	mean, vari := b.State("mean", graph.Shape{2}, graph.Zeros()), b.State("var", graph.Shape{2}, graph.Ones())
	y := op.BatchNorm(b, x, gamma, beta, mean, vari, op.BatchNormOptions{})
	b.Output("y", y)
	b.Loss(op.Mean(b, y))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	for _, back := range available(t) {
		p := compile(t, g, engine.Options{Device: engine.Device{Backend: back}})
		for i := range p.Input("x") {
			p.Input("x")[i] = float32(i % 7)
		}
		if err := p.Run(context.Background(), 0); err != nil {
			t.Fatal(err)
		}
		for c := range 2 {
			var s, ss, ys, yss float64
			for n := range 3 {
				for i := range 4 {
					k := (n*2+c)*4 + i
					v, w := float64(p.Input("x")[k]), float64(p.Output("y")[k])
					s, ss, ys, yss = s+v, ss+v*v, ys+w, yss+w*w
				}
			}
			wantMean := 0.1 * s / 12
			wantVar := 0.9 + 0.1*(ss-s*s/12)/11
			m, _, _ := p.Store().Get("mean")
			v, _, _ := p.Store().Get("var")
			if math.Abs(float64(m[c])-wantMean) > 1e-6 || math.Abs(float64(v[c])-wantVar) > 1e-6 {
				t.Errorf("%s: running statistics %v %v, want %v %v", back, m[c], v[c], wantMean, wantVar)
			}
			if math.Abs(ys) > 1e-5 || math.Abs(yss/12-1) > 1e-4 {
				t.Errorf("%s: result has mean %v, mean square %v", back, ys/12, yss/12)
			}
		}
	}
}

// TestDropout verifies that a share p of the elements is dropped, that the
// others keep the mean, that the gradient drops the same elements, and that
// steps use other random numbers.
func TestDropout(t *testing.T) {
	const n = 40000
	b := graph.New(4)
	w := b.Param("w", graph.Shape{n}, graph.Ones())
	y := op.Dropout(b, w, 0.25)
	b.Output("y", y)
	b.Loss(op.Sum(b, y))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	for _, back := range available(t) {
		p := compile(t, g, engine.Options{Device: engine.Device{Backend: back}})
		var masks [3][]float32
		for k, step := range []uint64{0, 1, 0} {
			if err := p.Run(context.Background(), step); err != nil {
				t.Fatal(err)
			}
			masks[k] = slices.Clone(p.Output("y"))
		}
		if !slices.Equal(masks[0], masks[2]) || slices.Equal(masks[0], masks[1]) {
			t.Errorf("%s: the draw must depend on the step and on nothing else", back)
		}
		dropped := 0
		for i, v := range masks[2] {
			if v == 0 {
				dropped++
			}
			if g := p.Store().Grads()[i]; g != v {
				t.Fatalf("%s: element %d has value %v and gradient %v of a factor 1", back, i, v, g)
			}
		}
		if d := float64(dropped)/n - 0.25; math.Abs(d) > 5*math.Sqrt(0.25*0.75/n) {
			t.Errorf("%s: %d of %d dropped, want a quarter within five standard errors", back, dropped, n)
		}
	}
}

// TestWeightedLosses covers area weights, masks and the empty mask.
func TestWeightedLosses(t *testing.T) {
	b := graph.New(1)
	x, y := b.Param("x", graph.Shape{2, 1, 3, 4}, graph.Zeros()), b.Input("y", graph.Shape{2, 1, 3, 4})
	w := b.Const("w", graph.Shape{1, 1, 3, 1}, []float32{1, 2, 3})
	mask := b.Input("mask", graph.Shape{2, 1, 3, 4})
	b.Output("area", op.WeightedMSE(b, x, y, w))
	b.Output("mask", op.WeightedL1(b, x, y, mask))
	b.Loss(op.WeightedL1(b, x, y, mask))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	for _, back := range available(t) {
		p := compile(t, g, engine.Options{Device: engine.Device{Backend: back}})
		var area float64
		for i := range p.Input("y") {
			v := float32(i%5) + 1
			p.Input("y")[i] = v
			area += float64(i/4%3+1) * float64(v*v) / (8 * 6)
		}
		p.Input("mask")[5] = 1
		for _, want := range []float64{1, 0} {
			if err := p.Run(context.Background(), 0); err != nil {
				t.Fatal(err)
			}
			if got := float64(p.Output("area")[0]); math.Abs(got-area) > 1e-5 {
				t.Errorf("%s: area mean %v, want %v", back, got, area)
			}
			if got := p.Loss(); got != want || float64(p.Output("mask")[0]) != want {
				t.Errorf("%s: masked loss %v, want %v", back, got, want)
			}
			for i, d := range p.Store().Grads()[:24] {
				expect := 0.0
				if i == 5 {
					expect = -want
				}
				if float64(d) != expect {
					t.Errorf("%s: gradient of element %d is %v, want %v", back, i, d, expect)
				}
			}
			p.Input("mask")[5] = 0 // empty mask: loss and gradient are 0
		}
	}
}
