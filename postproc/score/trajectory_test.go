package score

import (
	"math"
	"testing"

	"github.com/ensemble-weather/ensemble/postproc/significance"
)

// Scores of trajectories are those of the vectors of each point, in the mean over the area, and count no point
// that lacks a lead. With members that are exchanged at one lead they are others, though the CRPS of each lead is the same.
func TestTrajectories(t *testing.T) {
	const points, members = 7, 4
	weights := field64(points, func(p int) float64 { return float64(1 + p%3) })
	lead := func(k int) (x [][]float32, y []float32) {
		for m := range members {
			x = append(x, field(points, func(p int) float64 { return math.Sin(float64(3*p+5*m)) + 2*float64(m) + math.Cos(float64(k*p+m)) }))
		}
		return x, field(points, func(p int) float64 { return 3 + math.Cos(float64(p*p+k)) })
	}
	var x [][][]float32
	var y [][]float32
	for k := range 3 {
		a, b := lead(k)
		x, y = append(x, a), append(y, b)
	}
	y[0][2] = float32(math.NaN())
	scored := func(x [][][]float32) map[string]Number {
		a, err := New(t850, Grid{Weights: weights}, []System{{Name: "raw", Provides: Members | Leads}, {Name: "without", Provides: Members}}, Options{Scores: append(DefaultForLeads, "crps_plain")})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Add(day(0), Reference{Obs: y[2], Earlier: y[:2]}, []Sample{{Members: x[2], Earlier: x[:2]}, {Members: x[2]}}); err != nil {
			t.Fatal(err)
		}
		r, err := a.Result(significance.Bootstrap{Resamples: 1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(of(r, "energy_time", "without")) > 0 {
			t.Error("members of one lead are scored as trajectories")
		}
		out := map[string]Number{}
		for _, v := range r.Scores {
			if v.System == "raw" {
				out[v.ID] = v.Value
			}
		}
		return out
	}
	got := scored(x)
	var total float64
	want := map[string]float64{}
	for p, w := range weights {
		if p == 2 {
			continue
		}
		v, obs := make([][]float64, members), []float64{float64(y[0][p]), float64(y[1][p]), float64(y[2][p])}
		for m := range v {
			v[m] = []float64{float64(x[0][m][p]), float64(x[1][m][p]), float64(x[2][m][p])}
		}
		total += w
		want["energy_time"] += w * EnergyScore(v, obs, nil, false)
		want["energy_time_fair"] += w * EnergyScore(v, obs, nil, true)
		want["variogram_time"] += w * VariogramScore(v, obs, nil) / 6
	}
	for id, sum := range want {
		near(t, id, got[id], sum/total, 1e-6)
	}
	other := scored([][][]float32{{x[0][1], x[0][2], x[0][3], x[0][0]}, x[1], x[2]})
	if other["crps_plain"] != got["crps_plain"] || other["energy_time"] == got["energy_time"] || other["variogram_time"] == got["variogram_time"] {
		t.Errorf("members exchanged at the first lead: %v, before %v", other, got)
	}
	a, err := New(t850, Grid{Weights: weights}, []System{{Name: "raw", Provides: Members | Leads}}, Options{Scores: DefaultForLeads})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Add(day(0), Reference{Obs: y[2]}, []Sample{{Members: x[2], Earlier: x[:2]}}); err == nil {
		t.Error("no earlier reference was taken")
	}
}
