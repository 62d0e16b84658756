package channels

import (
	"math"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// scored is a network with every case of Taylor: a convolution followed by a norm, one with a bias,
// two that are coupled, and one of them used twice.
func scored(t *testing.T) *graph.Graph {
	t.Helper()
	b := graph.New(1)
	x := b.Input("x", graph.Shape{2, 3, 1, 4, 4})
	weight := func(name string, in, out int) graph.Value {
		return b.Param(name+".weight", graph.Shape{out, in, 1, 3, 3}, graph.HeNormal(3))
	}
	conv := func(x, w graph.Value) graph.Value { return op.Conv3D(b, x, w, op.Conv{Pad: op.Same(1, 3, 3)}) }
	c := graph.Shape{4}
	a := op.BatchNorm(b, conv(x, weight("a", 3, 4)), b.Param("gamma", c, graph.Ones()), b.Param("beta", c, graph.HeNormal(1)),
		b.State("mean", c, graph.Zeros()), b.State("var", c, graph.Ones()), op.BatchNormOptions{})
	biased := op.Bias(b, conv(op.ReLU(b, a), weight("b", 4, 5)), b.Param("b.bias", graph.Shape{5}, graph.HeNormal(1)))
	w := weight("c", 5, 3)
	twice := op.Add(b, conv(op.ReLU(b, biased), w), conv(op.ReLU(b, op.Scale(b, biased, -1)), w))
	y := conv(op.Add(b, twice, conv(x, weight("d", 3, 3))), weight("out", 3, 2))
	b.Output("y", y)
	b.Loss(op.Mean(b, op.Square(b, y)))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestTaylor compares scores with finite differences of the loss with respect to a factor on a
// channel's output.
func TestTaylor(t *testing.T) {
	g := scored(t)
	store := engine.NewStore()
	p, err := engine.Compile(g, engine.Options{Device: engine.Device{Backend: "ref"}, Mode: engine.Train, Reuse: engine.Reuse{Store: store}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for i, x := 0, p.Input("x"); i < len(x); i++ {
		x[i] = float32(math.Sin(float64(i * i)))
	}
	loss := func() float64 {
		if err := p.Run(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		return p.Loss()
	}
	loss()
	values := func(name string) []float32 { v, _, _ := store.Get(name); return v }
	c := Find(g)
	got := c.Taylor(values, func(name string) []float32 { v, _ := store.Grad(name); return v })
	scaled := [][]string{{"gamma", "beta"}, {"b.weight", "b.bias"}, {"c.weight", "d.weight"}}
	for i, params := range scaled {
		for k := range got[i] {
			at := func(factor float32) float64 {
				whole := map[string][]float32{}
				for _, name := range params {
					v := values(name)
					whole[name] = append([]float32(nil), v...)
					inner := len(v) / g.Find(name).Shape[0]
					for j := k * inner; j < (k+1)*inner; j++ {
						v[j] *= factor
					}
				}
				l := loss()
				for name, v := range whole {
					copy(values(name), v)
				}
				return l
			}
			const h = 1.0 / 256
			if want := (at(1+h) - at(1-h)) / (2 * h); math.Abs(got[i][k]-want) > 1e-3*math.Abs(want)+1e-5 {
				t.Errorf("channel %d of %v: %v, differences say %v", k, params, got[i][k], want)
			}
		}
	}
}

// TestPerOperation: with equal scores the channels that save most operations are removed first: c
// and d save 135 products per point (twice 5·9, 3·9, and 2·9 of out), b 90, a 72.
func TestPerOperation(t *testing.T) {
	c := Find(scored(t))
	one := c.byGroup(func(int) float64 { return 1 })
	kept, err := c.Choose(Goal{FLOPFraction: 0.7, Scope: Global, PerFLOP: true}, one)
	if err != nil || len(kept) != 2 || kept[0].Filter != "c.weight" || kept[1].Filter != "d.weight" {
		t.Errorf("left are %v (%v), want less of c and d alone", kept, err)
	}
	if kept, err = c.Choose(Goal{FLOPFraction: 0.7, Scope: Global}, one); err != nil || len(kept) != 1 || kept[0].Filter != "a.weight" {
		t.Errorf("left are %v (%v) when operations do not count, want less of a, the first", kept, err)
	}
}
