package conformance

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/backend/ref/reftest"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// evaluated computes a graph of the inputs in float64.
func evaluated(t *testing.T, in map[string][]float64, shapes map[string]graph.Shape, build func(b *graph.Builder, in map[string]graph.Value) []graph.Value) [][]float64 {
	t.Helper()
	b := graph.New(1)
	values := map[string]graph.Value{}
	for _, name := range []string{"x", "y", "k", "q", "v"} {
		if s, ok := shapes[name]; ok {
			values[name] = b.Input(name, s)
		}
	}
	want := build(b, values)
	for _, v := range want {
		b.Output(fmt.Sprint(v.ID()), v)
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	all, err := reftest.Eval(g, in, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out [][]float64
	for _, v := range want {
		out = append(out, all[v.ID()])
	}
	return out
}

func within(t *testing.T, what string, got, want []float64, tol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= tol) {
			t.Errorf("%s[%d] = %.12f, want %.12f", what, i, got[i], want[i])
		}
	}
}

// Kernel scores and their gradients, from closed forms and a program of float64 of its own.
func TestKernelCRPSOracles(t *testing.T) {
	almost := dist.AlmostFair(0.95)
	for _, c := range []struct {
		x                   []float64
		y                   float64
		plain, fair, almost float64
		gradient            []float64
	}{
		{[]float64{1.2, -0.4, 0.7, 2.1, 0.3}, 0.5, 0.248, 0.13, 0.1359, []float64{0.101, -0.002, 0.2, 0.002, -0.101}},
		{[]float64{0, 0, 0, 3}, 0, 0.1875, 0, 0.009375, []float64{0.0822916667, 0.0822916667, 0.0822916667, 0.003125}},
		{[]float64{271.3, 272.8, 270.9, 273.4, 272.2, 271.7, 272.5, 270.4, 273.0, 271.9}, 274.1, 1.571, 1.5133333333, 1.5162166667, nil},
	} {
		m := len(c.x)
		got := evaluated(t, map[string][]float64{"x": c.x, "y": {c.y}}, map[string]graph.Shape{"x": {m, 1}, "y": {1, 1}},
			func(b *graph.Builder, in map[string]graph.Value) []graph.Value {
				x, y := in["x"], in["y"]
				score := op.KernelCRPS(b, x, y, m, almost)
				return []graph.Value{op.KernelCRPS(b, x, y, m, dist.Plain), op.KernelCRPS(b, x, y, m, dist.Fair), score,
					graph.Gradients(b, op.Sum(b, score), []graph.Value{x}, op.Add)[0]}
			})
		within(t, "plain, fair, almost fair", []float64{got[0][0], got[1][0], got[2][0]}, []float64{c.plain, c.fair, c.almost}, 1e-10)
		// At y, and at equal members, the printed gradient of row 2 takes the mean of both sides too.
		if c.gradient != nil {
			within(t, "gradient", got[3], c.gradient, 1e-10)
		}
	}
}

// Two independent groups of members: scores over all pairs, and over pairs across groups.
func TestCrossPairOracle(t *testing.T) {
	got := evaluated(t, map[string][]float64{"x": {0.2, 1.1, -0.5, 0.9}, "y": {0.4}}, map[string]graph.Shape{"x": {4, 1}, "y": {1, 1}},
		func(b *graph.Builder, in map[string]graph.Value) []graph.Value {
			return []graph.Value{op.KernelCRPS(b, in["x"], in["y"], 4, dist.Fair), op.CrossPairCRPS(b, in["x"], in["y"], 4, 2)}
		})
	within(t, "fair, cross pairs", []float64{got[0][0], got[1][0]}, []float64{0.1166666667, 0.175}, 1e-10)
}

// Attention of three members at two points, one head, without projections.
func TestAttentionOracle(t *testing.T) {
	s := graph.Shape{3, 1, 1, 1, 2}
	got := evaluated(t, map[string][]float64{"k": {1, 0, 0, 1, 1, 1}, "q": {.5, .5, 1, 0, 0, 2}, "v": {1, 2, 3, 1, 2, 6}},
		map[string]graph.Shape{"k": s, "q": s, "v": s}, func(b *graph.Builder, in map[string]graph.Value) []graph.Value {
			a := op.Attention{Set: 3, Heads: 1}
			w := op.SetAttention(b, in["k"], in["q"], a)
			return []graph.Value{w, op.Attend(b, in["v"], a, w)}
		})
	within(t, "weights by query", got[0], []float64{0.2920459231, 0.2920459231, 0.4159081537, 0.4011120927, 0.1977758146, 0.4011120927,
		0.1083834518, 0.4458082741, 0.4458082741}, 1e-10)
	within(t, "result", got[1], []float64{1, 2.3715866917, 2.796663722, 1.4066725561, 2.3374248223, 6.3374248223}, 1e-9)
}

// Scores at two scales of periodic rows of eight points.
func TestMultiScaleOracle(t *testing.T) {
	digits := func(rows ...string) (v []float64) {
		for _, r := range rows {
			for _, d := range r {
				v = append(v, float64(d-'0'))
			}
		}
		return v
	}
	in := map[string][]float64{"x": digits("01021031", "10201120", "02110221"), "y": digits("11020130")}
	smooth := []op.Smoothing{{Lat: []float64{1}, Lon: []float64{.25, .5, .25}, Periodic: true}}
	got := evaluated(t, in, map[string]graph.Shape{"x": {3, 1, 1, 1, 8}, "y": {1, 1, 1, 1, 8}}, func(b *graph.Builder, in map[string]graph.Value) []graph.Value {
		f := dist.AlmostFair(0.95)
		score := func(weights []float64) graph.Value {
			return op.Mean(b, op.MultiScaleCRPS(b, in["x"], in["y"], 3, f, smooth, weights))
		}
		return []graph.Value{score([]float64{1, 0}), score([]float64{0, 1}), score(nil), op.Mean(b, op.KernelCRPS(b, in["x"], in["y"], 3, f))}
	})
	within(t, "smooth, difference, both, unsmoothed", slices.Concat(got...), []float64{0.0338541667, 0.2258680556, 0.0338541667 + 0.2258680556, 0.2583333333}, 2e-10)
}

// Smoothing leaves constant fields as they are, also at the poles, and its parts add up.
func TestSmoothing(t *testing.T) {
	const rows, columns = 9, 12
	x := make([]float64, 2*rows*columns)
	for i := range x {
		x[i] = 3
		if i >= rows*columns {
			x[i] = math.Sin(float64(i * i))
		}
	}
	var smooth []op.Smoothing
	for _, sigma := range []float64{8, 4, 2} {
		smooth = append(smooth, op.Gaussian(sigma, rows, columns, true))
	}
	got := evaluated(t, map[string][]float64{"x": x}, map[string]graph.Shape{"x": {2, 1, 1, rows, columns}}, func(b *graph.Builder, in map[string]graph.Value) []graph.Value {
		parts := op.Scales(b, in["x"], smooth)
		sum := parts[0]
		for _, p := range parts[1:] {
			sum = op.Add(b, sum, p)
		}
		return []graph.Value{parts[0], sum}
	})
	within(t, "constant", got[0][:rows*columns], x[:rows*columns], 1e-6) // weights are float32
	within(t, "sum of parts", got[1], x, 1e-12)
	low, high := slices.Min(got[0][rows*columns:]), slices.Max(got[0][rows*columns:])
	if high-low > 0.2 {
		t.Errorf("smoothed noise has %.3f to %.3f", low, high)
	}
}
