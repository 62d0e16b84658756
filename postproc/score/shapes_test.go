package score

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// TestShapes: each field of a date that has another shape than the grid and the options is refused by its name, also if it is the last of
// several; the date without a fault is taken.
func TestShapes(t *testing.T) {
	const n = 3
	fields := func(count int) [][]float32 {
		out := make([][]float32, count)
		for i := range out {
			out[i] = make([]float32, n)
		}
		return out
	}
	short := func(x [][]float32) [][]float32 { x[len(x)-1] = x[len(x)-1][:n-1]; return x }
	const raw, net, family = 0, 1, 2
	spoil := map[string]func(ref *Reference, s []Sample) []Sample{
		"":                                                      func(_ *Reference, s []Sample) []Sample { return s },
		"the observation has 2 points, want 3":                  func(r *Reference, s []Sample) []Sample { r.Obs = r.Obs[:2]; return s },
		"the full ensemble's spread has 2":                      func(r *Reference, s []Sample) []Sample { r.FullSpread = r.FullSpread[:2]; return s },
		"the extreme forecast index has 0":                      func(r *Reference, s []Sample) []Sample { r.Index = nil; return s },
		"the index that selects extremes has 2":                 func(r *Reference, s []Sample) []Sample { r.Extremes = r.Extremes[:2]; return s },
		"an observation at an earlier lead has 2":               func(r *Reference, s []Sample) []Sample { short(r.Earlier); return s },
		"2 quantiles of the climate, want 3":                    func(r *Reference, s []Sample) []Sample { r.Climate = r.Climate[:2]; return s },
		"a quantile of the climate has 2":                       func(r *Reference, s []Sample) []Sample { short(r.Climate); return s },
		"2 samples for 3 systems":                               func(_ *Reference, s []Sample) []Sample { return s[:2] },
		"net has 0 probabilities and 1 quantiles, want 1 and 1": func(_ *Reference, s []Sample) []Sample { s[net].Exceedance = nil; return s },
		"net has 1 probabilities and 2 quantiles, want 1 and 1": func(_ *Reference, s []Sample) []Sample { s[net].Quantiles = fields(2); return s },
		"a probability or quantile of net has 2":                func(_ *Reference, s []Sample) []Sample { short(s[net].Quantiles); return s },
		"raw needs 2 members, got 1":                            func(_ *Reference, s []Sample) []Sample { s[raw].Members = s[raw].Members[:1]; return s },
		"a member of raw has 2":                                 func(_ *Reference, s []Sample) []Sample { short(s[raw].Members); return s },
		"members of raw at 0 earlier leads, references at 1":    func(_ *Reference, s []Sample) []Sample { s[raw].Earlier = nil; return s },
		"members of raw at 2 earlier leads, references at 1": func(_ *Reference, s []Sample) []Sample {
			s[raw].Earlier = append(s[raw].Earlier, s[raw].Earlier[0])
			return s
		},
		"members of raw at 1 earlier leads, references at 1": func(_ *Reference, s []Sample) []Sample { s[raw].Earlier[0] = s[raw].Earlier[0][:1]; return s },
		"member of raw has 2 points, want 3":                 func(_ *Reference, s []Sample) []Sample { short(s[raw].Earlier[0]); return s },
		"the mean of net has 2":                              func(_ *Reference, s []Sample) []Sample { s[net].Mean = s[net].Mean[:2]; return s },
		"the spread of net has 2":                            func(_ *Reference, s []Sample) []Sample { s[net].Spread = s[net].Spread[:2]; return s },
		"the mean of family has 0":                           func(_ *Reference, s []Sample) []Sample { s[family].Mean = nil; return s },
		"1 parameters of family, want":                       func(_ *Reference, s []Sample) []Sample { s[family].Parameters = fields(1); return s },
		"a parameter of family has 2":                        func(_ *Reference, s []Sample) []Sample { short(s[family].Parameters); return s },
	}
	for want, change := range spoil {
		a, err := New(t850, Grid{Weights: make([]float64, n), NX: n}, []System{{Name: "raw", Provides: Members | Leads}, {Name: "net", Provides: Mean | Spread, Thresholds: []float64{1}, Levels: []float64{0.5}},
			{Name: "family", Provides: Parameters | Mean, Family: dist.CensoredNormal}},
			Options{Scores: IDs(), Thresholds: []float64{1}, Levels: []float64{0.5}, FullSpread: true, Index: true, Extremes: 0.5, Climate: 3})
		if err != nil {
			t.Fatal(err)
		}
		f := fields(4)
		ref := Reference{Obs: f[0], FullSpread: f[1], Index: f[2], Extremes: f[3], Climate: fields(3), Earlier: fields(1)}
		samples := change(&ref, []Sample{{Members: fields(2), Earlier: [][][]float32{fields(2)}}, {Mean: f[0], Spread: f[1], Exceedance: fields(1), Quantiles: fields(1)}, {Mean: f[0], Parameters: fields(len(dist.CensoredNormal.Parameters))}})
		err = a.Add(day(0), ref, samples)
		if text := fmt.Sprint(err); (want == "") != (err == nil) || !strings.Contains(text, want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
