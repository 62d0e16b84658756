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
	// [n+1], ascending.
	bounds []float64
	// [n].
	colours []color.RGBA
	// Width of a band.
	step float64
	// Decimals of the bounds.
	places int
	// [n+1] bounds with a number.
	label []bool
	// under and over: a few values lie beyond the ends. They have the colour of the end,
	// which is drawn as an arrow.
	under, over bool
}

// bands is about the number of bands of a scale: enough to show shapes, few enough to read
// values.
const bands = 20

// newScale computes the scale of all maps of a panel:
//
//  1. The range is that of all values. If excluding half a percent of the values at each end
//     reduces it by more than a fifth, the reduced range is used and the ends of the colour
//     bar become arrows.
//  2. A diverging scale is made symmetric about zero, which is then a bound.
//  3. A constant field gets a range of ±0.1 % of its value.
//  4. Bands have a round width, about a twentieth of the range, or that of isolines; bounds are
//     multiples of it.
//  5. About eight of the bounds have a number.
//
// Probabilities have a fixed scale of ten bands from 0 to 100 %.
//
// Missing: NaN and infinities are ignored; without values the scale is 0 to 1.
func newScale(p *Panel) *scale {
	if p.Probability {
		s := &scale{step: 10}
		for k := range 11 {
			s.bounds, s.label = append(s.bounds, 10*float64(k)), append(s.label, k%2 == 0)
		}
		for k := range 10 {
			s.colours = append(s.colours, Probabilities.At(float64(k)/9))
		}
		return s
	}
	var all []float64
	fields := p.SameScale
	if fields == nil {
		for _, m := range p.Maps {
			fields = append(fields, m.Values)
		}
	}
	for _, values := range fields {
		for _, x := range values {
			if v := float64(x); !math.IsNaN(v) && !math.IsInf(v, 0) {
				all = append(all, v)
			}
		}
	}
	if len(all) == 0 {
		all = []float64{0, 1}
	}
	// least and most are the extremes, low and high the range that the scale covers.
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
	// from and to are the outer bounds in units of step. The tolerances keep bounds that
	// rounding has moved by less than 1e-9 of a band.
	s := &scale{step: roundStep((high - low) / bands)}
	if p.Isolines > 0 && (high-low)/p.Isolines < 2*bands {
		s.step = p.Isolines
	}
	from, to := math.Floor(low/s.step+1e-9), math.Ceil(high/s.step-1e-9)
	colours := Sequential
	if p.Palette != nil {
		colours = p.Palette
	}
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
		c := colours.At((float64(i) + 0.5) / float64(n))
		if p.Isolines > 0 { // lighter, so that lines and their labels stand out
			c = color.RGBA{c.R/2 + 127, c.G/2 + 127, c.B/2 + 127, 255}
		}
		s.colours = append(s.colours, c)
	}
	return s
}

// roundStep is the smallest of 1, 2, 2.5 and 5 times a power of ten that is at least v > 0:
//
//	0.3 → 0.5,   21 → 25
func roundStep(v float64) float64 {
	p := math.Pow(10, math.Floor(math.Log10(v)))
	for _, k := range []float64{1, 2, 2.5, 5} {
		if v <= k*p*(1+1e-9) {
			return k * p
		}
	}
	return 10 * p
}

// band is the index of the band that contains v; outside, that of the nearest band. The tolerance
// assigns values on a bound to the band above in spite of rounding.
func (s *scale) band(v float64) int {
	return min(max(int(math.Floor((v-s.bounds[0])/s.step+1e-9)), 0), len(s.colours)-1)
}

// bound formats bound i.
func (s *scale) bound(i int) string { return decimals(s.bounds[i], s.places) }

// text formats a value with a precision of a twentieth of a band or better, at most nine
// decimals.
func (s *scale) text(v float64) string {
	return decimals(v, min(max(0, int(math.Ceil(-math.Log10(s.step/20)))), 9))
}

// places is the least number of decimals, at most 9, with which multiples of step are exact.
func places(step float64) int {
	for d := range 9 {
		x := step * math.Pow(10, float64(d))
		if x >= 0.999 && math.Abs(x-math.Round(x)) < 1e-6*x {
			return d
		}
	}
	return 9
}

// decimals formats v with d decimals and a Unicode minus sign; "–" for NaN. Numbers of 1e7 and
// more, or with seven decimals and more, have an exponent. Zero has no sign.
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
