package score

import (
	"fmt"
	"math"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/postproc/significance"
)

// windows returns means over 2·half+1 points of a row of n, without NaN.
func windows(n, half int) func(fields ...[]float32) [][]float32 {
	return func(fields ...[]float32) (means [][]float32) {
		for _, x := range fields {
			mean := make([]float32, n)
			for p := range mean {
				var sum, count float32
				for q := max(p-half, 0); q <= min(p+half, n-1); q++ {
					if x[q] == x[q] {
						sum += x[q]
						count++
					}
				}
				if mean[p] = sum / count; x[p] != x[p] {
					mean[p] = float32(math.NaN())
				}
			}
			means = append(means, mean)
		}
		return means
	}
}

// fss scores one date of a row of points: members [member][point] against obs, for the event above ½, in windows.
func fss(t *testing.T, half int, obs []float32, weights []float64, members ...[]float32) (value, useful float64) {
	t.Helper()
	n := len(obs)
	if weights == nil {
		weights = make([]float64, n)
		for i := range weights {
			weights[i] = 1
		}
	}
	a, err := New(Target{Variable: "tp", Unit: "kg m-2"}, Grid{Weights: weights, NX: n, Neighbourhood: windows(n, half), Radius: 5e4},
		[]System{{Name: "raw", Provides: Members}}, Options{Scores: []string{"fss", "fss_useful"}, Thresholds: []float64{0.5}})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Add(ensemble.Init{}, Reference{Obs: obs}, []Sample{{Members: members}}); err != nil {
		t.Fatal(err)
	}
	r, err := a.Result(significance.Bootstrap{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range r.Scores {
		switch s.ID {
		case "fss":
			value = float64(s.Value)
			if want := FSS.Formula + ", radius 50 km"; s.Formula != want || s.Threshold != 0.5 {
				t.Errorf("row %q of threshold %v, want %q of 0.5", s.Formula, s.Threshold, want)
			}
		case "fss_useful":
			useful = float64(s.Value)
		}
	}
	return value, useful
}

// The scores follow from the formula by hand.
func TestFSS(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		name          string
		half          int
		obs           []float32
		w             []float64
		members       [][]float32
		value, useful float64
	}{
		{"perfect", 1, []float32{0, 1, 0, 0}, nil, [][]float32{{0, 1, 0, 0}}, 1, 0.625},
		{"no overlap at points", 0, []float32{0, 1}, nil, [][]float32{{1, 0}}, 0, 0.75},
		{"overlap in windows", 1, []float32{0, 0, 1, 0, 0}, nil, [][]float32{{0, 1, 0, 0, 0}}, 1 - (1./4+1./9)/(1./4+1./9+1./9+1./9+1./9+1./9), 0.6},
		{"two members", 0, []float32{1, 0}, nil, [][]float32{{1, 1}, {0, 0}}, 1 - 0.5/1.5, 0.75},
		{"weights", 0, []float32{1, 0}, []float64{3, 1}, [][]float32{{1, 1}, {0, 0}}, 1 - 1/(1+3.), 0.875},
		{"missing", 0, []float32{1, nan, 0}, nil, [][]float32{{1, 1, nan}}, 1, 1},
		// A random forecast of the base rate ¼ scores ¼: four points for all ways in which forecast and event meet.
		{"random", 0, []float32{1, 0, 1, 0}, []float64{1, 3, 3, 9}, [][]float32{{1, 1, 0, 0}}, 0.25, 0.625},
	} {
		value, useful := fss(t, c.half, c.obs, c.w, c.members...)
		if math.Abs(value-c.value) > 1e-6 || math.Abs(useful-c.useful) > 1e-12 {
			t.Errorf("%s: %g, useful %g; want %g, %g", c.name, value, useful, c.value, c.useful)
		}
	}
	if value, _ := fss(t, 0, []float32{0, 0}, nil, []float32{0, 0}); value == value {
		t.Errorf("no event scores %g", value)
	}
}

func ExampleFSS() {
	// The event is forecast one point beside the observed one.
	obs, forecast := []float32{0, 0, 0, 1, 0, 0, 0}, []float32{0, 0, 1, 0, 0, 0, 0}
	grid := Grid{Weights: []float64{1, 1, 1, 1, 1, 1, 1}, NX: 7, Neighbourhood: windows(7, 1), Radius: 25e3}
	a, err := New(Target{Variable: "tp", Unit: "kg m-2"}, grid, []System{{Name: "raw", Provides: Members}}, Options{Scores: []string{"fss", "fss_useful"}, Thresholds: []float64{0.5}})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := a.Add(ensemble.Init{}, Reference{Obs: obs}, []Sample{{Members: [][]float32{forecast}}}); err != nil {
		fmt.Println(err)
		return
	}
	r, err := a.Result(significance.Bootstrap{}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range r.Scores {
		fmt.Printf("%s %.2f\n", s.ID, s.Value)
	}
	// Output:
	// fss 0.67
	// fss_useful 0.57
}
