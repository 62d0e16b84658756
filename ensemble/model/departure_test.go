package model

import (
	"math"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
)

// TestDepartures: the farthest point of each field is found, measured by the largest error of training or,
// where it is larger, the members' spread. Missing points, infinity and targets that are not scored are no
// obstacle.
func TestDepartures(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	grid := &ensemble.Grid{Kind: ensemble.RegularLatLon, NX: 3, NY: 1, Lat: []float64{50}, Lon: []float64{0, 10, 20}}
	k := task.Task{Targets: []task.Target{{Variable: "2t"}}, TargetWeights: []float64{1, 0}, LargestError: []float64{4, 4}, LargestSpread: []float64{2, 2}, SpreadAffine: [][2]float64{{0, 1}, {0, 1}}}
	k.Features.Axes.Levels = []ensemble.Level{ensemble.PressureLevel(850), ensemble.PressureLevel(500)}
	for _, c := range []struct {
		name                          string
		mean, sigma, spread           []float32 // of the scored target
		std                           float32   // of the members
		ofMean, ofSpread, ofFullRatio float64
		lon                           float64 // of the mean
	}{
		{"sound", []float32{281, 278, 280}, []float32{1, 2, 1}, []float32{1, 1, 1}, 1, 0.5, 0.5, 0.5, 10},
		{"a mean of 222 K", []float32{281, 222, 280}, []float32{1, 2, 1}, []float32{1, 1, 1}, 1, 14.5, 0.5, 0.5, 10},
		{"members far apart", []float32{281, 222, 280}, []float32{1, 2, 1}, []float32{1, 1, 1}, 58, 1, 2. / 58, 1. / 58, 10},
		{"missing points", []float32{nan, 280, 281}, []float32{nan, 2, 8}, []float32{nan, 1, 4}, 1, 0.25, 2, 2, 20},
		{"infinite", []float32{280, 280, -inf}, []float32{inf, 2, 1}, []float32{1, 1, 1}, 1, math.MaxFloat64, math.MaxFloat64, 0.5, 20},
		{"missing everywhere", []float32{nan, nan, nan}, []float32{nan, nan, nan}, []float32{nan, nan, nan}, 1, 0, 0, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			absurd := []float32{1e9, 1e9, 1e9} // of the other target
			out := &Forecast{Mean: append(c.mean, absurd...), Sigma: append(c.sigma, absurd...), Spread: append(c.spread, absurd...)}
			st := task.Statistics{Mean: []float32{280, 280, 280}, Std: []float32{c.std, c.std, c.std}}
			all := Departures(&k, grid, out, []task.Statistics{st, st})
			got := map[string]Departure{}
			for _, d := range all {
				got[d.Kind] = d
			}
			for kind, want := range map[string]float64{ofMean: c.ofMean, ofSpread: c.ofSpread, ofFullSpread: c.ofFullRatio} {
				if r := got[kind].Ratio; math.Abs(r-want) > 1e-6*want {
					t.Errorf("%s: ratio %g, want %g", kind, r, want)
				}
			}
			if d := got[ofMean]; d.Lon != c.lon {
				t.Errorf("the mean is farthest at %g°, want %g°", d.Lon, c.lon)
			}
		})
	}
	// Slabs of ranks join to the departures of the whole.
	slab := func(ratio float64) []Departure {
		return []Departure{{Field: "mean", Ratio: ratio}, {Field: "spread", Ratio: 1 - ratio}}
	}
	if all := joinDepartures([][]Departure{slab(0.2), nil, slab(0.7)}); len(all) != 2 || all[0].Ratio != 0.7 || all[1].Ratio != 0.8 {
		t.Errorf("joined: %+v", all)
	}
	// The message has the unit of the variable, also of one outside the vocabulary.
	m := Model{Metadata: Metadata{Units: map[string]string{"own": "g kg-1"}}}
	d := Departure{Field: "mean of 2t at 2m", Variable: "2t", Kind: ofMean, Value: 222, Ensemble: 280, Reach: 4, Ratio: 14.5, Lat: 50, Lon: 10}
	want := "mean of 2t at 2m at 50.00°N 10.00°E is 222 K, the members' mean 280 K: 58 K apart, 54 K beyond what training saw (4 K)"
	if text := m.Describe(d); text != want {
		t.Errorf("%s\nwant %s", text, want)
	}
	d.Variable, d.Kind, d.Ensemble = "own", ofSpread, 0
	if text := m.Describe(d); !strings.Contains(text, "is 222 g kg-1, 218 g kg-1 beyond what training saw (4 g kg-1)") {
		t.Error(text)
	}
}
