package coupling

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/postproc/significance"
)

func TestCrossPair(t *testing.T) {
	cross, within := CrossPair([]float64{0.2, 1.1}, []float64{-0.5, 0.9}, 0.4)
	if math.Abs(cross-0.175) > 1e-12 || math.Abs(within) > 1e-12 {
		t.Errorf("got %g and %g, want 0.175 and 0", cross, within)
	}
	if c, w := CrossPair([]float64{0, math.NaN()}, []float64{1, 2}, 0); !math.IsNaN(c) || !math.IsNaN(w) {
		t.Errorf("a missing member gives %g and %g", c, w)
	}
}

// date is one date: raw members and observation.
type date struct {
	members [][]float32
	obs     []float32
}

// world draws perfectly reliable members about a signal of variance rho.
func world(r *rand.Rand, dates, points, m int, rho float64) []date {
	out := make([]date, dates)
	for k := range out {
		c := date{obs: make([]float32, points), members: make([][]float32, m)}
		for i := range c.members {
			c.members[i] = make([]float32, points)
		}
		for p := range points {
			signal := math.Sqrt(rho) * r.NormFloat64()
			c.obs[p] = float32(signal + r.NormFloat64())
			for i := range c.members {
				c.members[i][p] = float32(signal + r.NormFloat64())
			}
		}
		out[k] = c
	}
	return out
}

// linear is b·mean + c·(x−mean): member by member if b = c, else coupled.
func linear(b, c float64) Method {
	return func(x [][]float32) ([][]float32, error) {
		out := cloneFields(x)
		for p := range x[0] {
			var mean float64
			for _, f := range x {
				mean += float64(f[p]) / float64(len(x))
			}
			for i, f := range x {
				out[i][p] = float32(b*mean + c*(float64(f[p])-mean))
			}
		}
		return out, nil
	}
}

// In the linear example raw members pass and those of the fair optimum fail: their spread agrees
// with theory, R exceeds 1, and the cross-pair score is not improved.
func TestLinearExample(t *testing.T) {
	const m, rho = 10, 4.0
	r := rand.New(rand.NewPCG(4, 5))
	cases := world(r, 60, 150, m, rho)
	o := Options{Bootstrap: significance.Bootstrap{Resamples: 300, BlockLength: 1, Confidence: 0.999}}
	same := func(x [][]float32) ([][]float32, error) { return x, nil }
	table := test(t, same, cases, o)
	if len(table) != 7 || slices.ContainsFunc(table, func(r Row) bool { return !r.Passed }) {
		t.Errorf("independent members did not pass: %+v", table)
	}
	b := rho / (rho + 1./m)
	spread := math.Sqrt(1+rho/(m*rho+1)) * m / math.Sqrt((m-1)*(m-2)) // c* of the fair CRPS
	table = test(t, linear(b, spread), cases, o)
	if table[0].Value != m*(m-1) || table[0].Passed {
		t.Errorf("every member reaches all others: %+v", table[0])
	}
	if got := math.Sqrt(table[1].Value); math.Abs(got-math.Sqrt(1.5277777778)) > 0.03 || table[1].Passed {
		t.Errorf("R %.4f, theory 1.5278", table[1].Value)
	}
	last := table[len(table)-1]
	if last.Passed || !(last.Value > 0.02) {
		t.Errorf("cross pairs: %+v", last)
	}
}

// test makes all tests on a method, the Jacobian's with the first date.
func test(t *testing.T, f Method, cases []date, o Options) Table {
	t.Helper()
	leaks, err := Jacobian(f, cases[0].members, 1)
	if err != nil {
		t.Fatal(err)
	}
	dates := make([]Date, len(cases))
	for k, c := range cases {
		out, err := o.Calibrate(len(c.members), func(of []int) ([][]float32, error) {
			in := make([][]float32, len(of))
			for i, x := range of {
				in[i] = c.members[x]
			}
			return f(in)
		})
		if err != nil {
			t.Fatal(err)
		}
		dates[k] = o.SumDate(out, c.obs)
	}
	table, err := NewTable(len(leaks), dates, o)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// The expected scores of the linear example, in units of 1/√π, from its moments: fair, and
// cross pairs of groups of K.
func TestLinearTheory(t *testing.T) {
	const k, rho = 10.0, 4.0
	b := rho / (rho + 1/k)
	tt := 1 + rho/(k*rho+1)
	c := math.Sqrt(tt) * k / math.Sqrt((k-1)*(k-2))
	v := (b-1)*(b-1)*rho + b*b/k + c*c*(1-1/k) + 1
	fair := math.Sqrt2*math.Sqrt(v) - c
	cross := math.Sqrt2*math.Sqrt(v) - math.Sqrt(b*b/k+c*c*(1-1/k))
	if math.Abs(fair-0.9877295966) > 1e-9 || math.Abs(cross-1.0111390758) > 1e-9 {
		t.Errorf("fair %.10f, cross pairs %.10f", fair, cross)
	}
	// Draws agree: the same method on groups of K.
	r := rand.New(rand.NewPCG(6, 7))
	cases := world(r, 40, 400, 2*k, rho)
	f := linear(b, c)
	var sums [3]float64
	for _, x := range cases {
		out, err := Options{}.Calibrate(2*k, func(of []int) ([][]float32, error) { return f(x.members[of[0] : of[0]+len(of)]) })
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range (Options{}).SumDate(out, x.obs).Cross {
			sums[i] += v
		}
	}
	for i, want := range []float64{cross, fair} {
		if got := sums[1+i] / sums[0] * math.Sqrt(math.Pi); math.Abs(got-want) > 0.015 {
			t.Errorf("draws %d: %.4f, theory %.4f", i, got, want)
		}
	}
}

func TestRefusals(t *testing.T) {
	cases := world(rand.New(rand.NewPCG(1, 1)), 3, 2, 4, 1)
	bad := errors.New("no")
	for what, f := range map[string]func() error{
		"one date": func() error { _, err := NewTable(0, make([]Date, 1), Options{}); return err },
		"method fails": func() error {
			_, err := Jacobian(func([][]float32) ([][]float32, error) { return nil, bad }, cases[0].members, 1)
			return err
		},
		"fewer members": func() error {
			_, err := Jacobian(func(x [][]float32) ([][]float32, error) { return x[1:], nil }, cases[0].members, 1)
			return err
		},
	} {
		if f() == nil {
			t.Errorf("%s: accepted", what)
		}
	}
}
