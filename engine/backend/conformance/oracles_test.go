package conformance

import (
	"math"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/backend/ref/reftest"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// field writes f(i, j) as float64 into a plane [1 1 1 n m].
func field(n, m int, f func(i, j float64) float64) []float64 {
	var v []float64
	for i := range n {
		for j := range m {
			v = append(v, f(float64(i), float64(j)))
		}
	}
	return v
}

// similarity evaluates f(x, y) on planes of n×n in float64.
func similarity(t *testing.T, n int, x, y []float64, f func(b *graph.Builder, x, y graph.Value) graph.Value) (float64, []string) {
	t.Helper()
	b := graph.New(1)
	s := graph.Shape{1, 1, 1, n, n}
	v := f(b, b.Input("x", s), b.Input("y", s))
	b.Output("v", v)
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	out, err := reftest.Eval(g, map[string][]float64{"x": x, "y": y}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return out[v.ID()][0], g.Notes
}

// The oracles of SSIM, MS-SSIM and L1: two smooth fields with a small
// disturbance, compared with an independent float64 program.
func TestSimilarityOracles(t *testing.T) {
	o := op.SimilarityOptions{Range: 4.3}
	ssim := func(b *graph.Builder, x, y graph.Value) graph.Value { return op.SSIM(b, x, y, o) }
	msssim := func(b *graph.Builder, x, y graph.Value) graph.Value { return op.MSSSIM(b, x, y, o) }
	mixed := func(b *graph.Builder, x, y graph.Value) graph.Value { // 0.16·L1 + 0.84·(1 − MS-SSIM)
		return op.AddScalar(b, op.Add(b, op.Scale(b, op.L1(b, x, y), 0.16), op.Scale(b, op.MSSSIM(b, x, y, o), -0.84)), 0.84)
	}
	small := [2][]float64{
		field(16, 16, func(i, j float64) float64 { return 2 + math.Sin(.3*i+.2*j) }),
		field(16, 16, func(i, j float64) float64 { return 2 + math.Sin(.3*i+.2*j+.1) + .05*math.Cos(1.1*i-.7*j) }),
	}
	large := [2][]float64{
		field(176, 176, func(i, j float64) float64 { return 2 + math.Sin(.03*i+.02*j) + .3*math.Cos(.11*i) }),
		field(176, 176, func(i, j float64) float64 {
			return 2 + math.Sin(.03*i+.02*j+.1) + .3*math.Cos(.11*i) + .05*math.Cos(.9*i-.7*j)
		}),
	}
	for _, c := range []struct {
		name string
		n    int
		xy   [2][]float64
		f    func(b *graph.Builder, x, y graph.Value) graph.Value
		want float64
		tol  float64
	}{
		{"SSIM 16", 16, small, ssim, 0.9857262, 1e-6},
		{"L1 16", 16, small, op.L1, 0.0679790919, 1e-9},
		{"SSIM 176", 176, large, ssim, 0.9457717, 1e-6},
		{"L1 176", 176, large, op.L1, 0.0672010646, 1e-9},
		{"MS-SSIM 176", 176, large, msssim, 0.983935, 2e-6},
		{"mixed 176", 176, large, mixed, 0.024247, 2e-6},
	} {
		got, notes := similarity(t, c.n, c.xy[0], c.xy[1], c.f)
		if math.Abs(got-c.want) > c.tol {
			t.Errorf("%s = %.9f, want %.9f ± %g", c.name, got, c.want, c.tol)
		}
		if len(notes) > 0 {
			t.Errorf("%s: notes %q, want none: all five scales fit", c.name, notes)
		}
	}
}

// TestMSSSIMScales: scales are left out on small fields, this is noted, the
// weights still sum to one (equal fields score 1), and one scale is SSIM.
func TestMSSSIMScales(t *testing.T) {
	o := op.SimilarityOptions{Range: 2}
	for _, c := range []struct {
		side  int
		notes int
	}{{20, 1}, {21, 1}, {41, 1}, {161, 0}} {
		x := field(c.side, c.side, func(i, j float64) float64 { return math.Sin(.4*i) * math.Cos(.3*j) })
		y := field(c.side, c.side, func(i, j float64) float64 { return math.Sin(.4*i+.2) * math.Cos(.3*j) })
		ms := func(b *graph.Builder, x, y graph.Value) graph.Value { return op.MSSSIM(b, x, y, o) }
		one, notes := similarity(t, c.side, x, x, ms)
		if math.Abs(one-1) > 1e-12 || len(notes) != c.notes {
			t.Errorf("side %d: equal fields score %v with notes %q, want 1 and %d notes", c.side, one, notes, c.notes)
		}
		if c.side == 20 {
			a, _ := similarity(t, c.side, x, y, ms)
			s, _ := similarity(t, c.side, x, y, func(b *graph.Builder, x, y graph.Value) graph.Value { return op.SSIM(b, x, y, o) })
			if math.Abs(a-s) > 1e-12 {
				t.Errorf("one scale: MS-SSIM %v, SSIM %v, want the same", a, s)
			}
		}
	}
}

// TestUpsampleOracle is the 2×2 field doubled with half-pixel centres.
func TestUpsampleOracle(t *testing.T) {
	b := graph.New(1)
	v := op.Upsample(b, b.Input("x", graph.Shape{1, 1, 1, 2, 2}), [3]int{1, 2, 2}, false)
	w := op.Upsample(b, b.Input("z", graph.Shape{1, 1, 1, 1, 4}), [3]int{1, 1, 2}, true)
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	out, err := reftest.Eval(g, map[string][]float64{"x": {0, 1, 2, 4}, "z": {0, 4, 8, 4}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	check := func(name string, got, want []float64) {
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("%s: %v, want %v", name, got, want)
			}
		}
	}
	check("clamped", out[v.ID()], []float64{0, .25, .75, 1, .5, .8125, 1.4375, 1.75, 1.5, 1.9375, 2.8125, 3.25, 2, 2.5, 3.5, 4})
	check("wrapped", out[w.ID()], []float64{1, 1, 3, 5, 7, 7, 5, 3}) // the ends mix with each other
}

// TestCRPSOracle: value and gradients of the closed form, checked once against
// numerical integration.
func TestCRPSOracle(t *testing.T) {
	for _, c := range [][6]float64{
		{0, 1, 0, 0.2336949773, 0, 0.2336949773},
		{0, 1, 1, 0.6024413576, -0.6826894921, -0.0802481345},
		{0, 1, -2, 1.4527918217, 0.9544997361, -0.4562076505},
		{1.5, 0.5, 2.25, 0.4972120020, -0.8663855975, -0.3051543922},
		{273.15, 1.2, 271.4, 1.1502650231, 0.8552513134, -0.2886873128},
		{0, 0.1, 3, 2.9435810416, -1.0000000000, -0.5641895835},
		{55000, 80, 55120, 79.5539203182, -0.8663855975, -0.3051543922},
	} {
		b := graph.New(1)
		mu, sigma, y := b.Input("mu", graph.Shape{1}), b.Input("sigma", graph.Shape{1}), b.Input("y", graph.Shape{1})
		loss := op.Mean(b, op.GaussianCRPS(b, mu, sigma, y))
		d := graph.Gradients(b, loss, []graph.Value{mu, sigma, y}, op.Add)
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		v, err := reftest.Eval(g, map[string][]float64{"mu": {c[0]}, "sigma": {c[1]}, "y": {c[2]}}, 0)
		if err != nil {
			t.Fatal(err)
		}
		for k, want := range []float64{c[3], c[4], c[5], -c[4]} {
			id := loss.ID()
			if k > 0 {
				id = d[k-1].ID()
			}
			if got := v[id][0]; math.Abs(got-want) > 1e-9*max(1, math.Abs(want)) {
				t.Errorf("crps of %v: quantity %d is %.10f, want %.10f", c[:3], k, got, want)
			}
		}
	}
}

// TestCramerIsThatOfItsFormula: the distance that is made of other operations, and its gradients, are the closed form's.
func TestCramerIsThatOfItsFormula(t *testing.T) {
	for _, c := range [][4]float64{{0, 1, 0.3, 1}, {1, 0.5, -0.5, 2}, {-2, 1.5, 2, 0.25}, {0.1, 0.4, 0.1, 0.4}} {
		b := graph.New(1)
		var in []graph.Value
		given := map[string][]float64{}
		for i, name := range []string{"mu", "sigma", "mu2", "sigma2"} {
			in, given[name] = append(in, b.Input(name, graph.Shape{1})), c[i:i+1]
		}
		loss := op.Mean(b, op.NormalCramer(b, in[0], in[1], in[2], in[3]))
		d := graph.Gradients(b, loss, in[:2], op.Add)
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		v, err := reftest.Eval(g, given, 0)
		if err != nil {
			t.Fatal(err)
		}
		want, dmu, dsigma := dist.NormalCramer(c[0], c[1], c[2], c[3])
		for i, pair := range [][2]float64{{v[loss.ID()][0], want}, {v[d[0].ID()][0], dmu}, {v[d[1].ID()][0], dsigma}} {
			if math.Abs(pair[0]-pair[1]) > 1e-12 {
				t.Errorf("%v: quantity %d is %v, want %v", c, i, pair[0], pair[1])
			}
		}
	}
}
