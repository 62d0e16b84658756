package report

import (
	"image/color"
	"math"
	"slices"
	"strconv"
	"strings"
)

// scale is the colour scale of a panel: bands between round bounds.
type scale struct {
	bounds  []float64    // [n+1], ascending
	colours []color.RGBA // [n]
	step    float64      // width of a band
	places  int          // decimals of the bounds
	label   []bool       // [n+1] bounds with a number
	// under and over: a few values lie beyond the ends. They have the colour of the end,
	// which is drawn as an arrow.
	under, over bool
}

// bands is about the number of bands of a scale: enough to show shapes, few enough to read
// values.
const bands = 20

// newScale computes the scale of all maps of a panel. It covers all values. If outliers would
// extend the range by more than a quarter, half a percent of the values at each end is
// excluded. Diverging scales are symmetric about zero, which is a bound.
//
// Missing: NaN and infinities are ignored; without values the scale is 0 to 1.
func newScale(p *Panel) *scale {
	var all []float64
	for _, m := range p.Maps {
		for _, x := range m.Values {
			if v := float64(x); !math.IsNaN(v) && !math.IsInf(v, 0) {
				all = append(all, v)
			}
		}
	}
	if len(all) == 0 {
		all = []float64{0, 1}
	}
	slices.Sort(all)
	least, most := all[0], all[len(all)-1]
	low, high := least, most
	tail := len(all) / 200
	if l, h := all[tail], all[len(all)-1-tail]; h-l > 0 && most-least > 1.25*(h-l) {
		low, high = l, h
	}
	if p.Diverging {
		high = math.Max(math.Abs(low), math.Abs(high))
		low = -high
	}
	if high-low < 1e-6*math.Max(math.Abs(low), math.Abs(high)) || high == low {
		d := math.Max(1e-3*math.Abs(high), 1e-30)
		if high == 0 {
			d = 1
		}
		low, high = low-d, high+d
	}
	s := &scale{step: roundStep((high - low) / bands)}
	from, to := math.Floor(low/s.step+1e-9), math.Ceil(high/s.step-1e-9)
	colours := Sequential
	if p.Diverging {
		colours = Diverging
	}
	s.under, s.over = least < from*s.step, most > to*s.step*(1+1e-9)
	n := int(to - from)
	every := float64((n + 7) / 8)
	s.places = places(s.step * every)
	for k := from; k <= to; k++ {
		s.bounds = append(s.bounds, k*s.step)
		s.label = append(s.label, math.Mod(k, every) == 0)
	}
	for i := range n {
		s.colours = append(s.colours, colours.At((float64(i)+0.5)/float64(n)))
	}
	return s
}

// roundStep is the smallest of 1, 2, 2.5 and 5 times a power of ten that is at least v > 0.
func roundStep(v float64) float64 {
	p := math.Pow(10, math.Floor(math.Log10(v)))
	for _, k := range []float64{1, 2, 2.5, 5} {
		if v <= k*p*(1+1e-9) {
			return k * p
		}
	}
	return 10 * p
}

// band is the index of the band that contains v; outside, that of the nearest band.
func (s *scale) band(v float64) int {
	return min(max(int(math.Floor((v-s.bounds[0])/s.step+1e-9)), 0), len(s.colours)-1)
}

// bound formats bound i.
func (s *scale) bound(i int) string { return decimals(s.bounds[i], s.places) }

// text formats a value with a precision of a twentieth of a band or better.
func (s *scale) text(v float64) string {
	return decimals(v, min(max(0, int(math.Ceil(-math.Log10(s.step/20)))), 9))
}

// places is the number of decimals needed for multiples of step.
func places(step float64) int {
	for d := range 9 {
		x := step * math.Pow(10, float64(d))
		if x >= 0.999 && math.Abs(x-math.Round(x)) < 1e-6*x {
			return d
		}
	}
	return 9
}

// decimals formats v with d decimals and a Unicode minus sign; very small and very large
// numbers with an exponent; "–" for NaN.
func decimals(v float64, d int) string {
	if math.IsNaN(v) {
		return "–"
	}
	var s string
	if d >= 7 || math.Abs(v) >= 1e7 {
		s = strconv.FormatFloat(v, 'g', 4, 64)
	} else {
		s = strconv.FormatFloat(v, 'f', d, 64)
	}
	if strings.Trim(s, "-0.") == "" {
		s = strings.TrimPrefix(s, "-")
	}
	return strings.Replace(s, "-", "−", 1)
}
