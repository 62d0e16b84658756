package report

import (
	"fmt"
	"image/color"
	"math"
)

// Colours is a colour scale: colours at equal steps from 0 to 1, linearly interpolated in
// sRGB. It has at least two colours.
type Colours []color.RGBA

// Sequential is a scale from dark blue over grey to yellow, with uniformly increasing
// lightness. Its order is the same for all kinds of colour vision.
//
// Source: Nuñez et al. 2018, doi:10.1371/journal.pone.0199239 (cividis).
var Sequential = Colours{
	{0x00, 0x22, 0x4e, 255}, {0x12, 0x35, 0x70, 255}, {0x3b, 0x49, 0x6c, 255}, {0x57, 0x5d, 0x6d, 255}, {0x70, 0x71, 0x73, 255},
	{0x8a, 0x86, 0x78, 255}, {0xa5, 0x9c, 0x74, 255}, {0xc3, 0xb3, 0x69, 255}, {0xe1, 0xcc, 0x55, 255}, {0xfe, 0xe8, 0x38, 255},
}

// Diverging is a scale from dark blue over near white, in the middle, to dark orange. Blue
// and orange can be distinguished with all kinds of colour vision.
var Diverging = Colours{
	{0x08, 0x2f, 0x6b, 255}, {0x1d, 0x5a, 0xa6, 255}, {0x4a, 0x8a, 0xca, 255}, {0x93, 0xbd, 0xe3, 255}, {0xf4, 0xf4, 0xf1, 255},
	{0xf3, 0xb8, 0x7c, 255}, {0xda, 0x82, 0x2e, 255}, {0xae, 0x53, 0x0c, 255}, {0x6e, 0x2c, 0x04, 255},
}

// Probabilities is a scale from near white over green-blue to dark blue, with uniformly
// decreasing lightness.
var Probabilities = Colours{
	{0xf7, 0xf7, 0xf3, 255}, {0xd3, 0xe6, 0xe4, 255}, {0xa4, 0xcf, 0xd6, 255}, {0x6c, 0xae, 0xc6, 255}, {0x3c, 0x89, 0xb2, 255},
	{0x22, 0x62, 0x98, 255}, {0x1b, 0x3d, 0x77, 255}, {0x14, 0x1f, 0x4d, 255},
}

// Weather is a scale from dark blue over pale yellow to dark red, for temperature, geopotential and
// pressure. Blue and red differ in lightness from the middle, and can be distinguished with all kinds of
// colour vision.
//
// Source: ColorBrewer 2.0, RdYlBu, reversed.
var Weather = Colours{
	{0x31, 0x36, 0x95, 255}, {0x45, 0x75, 0xb4, 255}, {0x74, 0xad, 0xd1, 255}, {0xab, 0xd9, 0xe9, 255}, {0xe0, 0xf3, 0xf8, 255}, {0xff, 0xff, 0xbf, 255},
	{0xfe, 0xe0, 0x90, 255}, {0xfd, 0xae, 0x61, 255}, {0xf4, 0x6d, 0x43, 255}, {0xd7, 0x30, 0x27, 255}, {0xa5, 0x00, 0x26, 255},
}

// pale is the colour of an insignificant value: four fifths light grey.
func pale(c color.RGBA) color.RGBA {
	mix := func(v uint8) uint8 { return uint8((int(v) + 4*0xec) / 5) }
	return color.RGBA{mix(c.R), mix(c.G), mix(c.B), 255}
}

// At is the colour at t from 0 to 1; outside, that of the nearest end.
func (c Colours) At(t float64) color.RGBA {
	at := math.Min(math.Max(t, 0), 1) * float64(len(c)-1)
	i := min(int(at), len(c)-2)
	f := at - float64(i)
	mix := func(a, b uint8) uint8 { return uint8(math.Round(float64(a)*(1-f) + float64(b)*f)) }
	return color.RGBA{mix(c[i].R, c[i+1].R), mix(c[i].G, c[i+1].G), mix(c[i].B, c[i+1].B), 255}
}

// luminance is the relative luminance of an sRGB colour, 0 (black) to 1 (white):
//
//	0.2126 R + 0.7152 G + 0.0722 B  of the linearised components
//
// Source: WCAG 2.2, definition of relative luminance.
func luminance(c color.RGBA) float64 {
	linear := func(v uint8) float64 {
		s := float64(v) / 255
		if s <= 0.04045 {
			return s / 12.92
		}
		return math.Pow((s+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(c.R) + 0.7152*linear(c.G) + 0.0722*linear(c.B)
}

// hex formats a colour for SVG: "#00224e".
func hex(c color.RGBA) string { return fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B) }
