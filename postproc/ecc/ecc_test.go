package ecc

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// The rows are those of the specification: N(273, 1.5²) for five raw members.
func TestCalibratedOracle(t *testing.T) {
	raw := [][]float32{{271.3}, {272.8}, {270.9}, {273.4}, {272.2}}
	q := func(_ int, p float64) float64 { return 273 + 1.5*dist.NormalQuantile(p) }
	for _, c := range []struct {
		name   string
		levels []float64
		want   []float64
	}{
		{"i/(n+1)", Levels(5), []float64{272.3539090511, 273.6460909489, 271.5488676508, 274.4511323492, 273}},
		{"(i-1/2)/n", MidLevels(5), []float64{272.2133992309, 273.7866007691, 271.0776726517, 274.9223273483, 273}},
	} {
		got, err := CoupleQuantiles(raw, c.levels, Draws{}, q)
		if err != nil {
			t.Fatal(err)
		}
		for m, w := range c.want {
			if math.Abs(float64(got[m][0])-w) > 2e-5 { // float32 near 273
				t.Errorf("levels %s, member %d: got %.9g, want %.9g", c.name, m, got[m][0], w)
			}
		}
	}
}

// Tied members share the levels of their ranks in an order that is drawn at each point: with all members dry, area
// means of the members are exchangeable. The same seed and place draw the same.
func TestTiesAreDrawnAtEachPoint(t *testing.T) {
	levels := []float64{0.1, 0.2, 0.3, 0.4}
	const points = 4000
	for name, assign := range map[string]Assignment{"quantiles": Quantiles(levels, Draws{Seed: 3}), "transformation": Transformation(Draws{Seed: 3}), "random": Random(4, Draws{Seed: 3})} {
		var mean, again [4]float64
		out := make([]float64, 4)
		for p := range points {
			assign(out, []float64{0, 0, 0, 0}, p)
			for m, l := range out {
				mean[m] += l / points
			}
		}
		whole := (mean[0] + mean[1] + mean[2] + mean[3]) / 4
		for m, v := range mean {
			if math.Abs(v-whole) > 0.02 { // four standard errors are 0.018 for uniform levels
				t.Errorf("%s: mean level %g of member %d, of all %g", name, v, m, whole)
			}
		}
		assign(out, []float64{0, 0, 0, 0}, 17)
		copy(again[:], out)
		assign(out, []float64{0, 0, 0, 0}, 18)
		assign(out, []float64{0, 0, 0, 0}, 17)
		if !slices.Equal(out, again[:]) {
			t.Errorf("%s: %v at a point, again %v", name, again, out)
		}
	}
	out := make([]float64, 4)
	Quantiles(levels, Draws{})(out, []float64{5, 1, 5, 1}, 0)
	if low := []float64{out[1], out[3]}; min(low[0], low[1]) != 0.1 || max(low[0], low[1]) != 0.2 || min(out[0], out[2]) != 0.3 || max(out[0], out[2]) != 0.4 {
		t.Errorf("tied pairs: %v", out)
	}
}

// Points of the same place have the same draws in every grid.
func TestFieldDraws(t *testing.T) {
	init, lead, level := ensemble.InitAt(time.Date(2021, 2, 1, 0, 0, 0, 0, time.UTC)), ensemble.Lead(24*time.Hour), ensemble.Level{Kind: ensemble.Surface}
	whole := &ensemble.Grid{Kind: ensemble.RegularLatLon, NX: 3, NY: 2, Lat: []float64{50, 40}, Lon: []float64{-10, 0, 10}}
	part := &ensemble.Grid{Kind: ensemble.RegularLatLon, NX: 2, NY: 1, Lat: []float64{40}, Lon: []float64{350, 0}}
	a, b := FieldDraws(init, lead, "tp", level, whole), FieldDraws(init, lead, "tp", level, part)
	if a.Seed != b.Seed || a.Stream(3) != b.Stream(0) || a.Stream(4) != b.Stream(1) || a.Stream(0) == a.Stream(3) {
		t.Error("draws depend on the grid, or not on the place")
	}
	if FieldDraws(init, 2*lead, "tp", level, whole).Seed == a.Seed || FieldDraws(init, lead, "cp", level, whole).Seed == a.Seed {
		t.Error("two fields have the same draws")
	}
}

func TestCalibratedRefuses(t *testing.T) {
	q := func(int, float64) float64 { return 0 }
	for name, c := range map[string]struct {
		raw    [][]float32
		levels []float64
	}{
		"no members":      {nil, nil},
		"too few levels":  {[][]float32{{1}, {2}}, []float64{0.5}},
		"falling levels":  {[][]float32{{1}, {2}}, []float64{0.7, 0.5}},
		"unequal members": {[][]float32{{1}, {2, 3}}, []float64{0.3, 0.5}},
	} {
		if _, err := CoupleQuantiles(c.raw, c.levels, Draws{}, q); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func ExampleCoupleQuantiles() {
	raw := [][]float32{{274}, {271}, {272}} // one point
	members, err := CoupleQuantiles(raw, Levels(3), Draws{}, func(_ int, level float64) float64 { return 272 + 2*level })
	fmt.Println(members, err)
	// Output: [[273.5] [272.5] [273]] <nil>
}
