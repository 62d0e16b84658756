package fio

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

func TestDerive(t *testing.T) {
	nan := float32(math.NaN())
	difference := []float64{-1, 1}
	for _, c := range []struct {
		name, statistic string
		weights         []float64
		terms           [][]float32
		want            []float32
		fault           bool
	}{
		{"sum", "sum", []float64{1, 1}, [][]float32{{1, nan, 0}, {2, 1, 0}}, []float32{3, nan, 0}, false},
		{"mean", "mean", []float64{0.25, 0.75}, [][]float32{{4, 0}, {8, 4}}, []float32{7, 3}, false},
		{"maximum", "maximum", []float64{1, 1}, [][]float32{{4, nan}, {8, 1}}, []float32{8, nan}, false},
		{"minimum", "minimum", []float64{1, 1, 1}, [][]float32{{4, 2}, {8, 1}, {5, nan}}, []float32{4, nan}, false},
		{"difference", "sum", difference, [][]float32{{4, 0}, {10, 0}}, []float32{6, 0}, false},
		{"rounding of packing", "sum", difference, [][]float32{{4, 100}, {3.9, 120}}, []float32{0, 20}, false},
		{"reset", "sum", difference, [][]float32{{4, 100}, {1, 110}}, nil, true},
	} {
		d := &ensemble.Derivation{TimeStatistic: ensemble.TimeStatistic{Statistic: c.statistic}, NeverNegative: slices.Contains(c.weights, -1)}
		for _, w := range c.weights {
			d.Terms = append(d.Terms, ensemble.Term{Entry: ensemble.Entry{Key: ensemble.Key{Variable: "tp"}, Kind: &ensemble.Kind{Unit: "kg m-2"}}, Weight: w})
		}
		out := make([]float32, len(c.terms[0]))
		err := derive(out, d, c.terms)
		if c.fault {
			if exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), "tp decreases with the lead") || !strings.Contains(err.Error(), "-3 kg m-2") {
				t.Errorf("%s: got %v", c.name, err)
			}
			continue
		}
		if err != nil || !slices.EqualFunc(out, c.want, func(a, b float32) bool { return a == b || a != a && b != b }) {
			t.Errorf("%s: %v, %v, want %v", c.name, out, err, c.want)
		}
	}
}
