package report

import (
	"image"
	"image/color"
	"math"
	"sort"
)

// The first entries of the palette; those of the bands follow.
const (
	hatchGround = iota
	hatchLine
	firstBand
)

// hatchColours are dark lines on light grey. No colour scale contains them.
var hatchColours = [...]color.RGBA{hatchGround: {0xee, 0xee, 0xec, 255}, hatchLine: {0x8a, 0x8a, 0x8a, 255}}

// hatch is the palette entry of a missing pixel: diagonal lines of width 2 every 10 pixels, the same
// pattern in SVG and PNG.
func hatch(x, y int) uint8 {
	if (x+y)%10 < 2 {
		return hatchLine
	}
	return hatchGround
}

// hatchColour is the colour of a missing pixel.
func hatchColour(x, y int) color.RGBA { return hatchColours[hatch(x, y)] }

// raster draws values as an image of w columns, interpolated between the grid points and
// quantised to the bands of the scale. Pixel (i, j) of an image of w × h pixels is at
//
//	x = x0 + (i+½)/w (x1−x0),   y = y1 − (j+½)/h (y1−y0)
//
// Interpolation is by the Catmull-Rom cubic in both directions, limited to the range of the
// four surrounding points, so that it creates no new extremes. The positions between grid
// lines are computed once for all columns and rows.
//
// Shape: values and muted [NY*NX], muted nil: none. A pixel whose nearest point is muted is pale. The palette has the
// colours that occur, so that images of up to 16 colours have 4 bits for each pixel.
// Missing: a pixel whose nearest point is missing is hatched.
// Cost: 16 multiplications per pixel.
func (v *view) raster(values []float32, muted []bool, s *scale, w int) *image.Paletted {
	h := max(1, int(math.Round(float64(w)*v.aspect)))
	palette := color.Palette{hatchColours[hatchGround], hatchColours[hatchLine]}
	for _, c := range s.colours {
		palette = append(palette, c)
	}
	for _, c := range s.colours {
		palette = append(palette, pale(c))
	}
	img := image.NewPaletted(image.Rect(0, 0, w, h), palette)
	xs := interpolationPoints(v.cols, w, func(i int) float64 { return v.x0 + (float64(i)+0.5)/float64(w)*(v.x1-v.x0) })
	ys := interpolationPoints(v.rows, h, func(j int) float64 { return v.y1 - (float64(j)+0.5)/float64(h)*(v.y1-v.y0) })
	for j := range ys {
		for i := range xs {
			at := j*img.Stride + i
			switch q := v.value(values, &xs[i], &ys[j]); {
			case !math.IsNaN(q):
				img.Pix[at] = uint8(firstBand + s.band(q))
				if muted != nil && muted[v.nearest(&xs[i], &ys[j])] {
					img.Pix[at] += uint8(len(s.colours))
				}
			default:
				img.Pix[at] = hatch(i, j)
			}
		}
	}
	return compact(img)
}

// compact removes the colours from the palette that do not occur.
func compact(img *image.Paletted) *image.Paletted {
	var occurs [256]bool
	for _, c := range img.Pix {
		occurs[c] = true
	}
	var to [256]uint8
	var palette color.Palette
	for c, used := range occurs[:len(img.Palette)] {
		if used {
			to[c] = uint8(len(palette))
			palette = append(palette, img.Palette[c])
		}
	}
	for i, c := range img.Pix {
		img.Pix[i] = to[c]
	}
	img.Palette = palette
	return img
}

// nearest is the index of the grid point nearest to a position.
func (v *view) nearest(x, y *interpolationPoint) int {
	nx := v.grid.NX
	j := 1 + int(math.Round(y.f))
	i := x.index[1+int(math.Round(x.f))]
	if y.beyond[j] {
		i = (i + nx/2) % nx
	}
	return y.index[j]*nx + i
}

// interpolationPoint is a position between two grid lines, with the four lines around it.
type interpolationPoint struct {
	// 0 on the second of the four lines, 1 on the third.
	f float64
	// Indices of the grid lines.
	index [4]int
	// Rows across a pole.
	beyond [4]bool
	// Catmull-Rom weights.
	weight [4]float64
}

// interpolationPoints finds the lines around n positions. Beyond the outermost line its value is
// continued.
//
// Shape: lines ascending by coordinate; result [n].
// Cost: one bisection per position.
func interpolationPoints(lines []gridLine, n int, place func(int) float64) []interpolationPoint {
	out := make([]interpolationPoint, n)
	last := len(lines) - 1
	for k := range out {
		p := place(k)
		// i is the last line at or below p, −1 if there is none.
		i := sort.Search(len(lines), func(i int) bool { return lines[i].at > p }) - 1
		s := &out[k]
		if i >= 0 && i < last {
			s.f = (p - lines[i].at) / (lines[i+1].at - lines[i].at)
		}
		for d := range s.index {
			l := lines[min(max(i+d-1, 0), last)]
			if i < 0 {
				l = lines[0]
			}
			s.index[d], s.beyond[d] = l.index, l.acrossPole
		}
		s.weight = catmullRom(s.f)
	}
	return out
}

// value interpolates at a position:
//
//	Σ_j w_j Σ_i w_i q_ji  over four rows j and four columns i
//
// With missing points among the sixteen it interpolates bilinearly between the non-missing
// ones of the four nearest, with the weights divided by their sum. Rows across a pole use
// the columns shifted by half a circle.
//
// Missing: NaN if the nearest point is missing.
func (v *view) value(values []float32, x, y *interpolationPoint) float64 {
	nx := v.grid.NX
	var q [4][4]float64
	var cubic float64
	for j := range q {
		row := values[y.index[j]*nx : (y.index[j]+1)*nx]
		var sum float64
		for i, c := range x.index {
			if y.beyond[j] {
				c = (c + nx/2) % nx
			}
			q[j][i] = float64(row[c])
			sum += x.weight[i] * q[j][i]
		}
		cubic += y.weight[j] * sum
	}
	// The four nearest points bound the cubic.
	a, b, c, d := q[1][1], q[1][2], q[2][1], q[2][2]
	if !math.IsNaN(cubic) && !math.IsInf(cubic, 0) {
		return min(max(cubic, min(a, b, c, d)), max(a, b, c, d))
	}
	if near := q[1+int(math.Round(y.f))][1+int(math.Round(x.f))]; math.IsNaN(near) || math.IsInf(near, 0) {
		return math.NaN()
	}
	var sum, weight float64 // bilinear, over non-missing points
	for j := range 2 {
		for i := range 2 {
			p := q[1+j][1+i]
			if math.IsNaN(p) || math.IsInf(p, 0) {
				continue
			}
			w := math.Abs(1-float64(j)-y.f) * math.Abs(1-float64(i)-x.f)
			sum, weight = sum+w*p, weight+w
		}
	}
	return sum / weight
}

// catmullRom returns the weights of the points -1, 0, 1, 2 at f between 0 and 1:
//
//	w₋₁ = f(−½ + f(1 − f/2)),   w₀ = 1 + f²(−5/2 + 3f/2),
//	w₁  = f(½ + f(2 − 3f/2)),   w₂ = f²(−½ + f/2)
//
// The weights add up to 1. At f = 0 and 1 the result is the value of the point.
//
// Source: Keys 1981, doi:10.1109/TASSP.1981.1163711, with a = −½.
func catmullRom(f float64) [4]float64 {
	return [4]float64{
		f * (-0.5 + f*(1-0.5*f)),
		1 + f*f*(-2.5+1.5*f),
		f * (0.5 + f*(2-1.5*f)),
		f * f * (-0.5 + 0.5*f),
	}
}
