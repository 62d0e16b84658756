package report

import (
	"image"
	"image/color"
	"math"
	"sort"
)

// Palette entries before the bands of the scale.
const (
	hatchGround = iota
	hatchLine
	firstBand
)

// hatchColours are dark lines on light grey, which no scale has.
var hatchColours = [...]color.RGBA{hatchGround: {0xee, 0xee, 0xec, 255}, hatchLine: {0x8a, 0x8a, 0x8a, 255}}

// hatch is the palette entry of a missing pixel.
func hatch(x, y int) uint8 {
	if (x+y)%10 < 2 {
		return hatchLine
	}
	return hatchGround
}

func hatchColour(x, y int) color.RGBA { return hatchColours[hatch(x, y)] }

// raster draws values as an image of w columns: smooth between the points, in the
// bands of the scale. A pixel whose nearest point is missing is hatched.
//
// Between points the value is the Catmull-Rom cubic in both directions, kept within
// the four points around it, so that no extreme is invented.
func (v *view) raster(values []float32, s *scale, w int) *image.Paletted {
	h := max(1, int(math.Round(float64(w)*v.aspect)))
	palette := color.Palette{hatchColours[hatchGround], hatchColours[hatchLine]}
	for _, c := range s.colours {
		palette = append(palette, c)
	}
	img := image.NewPaletted(image.Rect(0, 0, w, h), palette)
	xs := spots(v.cols, w, func(i int) float64 { return v.x0 + (float64(i)+0.5)/float64(w)*(v.x1-v.x0) })
	ys := spots(v.rows, h, func(j int) float64 { return v.y1 - (float64(j)+0.5)/float64(h)*(v.y1-v.y0) })
	for j, y := range ys {
		for i, x := range xs {
			at := j*img.Stride + i
			switch q := v.value(values, x, y); {
			case !math.IsNaN(q):
				img.Pix[at] = uint8(firstBand + s.band(q))
			default:
				img.Pix[at] = hatch(i, j)
			}
		}
	}
	return img
}

// spot is a place between the lines i and i+1, a fraction f after i.
type spot struct {
	i int
	f float64
}

// spots finds the lines around n places.
func spots(lines []gridLine, n int, place func(int) float64) []spot {
	out := make([]spot, n)
	last := len(lines) - 1
	for k := range out {
		p := place(k)
		i := sort.Search(len(lines), func(i int) bool { return lines[i].at > p }) - 1
		switch {
		case i < 0:
			out[k] = spot{0, 0}
		case i >= last:
			out[k] = spot{last, 0}
		default:
			out[k] = spot{i, (p - lines[i].at) / (lines[i+1].at - lines[i].at)}
		}
	}
	return out
}

// value interpolates at a place; NaN if the nearest point is missing.
func (v *view) value(values []float32, x, y spot) float64 {
	g := v.grid
	get := func(dj, di int) float64 {
		c := v.cols[min(max(x.i+di, 0), len(v.cols)-1)]
		r := v.rows[min(max(y.i+dj, 0), len(v.rows)-1)]
		col := c.index
		if r.beyond {
			col = (col + g.NX/2) % g.NX
		}
		q := float64(values[r.index*g.NX+col])
		if math.IsInf(q, 0) {
			return math.NaN()
		}
		return q
	}
	if math.IsNaN(get(int(math.Round(y.f)), int(math.Round(x.f)))) {
		return math.NaN()
	}
	low, high := math.Inf(1), math.Inf(-1)
	var sum, weight float64 // of the four points around, by distance
	for dj := range 2 {
		for di := range 2 {
			q := get(dj, di)
			if math.IsNaN(q) {
				continue
			}
			w := math.Abs(1-float64(dj)-y.f) * math.Abs(1-float64(di)-x.f)
			sum, weight = sum+w*q, weight+w
			low, high = math.Min(low, q), math.Max(high, q)
		}
	}
	wx, wy := catmullRom(x.f), catmullRom(y.f)
	var cubic float64
	for dj := -1; dj <= 2; dj++ {
		for di := -1; di <= 2; di++ {
			cubic += wy[dj+1] * wx[di+1] * get(dj, di)
		}
	}
	if math.IsNaN(cubic) {
		return sum / weight
	}
	return math.Min(math.Max(cubic, low), high)
}

// catmullRom are the weights of the points -1, 0, 1, 2 at f between 0 and 1.
func catmullRom(f float64) [4]float64 {
	return [4]float64{
		f * (-0.5 + f*(1-0.5*f)),
		1 + f*f*(-2.5+1.5*f),
		f * (0.5 + f*(2-1.5*f)),
		f * f * (-0.5 + 0.5*f),
	}
}
