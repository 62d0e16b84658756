package score

import (
	"fmt"
	"math"
	"testing"
)

// The rows follow from the formula by hand.
func TestFSS(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		name                      string
		forecast, observed, event []float32
		w                         []float64
		value, base, useful       float64
	}{
		{"perfect", []float32{0, 1, 0.5}, []float32{0, 1, 0.5}, []float32{0, 1, 0}, nil, 1, 1. / 3, 2. / 3},
		{"no overlap", []float32{1, 0}, []float32{0, 1}, []float32{0, 1}, nil, 0, 0.5, 0.75},
		{"weights", []float32{0.5, 0}, []float32{0, 0.5}, []float32{0, 1}, []float64{3, 1}, 0, 0.25, 0.625},
		{"between", []float32{0.5, 0.25}, []float32{1, 0.25}, []float32{1, 0}, nil, 1 - 0.25/(0.3125+1.0625), 0.5, 0.75},
		{"missing", []float32{0.5, nan, 1}, []float32{1, 1, nan}, []float32{1, 1, 1}, nil, 1 - 0.25/1.25, 1, 1},
	} {
		var s FSS
		s.Add(c.forecast, c.observed, c.event, c.w)
		if math.Abs(s.Value()-c.value) > 1e-12 || math.Abs(s.BaseRate()-c.base) > 1e-12 || math.Abs(s.Useful()-c.useful) > 1e-12 {
			t.Errorf("%s: %g, base rate %g, useful %g; want %g, %g, %g", c.name, s.Value(), s.BaseRate(), s.Useful(), c.value, c.base, c.useful)
		}
	}
	// A random forecast of the base rate f scores f at the scale of points: four points stand for
	// all ways in which forecast and event meet, here f = 1/4.
	var s FSS
	s.Add([]float32{1, 1, 0, 0}, []float32{1, 0, 1, 0}, []float32{1, 0, 1, 0}, []float64{1, 3, 3, 9})
	if math.Abs(s.Value()-s.BaseRate()) > 1e-12 {
		t.Errorf("a random forecast scores %g, the base rate is %g", s.Value(), s.BaseRate())
	}
	if v := (&FSS{}).Value(); v == v {
		t.Errorf("nothing scores %g", v)
	}
}

func ExampleFSS() {
	var s FSS
	// An event one point away from the forecast; in discs of three points their fractions overlap.
	s.Add([]float32{1. / 3, 1. / 3, 1. / 3, 0, 0}, []float32{0, 1. / 3, 1. / 3, 1. / 3, 0}, []float32{0, 0, 1, 0, 0}, nil)
	fmt.Printf("%.2f, useful above %.2f\n", s.Value(), s.Useful())
	// Output: 0.67, useful above 0.60
}
