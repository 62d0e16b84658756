package ecc

import (
	"fmt"
	"math"
	"slices"
	"testing"

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
		got, err := CoupleQuantiles(raw, c.levels, q)
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

func TestRankedTiesKeepMemberOrder(t *testing.T) {
	out := make([]float64, 4)
	Quantiles([]float64{0.1, 0.2, 0.3, 0.4})(out, []float64{5, 1, 5, 1}, 0)
	if want := []float64{0.3, 0.1, 0.4, 0.2}; !slices.Equal(out, want) {
		t.Errorf("got %v, want %v", out, want)
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
		if _, err := CoupleQuantiles(c.raw, c.levels, q); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func ExampleCoupleQuantiles() {
	raw := [][]float32{{274}, {271}, {272}} // one point
	members, err := CoupleQuantiles(raw, Levels(3), func(_ int, level float64) float64 { return 272 + 2*level })
	fmt.Println(members, err)
	// Output: [[273.5] [272.5] [273]] <nil>
}
