package dist

import (
	"fmt"
	"math"
	"testing"
)

// Derivatives are those of differences, and the score does not see pairs within a group.
func TestCrossPairCRPS(t *testing.T) {
	x, dx, y := []float64{0.2, 1.1, -0.5, 0.9, 0.35}, make([]float64, 5), 0.4
	for first := 1; first < len(x); first++ {
		at := CrossPairCRPSGrad(dx, x, first, y)
		scratch := make([]float64, len(x))
		for i := range x {
			const h = 1e-6
			keep := x[i]
			x[i] = keep + h
			up := CrossPairCRPSGrad(scratch, x, first, y)
			x[i] = keep - h
			down := CrossPairCRPSGrad(scratch, x, first, y)
			x[i] = keep
			if got := (up - down) / (2 * h); math.Abs(got-dx[i]) > 1e-9 {
				t.Errorf("first %d: derivative to member %d is %v, differences give %v", first, i, dx[i], got)
			}
		}
		var near, between float64
		for i, v := range x {
			near += math.Abs(v-y) / float64(len(x))
			for _, w := range x[first:] {
				if i < first {
					between += math.Abs(v-w) / float64(first*(len(x)-first))
				}
			}
		}
		if math.Abs(at-(near-between/2)) > 1e-12 {
			t.Errorf("first %d: %v, want %v", first, at, near-between/2)
		}
	}
	x[2] = math.NaN()
	if v := CrossPairCRPSGrad(dx, x, 2, y); !math.IsNaN(v) || !math.IsNaN(dx[3]) {
		t.Errorf("with NaN: %v, gradient %v", v, dx)
	}
}

func ExampleCrossPairCRPSGrad() {
	dx := make([]float64, 4)
	fmt.Printf("%.4f\n", CrossPairCRPSGrad(dx, []float64{0.2, 1.1, -0.5, 0.9}, 2, 0.4))
	// Output: 0.1750
}
