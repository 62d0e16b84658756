package report

import (
	"math"
	"testing"
)

// lat is a lattice of a function of the node indices.
func lat(nx, ny int, f func(x, y float64) float64) *lattice {
	l := &lattice{nx: nx, ny: ny}
	for j := range ny {
		for i := range nx {
			l.values = append(l.values, f(float64(i), float64(j)))
		}
	}
	return l
}

// An isoline of a linear field is straight and open, that of a cone a closed circle; both lie on the value. Simplified
// lines stay within the tolerance.
func TestIsolines(t *testing.T) {
	lines := lat(20, 10, func(x, y float64) float64 { return x + 0.5*y }).isolines(7.3)
	if len(lines) != 1 {
		t.Fatalf("%d lines of a plane", len(lines))
	}
	for _, p := range lines[0] {
		if math.Abs(p.x+0.5*p.y-7.3) > 1e-9 {
			t.Errorf("%v does not lie on 7.3", p)
		}
	}
	if s := simplified(lines[0]); len(s) != 2 {
		t.Errorf("a straight line has %d points", len(s))
	}
	circles := lat(41, 41, func(x, y float64) float64 { return math.Hypot(x-20, y-20) }).isolines(12)
	if len(circles) != 1 || circles[0][0] != circles[0][len(circles[0])-1] {
		t.Fatalf("%d lines around a cone, closed %t", len(circles), len(circles) > 0 && circles[0][0] == circles[0][len(circles[0])-1])
	}
	s := simplified(circles[0])
	if len(s) >= len(circles[0])*2/3 || s[0] != s[len(s)-1] {
		t.Errorf("%d of %d points", len(s), len(circles[0]))
	}
	for _, p := range s {
		if math.Abs(math.Hypot(p.x-20, p.y-20)-12) > 0.05 {
			t.Errorf("%v is not 12 from the centre", p)
		}
	}
	// A missing node interrupts the line.
	gap := lat(20, 10, func(x, y float64) float64 {
		if x == 7 && y == 5 {
			return math.NaN()
		}
		return x
	})
	if n := len(gap.isolines(7.3)); n != 2 {
		t.Errorf("%d lines beside a missing node", n)
	}
}

// The interval is the smallest with at most 14 isolines.
func TestIsolineInterval(t *testing.T) {
	for want, most := range map[float64]float32{4: 540, 8: 600, 16: 2000} {
		if got := IsolineInterval([]float64{4, 8, 16}, []float32{500, float32(math.NaN())}, []float32{most}); got != want {
			t.Errorf("500 to %g: every %g, want %g", most, got, want)
		}
	}
}
