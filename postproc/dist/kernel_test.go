package dist

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestKernelCRPSOracles(t *testing.T) {
	for _, c := range []struct {
		x                      []float64
		y, plain, fair, almost float64
	}{
		{[]float64{1.2, -0.4, 0.7, 2.1, 0.3}, 0.5, 0.248, 0.13, 0.1359},
		{[]float64{0, 0, 0, 3}, 0, 0.1875, 0, 0.009375},
		{[]float64{271.3, 272.8, 270.9, 273.4, 272.2, 271.7, 272.5, 270.4, 273.0, 271.9}, 274.1, 1.571, 1.5133333333, 1.5162166667},
	} {
		dx := make([]float64, len(c.x))
		for _, k := range []struct {
			name string
			f    Fairness
			want float64
		}{{"plain", Plain, c.plain}, {"fair", Fair, c.fair}, {"almost fair", AlmostFair(0.95), c.almost}} {
			name := fmt.Sprint(k.name, " of ", c.x)
			near(t, name, KernelCRPS(slices.Clone(c.x), c.y, k.f), k.want, 1e-10)
			near(t, name+" by pairs", KernelCRPSGrad(dx, c.x, c.y, k.f), k.want, 1e-10)
		}
	}
}

func TestKernelCRPSGradients(t *testing.T) {
	dx := make([]float64, 5)
	KernelCRPSGrad(dx, []float64{1.2, -0.4, 0.7, 2.1, 0.3}, 0.5, AlmostFair(0.95))
	for i, want := range []float64{0.101, -0.002, 0.2, 0.002, -0.101} {
		near(t, fmt.Sprint("member ", i), dx[i], want, 1e-12)
	}
	dx = dx[:4]
	KernelCRPSGrad(dx, []float64{0, 0, 0, 3}, 0, AlmostFair(0.95))
	for i, want := range []float64{0.0822916667, 0.0822916667, 0.0822916667, 0.003125} {
		near(t, fmt.Sprint("tied member ", i), dx[i], want, 1e-10)
	}
}

// Laws: order of members does not matter; a shift of everything does not; plain
// minus fair is the mean distance of the pairs over 2M.
func TestKernelCRPSLaws(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		m := 2 + r.IntN(9)
		x := make([]float64, m)
		for i := range x {
			x[i] = r.NormFloat64()
		}
		y := r.NormFloat64()
		plain, fair := KernelCRPS(slices.Clone(x), y, Plain), KernelCRPS(slices.Clone(x), y, Fair)
		var pairs float64
		shifted := make([]float64, m)
		for i, a := range x {
			for _, b := range x {
				pairs += math.Abs(a - b)
			}
			shifted[m-1-i] = a + 5000
		}
		near(t, "plain − fair", plain-fair, pairs/float64(m*(m-1))/(2*float64(m)), 1e-12)
		near(t, "shifted and reversed", KernelCRPS(shifted, y+5000, Fair), fair, 1e-11)
	}
	if v := KernelCRPS([]float64{2}, 5, Plain); v != 3 {
		t.Errorf("one member is its distance: got %g", v)
	}
	dx := []float64{0}
	if v := KernelCRPSGrad(dx, []float64{2}, 5, Plain); v != 3 || dx[0] != -1 {
		t.Errorf("one member by pairs: got %g, gradient %g", v, dx[0])
	}
	if !math.IsNaN(KernelCRPS([]float64{2}, 5, Fair)) {
		t.Error("the fair score of one member must be NaN")
	}
	if !math.IsNaN(KernelCRPS([]float64{math.NaN(), 1, 2}, 0, Plain)) {
		t.Error("a missing member must give NaN")
	}
	if !math.IsNaN(KernelCRPSGrad(make([]float64, 3), []float64{math.NaN(), 1, 2}, 0, Plain)) {
		t.Error("a missing member must give NaN by pairs")
	}
}

func ExampleKernelCRPS() {
	members := []float64{271, 273, 275} // K
	fmt.Printf("%.3f K\n", KernelCRPS(members, 274, Fair))
	// Output: 0.333 K
}
