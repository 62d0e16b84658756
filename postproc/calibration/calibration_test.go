package calibration

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

// Isotonic and Reliability against scikit-learn and numpy: testdata/reference.py.
func TestReference(t *testing.T) {
	raw, err := os.ReadFile("testdata/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		P, Y, W, At, Isotonic, Reliability []float64
	}
	if err := json.Unmarshal(raw, &cases); err != nil || len(cases) == 0 {
		t.Fatal(err)
	}
	const rounding = 1e-12 // of sums in another order
	for _, c := range cases {
		iso := Isotonic(c.P, c.Y, c.W)
		var table Table
		for i := range c.P {
			table.Add(c.P[i], c.Y[i], c.W[i])
		}
		reliability := table.Reliability()
		if !iso.Valid() || !reliability.Valid() || table.Cases() != len(c.P) {
			t.Errorf("n=%d: %v, %v", len(c.P), iso, reliability)
		}
		for i, p := range c.At {
			if got := iso.At(p); math.Abs(got-c.Isotonic[i]) > rounding {
				t.Errorf("n=%d: isotonic at %g: %.15g, want %.15g", len(c.P), p, got, c.Isotonic[i])
			}
			if got := reliability.At(p); math.Abs(got-c.Reliability[i]) > rounding {
				t.Errorf("n=%d: reliability at %g: %.15g, want %.15g", len(c.P), p, got, c.Reliability[i])
			}
		}
	}
}

// The fit is the nearest non-decreasing sequence: each of its blocks has its mean, and by
// the conditions of Karush, Kuhn and Tucker the sums of residuals from the start of a block are
// nowhere below 0.
func TestPoolAdjacentIsOptimal(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		n := 1 + r.IntN(30)
		y, w := make([]float64, n), make([]float64, n)
		for i := range y {
			y[i], w[i] = float64(i)/10+r.NormFloat64(), 0.1+r.Float64()
		}
		z := slices.Clone(y)
		PoolAdjacentViolators(z, w)
		if !slices.IsSorted(z) {
			t.Fatalf("%v falls", z)
		}
		for from := 0; from < n; {
			to := from
			sum := 0.0
			for ; to < n && z[to] == z[from]; to++ {
				if sum += w[to] * (y[to] - z[to]); sum < -1e-9 {
					t.Fatalf("of %v with weights %v to %v: the first %d of a block from %d are too high", y, w, z, to-from+1, from)
				}
			}
			if math.Abs(sum) > 1e-9 {
				t.Fatalf("of %v with weights %v to %v: block %d to %d has not its mean", y, w, z, from, to)
			}
			from = to
		}
	}
}

// What was calibrated once is calibrated: the second fit is the identity, and events that happen
// as often as was said stay.
func TestCalibratedStays(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	const n = 4000
	p, y, w := make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range p {
		p[i], w[i] = r.Float64(), 1+r.Float64()
		if r.Float64() < p[i]*p[i] {
			y[i] = 1
		}
	}
	fit := Isotonic(p, y, w)
	for i := range p {
		p[i] = fit.At(p[i])
	}
	again := Isotonic(p, y, w)
	for _, v := range p {
		if math.Abs(again.At(v)-v) > 1e-9 {
			t.Fatalf("%g becomes %g", v, again.At(v))
		}
	}
	// A table of cells is the regression of cases, but for the order within a cell.
	var table Table
	for i := range p {
		table.Add(p[i], y[i], w[i])
	}
	coarse := table.Isotonic()
	for _, v := range p {
		if math.Abs(coarse.At(v)-v) > 0.02 {
			t.Fatalf("by cells %g becomes %g", v, coarse.At(v))
		}
	}
}

func TestEdges(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		name    string
		p, y, w []float64
		at      []float64
		want    []float64
	}{
		{"no case", nil, nil, nil, []float64{0.3, nan}, []float64{0.3, nan}},
		{"one case", []float64{0.4}, []float64{1}, []float64{2}, []float64{0, 0.4, 1}, []float64{1, 1, 1}},
		{"missing", []float64{nan, 0.2, 0.6}, []float64{1, nan, 1}, []float64{1, 1, 1}, []float64{0.5}, []float64{1}},
		{"reversed", []float64{0.1, 0.9}, []float64{1, 0}, []float64{1, 3}, []float64{0, 0.5, 1}, []float64{0.25, 0.25, 0.25}},
		{"between", []float64{0.2, 0.6}, []float64{0, 1}, []float64{1, 1}, []float64{0.1, 0.3, 0.9}, []float64{0, 0.25, 1}},
		{"equal forecasts", []float64{0.5, 0.5}, []float64{0, 1}, []float64{3, 1}, []float64{0.5}, []float64{0.25}},
	} {
		fit := Isotonic(c.p, c.y, c.w)
		for i, p := range c.at {
			if got := fit.At(p); math.Abs(got-c.want[i]) > 1e-12 || (got != got) != (c.want[i] != c.want[i]) {
				t.Errorf("%s: %g becomes %g, want %g", c.name, p, got, c.want[i])
			}
		}
	}
	// Forecasts of exactly 0 and 1 have cells and bins of their own.
	var table Table
	for range 300 {
		table.Add(0, 0, 1)
		table.Add(1, 1, 1)
		table.Add(0.5, 1, 1)
	}
	for range 30 {
		table.Add(0, 1, 1)
	}
	m := table.Reliability()
	if want := 30. / 330; math.Abs(m.At(0)-want) > 1e-12 || m.At(1) != 1 || m.At(0.5) != 1 {
		t.Errorf("at 0 %g, want %g; at 0.5 %g; at 1 %g", m.At(0), want, m.At(0.5), m.At(1))
	}
	p := []float64{0.2, 0.7, 0.5}
	Rearrange(p)
	if !slices.Equal(p, []float64{0.7, 0.5, 0.2}) {
		t.Errorf("falling: %v", p)
	}
	p = []float64{0.2, nan, 0.5}
	if Rearrange(p); p[0] != 0.2 || p[2] != 0.5 {
		t.Errorf("with a missing one: %v", p)
	}
}

func ExampleIsotonic() {
	m := Isotonic([]float64{0.1, 0.3, 0.5, 0.9}, []float64{0, 1, 0, 1}, []float64{1, 1, 1, 1})
	fmt.Println(m.At(0.1), m.At(0.4), m.At(0.95))
	// Output: 0 0.5 1
}
