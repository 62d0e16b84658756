package baseline

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestQuantileMap(t *testing.T) {
	nan := float32(math.NaN())
	// Point 0: forecasts 1…5, observations twice that and 10; point 1: too few.
	forecast := []float32{3, nan, 1, 1, 5, nan, 2, 2, 4, nan}
	obs := []float32{16, 1, 12, 2, 20, 3, 14, 4, 18, 5, nan, 6}
	q, err := FitQuantileMap(forecast, obs, 2, 5)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(q.From[:5], []float32{1, 2, 3, 4, 5}) || !slices.Equal(q.To[:5], []float32{12, 14, 16, 18, 20}) {
		t.Errorf("quantiles %v to %v", q.From[:5], q.To[:5])
	}
	for _, c := range []struct{ x, want float32 }{{1, 12}, {2.5, 15}, {5, 20}, {7, 22}, {-3, 8}, {nan, nan}} {
		got := []float32{c.x, c.x}
		q.Predict(got, got)
		if got[0] != c.want && c.want == c.want || c.want != c.want && got[0] == got[0] {
			t.Errorf("%g goes to %g, want %g", c.x, got[0], c.want)
		}
		if got[1] == got[1] {
			t.Errorf("a point with two forecasts maps %g to %g", c.x, got[1])
		}
	}
	if _, err := FitQuantileMap(forecast, obs, 3, 5); err == nil {
		t.Error("ten forecasts at three points were taken")
	}
	if _, err := FitQuantileMap(forecast, obs, 2, 1); err == nil {
		t.Error("one level was taken")
	}
}

// The mapped climatology is that of the observations, and nothing changes its order, also
// where half of all values are one and the same.
func TestQuantileMapLaws(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	const n, levels = 4000, 50
	forecast, obs := make([]float32, n), make([]float32, n)
	for i := range n {
		forecast[i] = float32(max(0, r.NormFloat64()))
		obs[i] = float32(max(0, 2*r.NormFloat64()-1))
	}
	q, err := FitQuantileMap(forecast, obs, 1, levels)
	if err != nil {
		t.Fatal(err)
	}
	mapped := make([]float32, n)
	for i, v := range forecast {
		q.Predict(mapped[i:i+1], []float32{v})
	}
	slices.Sort(forecast)
	last := float32(math.Inf(-1))
	for _, v := range forecast {
		one := []float32{v}
		q.Predict(one, one)
		if one[0] < last {
			t.Fatalf("%g goes to %g, below what a lower value goes to, %g", v, one[0], last)
		}
		last = one[0]
	}
	slices.Sort(mapped)
	slices.Sort(obs)
	for _, p := range []float64{0.8, 0.9, 0.95} {
		// 4000 draws of scatter 2: 0.03 to 0.1 in the tail, and levels 0.02 apart.
		near(t, "quantile of the mapped", float64(mapped[int(p*n)]), float64(obs[int(p*n)]), 0.12)
	}
}
