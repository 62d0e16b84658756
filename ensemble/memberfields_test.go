package ensemble

import (
	"math"
	"slices"
	"testing"
)

// The noise of a member is standard normal, differs between fields and streams, and is the same for a part of the
// field; missing values stay missing.
func TestNoiseOfMembers(t *testing.T) {
	const n = 40000
	x := make([]float32, n)
	for p := range x { // as smooth as fields are
		x[p] = 280 + 20*float32(math.Sin(float64(p)/300)) + float32(p)*1e-4
	}
	x[7] = float32(math.NaN())
	y := slices.Clone(x)
	for p := range y {
		y[p] += 0.01
	}
	a, b, c, d := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)
	noise(a, x, 3, 0)
	noise(b, x, 4, 0)
	noise(c, y, 3, 0)
	if a[7] == a[7] {
		t.Errorf("noise %g where the field is missing", a[7])
	}
	a[7], b[7], c[7] = 0, 0, 0
	mean := func(f func(p int) float64) (sum float64) {
		for p := range a[:n-1] {
			sum += f(p)
		}
		return sum / (n - 1)
	}
	of := func(x []float32) func(int) float64 { return func(p int) float64 { return float64(x[p]) } }
	for name, m := range map[string]struct{ got, want float64 }{
		"mean":                    {mean(of(a)), 0},
		"square":                  {mean(func(p int) float64 { return float64(a[p]) * float64(a[p]) }), 1},
		"fourth power over 3":     {mean(func(p int) float64 { return math.Pow(float64(a[p]), 4) }) / 3, 1},
		"product of neighbours":   {mean(func(p int) float64 { return float64(a[p]) * float64(a[p+1]) }), 0},
		"product of two streams":  {mean(func(p int) float64 { return float64(a[p]) * float64(b[p]) }), 0},
		"product of two fields":   {mean(func(p int) float64 { return float64(a[p]) * float64(c[p]) }), 0},
		"product with the field":  {mean(func(p int) float64 { return float64(a[p]) * (float64(y[p]) - 280) / 20 }), 0},
		"share beyond 1.96 sigma": {mean(func(p int) float64 { return math.Trunc(math.Min(math.Abs(float64(a[p]))/1.959964, 1)) }) * 20, 1},
	} {
		if math.Abs(m.got-m.want) > 0.04 { // some 5 standard errors
			t.Errorf("%s: %.4f, want %g", name, m.got, m.want)
		}
	}
	noise(d[100:200], x[100:200], 3, 0)
	if !slices.Equal(d[100:200], a[100:200]) {
		t.Error("a part of the field has other noise")
	}
}
