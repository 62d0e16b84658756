package cost

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestNonNegativeClosedForms: problems that are solved by hand.
func TestNonNegativeClosedForms(t *testing.T) {
	for _, c := range []struct {
		name string
		a    [][]float64
		b, x []float64
	}{
		{"square, solution positive", [][]float64{{2, 0}, {0, 4}}, []float64{6, 2}, []float64{3, 0.5}},
		{"orthogonal: negative parts are cut", [][]float64{{1, 0}, {0, 1}}, []float64{-1, 2}, []float64{0, 2}},
		// Without the bound (3, −2); with it the best multiple of (1, 1) is 1/2.
		{"held at zero", [][]float64{{1, 1}, {1, 3}}, []float64{1, -3}, []float64{0, 0}},
		{"one held, one freed", [][]float64{{1, 2}, {1, 3}}, []float64{3, 2}, []float64{2.5, 0}},
		{"all negative", [][]float64{{1, 0}, {1, 1}}, []float64{-1, -2}, []float64{0, 0}},
		{"mean and slope", [][]float64{{1, 0}, {1, 1}, {1, 2}}, []float64{1, 3, 5}, []float64{1, 2}},
		{"column of zeros", [][]float64{{0, 1}, {0, 2}}, []float64{2, 4}, []float64{0, 2}},
		{"far scales", [][]float64{{1e-9, 0}, {0, 1e9}}, []float64{2e-9, 3e9}, []float64{2, 3}},
	} {
		x, err := nonNegative(c.a, c.b)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for j := range x {
			if math.Abs(x[j]-c.x[j]) > 1e-9 {
				t.Errorf("%s: x = %v, want %v", c.name, x, c.x)
				break
			}
		}
	}
}

// TestNonNegativeConditions: random problems, also with columns that depend on each other, fulfil the conditions of Karush, Kuhn and Tucker.
func TestNonNegativeConditions(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for problem := range 300 {
		rows, n := 2+random.IntN(20), 1+random.IntN(7)
		a, b := make([][]float64, rows), make([]float64, rows)
		for i := range a {
			a[i], b[i] = make([]float64, n), random.NormFloat64()
			for j := range a[i] {
				a[i][j] = random.NormFloat64()
			}
			if problem%3 == 0 && n > 2 {
				a[i][n-1] = a[i][0] + 2*a[i][1]
			}
		}
		x, err := nonNegative(a, b)
		if err != nil {
			t.Fatalf("problem %d: %v", problem, err)
		}
		for j := range n {
			gradient, size := 0.0, 0.0
			for i := range a {
				r := -b[i]
				for k, v := range x {
					r += a[i][k] * v
				}
				gradient += a[i][j] * r
				size += math.Abs(a[i][j] * b[i])
			}
			if gradient /= size; x[j] < 0 || gradient < -1e-8 || x[j] > 0 && math.Abs(gradient) > 1e-8 {
				t.Errorf("problem %d: coefficient %d is %g with gradient %g", problem, j, x[j], gradient)
			}
		}
	}
}
