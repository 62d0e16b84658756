package report

import (
	"image/color"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// lightness is L* of CIELAB.
func lightness(c color.RGBA) float64 {
	y := luminance(c)
	if y <= 216.0/24389 {
		return y * 24389 / 27
	}
	return 116*math.Cbrt(y) - 16
}

func TestSequentialGrowsInLightness(t *testing.T) {
	last := lightness(Sequential.At(0))
	var least, most float64 = 100, 0
	for k := 1; k <= 20; k++ {
		l := lightness(Sequential.At(float64(k) / 20))
		least, most = math.Min(least, l-last), math.Max(most, l-last)
		last = l
	}
	if least < 2 || most > 6 { // 79 in 20 steps: 4 on average
		t.Errorf("steps of lightness between %.1f and %.1f", least, most)
	}
}

func TestDivergingIsSymmetricAboutItsMiddle(t *testing.T) {
	if c := Diverging.At(0.5); lightness(c) < 94 || c.R-c.B > 6 {
		t.Errorf("the middle is %v", c)
	}
	for k := 1; k <= 10; k++ {
		d := float64(k) / 20
		blue, orange := Diverging.At(0.5-d), Diverging.At(0.5+d)
		if blue.B <= blue.R || orange.R <= orange.B {
			t.Errorf("%g: %v and %v", d, blue, orange)
		}
		if math.Abs(lightness(blue)-lightness(orange)) > 8 {
			t.Errorf("%g: lightness %.0f and %.0f", d, lightness(blue), lightness(orange))
		}
		if lightness(blue) >= lightness(Diverging.At(0.5-d+0.05)) || lightness(orange) >= lightness(Diverging.At(0.5+d-0.05)) {
			t.Errorf("%g: no darker than nearer to the middle", d)
		}
	}
}

// The page's text and lines have a contrast of at least 4.5 to their grounds, light and dark, and no
// colour of one scheme is missing in the other.
func TestContrast(t *testing.T) {
	parse := func(s string) color.RGBA {
		if len(s) == 4 {
			s = "#" + strings.Repeat(s[1:2], 2) + strings.Repeat(s[2:3], 2) + strings.Repeat(s[3:4], 2)
		}
		n, err := strconv.ParseUint(s[1:], 16, 32)
		if err != nil {
			t.Fatal(err)
		}
		return color.RGBA{uint8(n >> 16), uint8(n >> 8), uint8(n), 255}
	}
	of := func(text string) map[string]string {
		out := map[string]string{}
		for _, m := range regexp.MustCompile(`--([a-z0-9]+): ([^;]+);`).FindAllStringSubmatch(text, -1) {
			out[m[1]] = m[2]
		}
		return out
	}
	schemes := map[string]map[string]string{"light": of(pictureStyles), "dark": of(darkStyles)}
	for name := range schemes["light"] {
		if schemes["dark"][name] == "" {
			t.Errorf("--%s has no dark colour", name)
		}
	}
	for scheme, colours := range schemes {
		for _, front := range []string{"ink", "quiet", "accent", "good", "bad", "fair", "raw", "l0", "l1", "l2", "l3", "l4", "l5"} {
			for _, ground := range []string{"page", "soft", "best", "alert"} {
				a, b := luminance(parse(colours[front])), luminance(parse(colours[ground]))
				if r := (max(a, b) + 0.05) / (min(a, b) + 0.05); r < 4.5 {
					t.Errorf("%s: %s %s on %s %s has a contrast of %.1f", scheme, front, colours[front], ground, colours[ground], r)
				}
			}
		}
	}
}

func TestScale(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		name        string
		values      []float32
		diverging   bool
		first, last float64
		least, most int // bands
	}{
		{"temperatures", []float32{235.3, 309.3, nan}, false, 235, 310, 10, 20},
		{"about zero", []float32{-1.2, 6.8}, true, -7, 7, 12, 22},
		{"small", []float32{0, 3e-5}, false, 0, 3e-5, 10, 20},
		{"geopotential", []float32{48000, 58000}, false, 48000, 58000, 10, 20},
		{"constant", []float32{5, 5}, false, 4.995, 5.005, 2, 20},
		{"zero", []float32{0, 0}, true, -1, 1, 2, 20},
		{"missing", []float32{nan, nan}, false, 0, 1, 2, 20},
		{"infinite", []float32{float32(math.Inf(1)), 1, 2}, false, 1, 2, 10, 20},
	} {
		s := newScale(&Panel{Diverging: c.diverging, Maps: []Map{{Values: c.values}}})
		n := len(s.colours)
		if math.Abs(s.bounds[0]-c.first) > 1e-6*math.Abs(c.last)+1e-12 || math.Abs(s.bounds[n]-c.last) > 1e-6*math.Abs(c.last)+1e-12 || n < c.least || n > c.most {
			t.Errorf("%s: %g to %g in %d bands, want %g to %g", c.name, s.bounds[0], s.bounds[n], n, c.first, c.last)
		}
		if c.diverging && (n%2 != 0 || math.Abs(s.bounds[n/2]) > 1e-12) {
			t.Errorf("%s: zero is no bound in the middle: %v", c.name, s.bounds)
		}
		for _, x := range c.values {
			if v := float64(x); !math.IsNaN(v) && !math.IsInf(v, 0) {
				if b := s.band(v); v < s.bounds[b]-1e-6*s.step || v > s.bounds[b+1]+1e-6*s.step {
					t.Errorf("%s: %g in band %d, %g to %g", c.name, v, b, s.bounds[b], s.bounds[b+1])
				}
			}
		}
	}
}

// An outlier must not reduce a map to one colour; the scale gets an open end.
func TestScaleWithOutlier(t *testing.T) {
	values := make([]float32, 1000)
	for k := range values {
		values[k] = float32(k) / 1000
	}
	values[7] = 40
	s := newScale(&Panel{Maps: []Map{{Values: values}}})
	if last := s.bounds[len(s.bounds)-1]; last > 1.1 || !s.over || s.under && s.bounds[0] <= 0 {
		t.Errorf("%g to %g, under %v, over %v", s.bounds[0], last, s.under, s.over)
	}
	if s.band(40) != len(s.colours)-1 {
		t.Error("the outlier has not the last colour")
	}
}

func TestNumbers(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{decimals(-0.04, 1), "0.0"}, {decimals(-12.345, 2), "−12.35"}, {decimals(3e-9, 9), "3e−09"}, {decimals(math.NaN(), 1), "–"},
		{figures(0.69712), "0.6971"}, {figures(12.345), "12.35"}, {figures(5643.2), "5643"}, {figures(0.00012), "1.20e−04"},
		{percent(0.2181), "+21.8\u202f%"}, {percent(-0.006), "−0.6\u202f%"}, {thousands(1234567), "1\u202f234\u202f567"}, {unit("m2 s-2"), "m² s⁻²"}, {unit("kg kg-1"), "kg kg⁻¹"}, {unit("1"), ""},
		{spaced("t at 850hPa, 48h"), "t at 850\u202fhPa, 48\u202fh"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
