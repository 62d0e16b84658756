package ensemble

import (
	"fmt"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/internal/fieldmath"
)

// Standardisation is the spatial resolution of a normaliser.
type Standardisation string

// The standardisations.
const (
	GlobalStandard Standardisation = "global" // one mean and scale for the whole grid
	LAS            Standardisation = "las"    // Local Area-wise Standardization: maps of mean and scale
)

// LASOptions configure the maps of Local Area-wise Standardization. The zero value is the
// published configuration.
type LASOptions struct {
	Window int     // side of the square windows in grid points; 0: 7
	Smooth float64 // standard deviation of the Gaussian filter in grid points; 0: 10
}

// Normaliser standardises a variable:
//
//	x' = (x − Mean) / Scale
//
// Shape: Mean and Scale [1] (global) or [NY*NX] (LAS). Unit: that of the variable.
type Normaliser struct {
	Kind        Standardisation
	Mean, Scale []float64
}

// Constant reports whether the field that was fitted is constant: its standard deviation is at
// most 2⁻¹⁶ of the size of its values, as that of rounding is. Its scale is so large that every
// standardised value is 0.
func (n *Normaliser) Constant() bool { return n.Scale[0] >= constantScale }

const (
	// constantBelow is the share of the size of values below which a standard deviation counts as
	// rounding: of float32 with 24 bits, or of packing with 16.
	constantBelow = 0x1p-16
	// constantScale is the scale of constant fields.
	constantScale = 1e30
)

// scaleOf returns the scale of a field: its standard deviation, or constantScale if it is at most
// rounding of values of this size.
func scaleOf(std, size float64) float64 {
	if !(std > constantBelow*math.Abs(size)) {
		return constantScale
	}
	return std
}

// Apply writes the standardised field; dst and src may be the same slice.
//
// Missing: NaN gives NaN.
func (n *Normaliser) Apply(dst, src []float32) {
	if len(n.Mean) == 1 {
		m, r := n.Mean[0], 1/n.Scale[0]
		for i, x := range src {
			dst[i] = float32((float64(x) - m) * r)
		}
		return
	}
	for i, x := range src {
		dst[i] = float32((float64(x) - n.Mean[i]) / n.Scale[i])
	}
}

// applyWide is Apply, with maps by vector instructions.
//
// Missing: NaN gives NaN or, with maps, 0.
func (n *Normaliser) applyWide(dst, src []float32) {
	if len(n.Mean) == len(src) {
		fieldmath.Standardise(dst, src, n.Mean, n.Scale)
		return
	}
	n.Apply(dst, src)
}

// PointSums holds the sums from which a Normaliser is fitted: at each grid point number, sum and
// sum of squares of values minus Pivot. Pivot is the first value, NaN before that; subtracting
// it avoids cancellation. Points are independent, so the sums of a part of a grid are a part of
// those of the grid.
//
// Shape: each [point].
type PointSums struct{ N, Sum, Sq, Pivot []float64 }

// NewPointSums returns the sums of no field.
func NewPointSums(grid *Grid) PointSums {
	pivot := make([]float64, grid.Size())
	for i := range pivot {
		pivot[i] = math.NaN()
	}
	return sumsAbout(pivot)
}

// sumsAbout returns the sums of no field with a pivot that several sums share.
func sumsAbout(pivot []float64) PointSums {
	n := len(pivot)
	return PointSums{make([]float64, n), make([]float64, n), make([]float64, n), pivot}
}

// Add adds one field. Missing: NaN points are left out.
func (s PointSums) Add(field []float32) {
	for i, x := range field {
		if x != x {
			continue
		}
		if s.Pivot[i] != s.Pivot[i] {
			s.Pivot[i] = float64(x)
		}
		d := float64(x) - s.Pivot[i]
		s.N[i]++
		s.Sum[i] += d
		s.Sq[i] += d * d
	}
}

// AddMoments adds one field by the moments of its members: their mean, and their variance about it, share · std².
// The order of the members does not change any bit, as it would with Add of each. A date counts once.
//
// Missing: NaN points are left out.
func (s PointSums) AddMoments(mean, std []float32, share float64) {
	for i, x := range mean {
		if x != x {
			continue
		}
		if s.Pivot[i] != s.Pivot[i] {
			s.Pivot[i] = float64(x)
		}
		d, w := float64(x)-s.Pivot[i], float64(std[i])
		s.N[i]++
		s.Sum[i] += d
		s.Sq[i] += d*d + share*w*w
	}
}

// join adds sums with the same pivot.
func (s PointSums) join(o PointSums) {
	for i := range s.N {
		s.N[i] += o.N[i]
		s.Sum[i] += o.Sum[i]
		s.Sq[i] += o.Sq[i]
	}
}

// withCommonPivot converts the sums to a common pivot for all points, the first one that is not NaN; ok is
// false if there is none. With d the difference of the pivots:
//
//	Σ(x+d) = Σx + n d,   Σ(x+d)² = Σx² + 2d Σx + n d²
func (s PointSums) withCommonPivot() (out PointSums, pivot float64, ok bool) {
	first := slices.IndexFunc(s.Pivot, func(p float64) bool { return p == p })
	if first < 0 {
		return s, 0, false
	}
	pivot = s.Pivot[first]
	n := len(s.N)
	out = PointSums{N: s.N, Sum: make([]float64, n), Sq: make([]float64, n)}
	for i, p := range s.Pivot {
		if p == p {
			d := p - pivot
			out.Sum[i] = s.Sum[i] + s.N[i]*d
			out.Sq[i] = s.Sq[i] + 2*d*s.Sum[i] + s.N[i]*d*d
		}
	}
	return out, pivot, true
}

// Global fits one area-weighted mean and standard deviation for all points. A field may be
// Constant.
//
// Errors: no values.
func (s PointSums) Global(g *Grid) (*Normaliser, error) {
	var n, sum, sq float64
	common, pivot, ok := s.withCommonPivot()
	if !ok {
		return nil, fmt.Errorf("no values to fit a normaliser")
	}
	for i, w := range g.Weights() {
		n += w * common.N[i]
		sum += w * common.Sum[i]
		sq += w * common.Sq[i]
	}
	mean := sum / n
	scale := scaleOf(math.Sqrt(math.Max(0, sq/n-mean*mean)), mean+pivot)
	return &Normaliser{GlobalStandard, []float64{mean + pivot}, []float64{scale}}, nil
}

// LAS fits the maps of Local Area-wise Standardization: at every point the mean and standard
// deviation over all dates and a square window, smoothed by a Gaussian filter.
//
// Windows and filter wrap around in longitude on periodic grids; beyond the first and the last
// row the nearest row is used. The scale is at least 1e-3 of its area mean and 2⁻¹⁶ of the local
// mean, so that constant regions can be divided by it; a field may be Constant. Windows without values, such as sea surface temperature on
// land, get the statistics of all points.
//
// Differences from the published code: there windows do not wrap around in longitude, and the
// scale is the mean of yearly standard deviations instead of one over all years.
//
// Source: Grönquist et al. 2021, doi:10.1098/rsta.2020.0092.
// Errors: no values, or a grid smaller than the window.
func (s PointSums) LAS(g *Grid, o LASOptions) (*Normaliser, error) {
	if o.Window == 0 {
		o.Window = 7
	}
	if o.Smooth == 0 {
		o.Smooth = 10
	}
	if g.NX < o.Window || g.NY < o.Window {
		return nil, fmt.Errorf("window of %d points exceeds the grid of %d x %d points", o.Window, g.NX, g.NY)
	}
	common, pivot, ok := s.withCommonPivot()
	if !ok {
		return nil, fmt.Errorf("no values to fit a normaliser")
	}
	n := windowSums(common.N, g, o.Window)
	sum := windowSums(common.Sum, g, o.Window)
	sq := windowSums(common.Sq, g, o.Window)
	var all [3]float64
	for i := range common.N {
		all[0], all[1], all[2] = all[0]+common.N[i], all[1]+common.Sum[i], all[2]+common.Sq[i]
	}
	mean, scale := make([]float64, g.Size()), make([]float64, g.Size())
	for i := range n {
		if n[i] == 0 {
			n[i], sum[i], sq[i] = all[0], all[1], all[2]
		}
		mean[i] = sum[i] / n[i]
		scale[i] = math.Sqrt(math.Max(0, sq[i]/n[i]-mean[i]*mean[i]))
	}
	smooth(mean, g, o.Smooth, g.Periodic())
	smooth(scale, g, o.Smooth, g.Periodic())
	w := g.Weights()
	var area, total, size float64
	for i, s := range scale {
		area += w[i]
		total += w[i] * s
		mean[i] += pivot
		size += w[i] * math.Abs(mean[i])
	}
	floor := 1e-3 * total / area
	if scaleOf(total/area, size/area) == constantScale {
		floor = constantScale
	}
	for i := range scale {
		scale[i] = max(scale[i], floor, constantBelow*math.Abs(mean[i]))
	}
	return &Normaliser{LAS, mean, scale}, nil
}

// windowSums sums x over the w×w window centred at every point. At the first and last rows (and
// columns, unless the grid is periodic) the nearest complete window is used, which is
// equivalent to edge padding of the map of complete windows.
func windowSums(x []float64, g *Grid, w int) []float64 {
	wrap := g.Periodic()
	// The window is separable: sums along longitude first, then along latitude.
	rows := make([]float64, len(x))
	for j := range g.NY {
		for i := range g.NX {
			lo := i - w/2
			if !wrap {
				lo = min(max(lo, 0), g.NX-w)
			}
			var s float64
			for k := range w {
				s += x[j*g.NX+((lo+k)%g.NX+g.NX)%g.NX]
			}
			rows[j*g.NX+i] = s
		}
	}
	out := make([]float64, len(x))
	for j := range g.NY {
		lo := min(max(j-w/2, 0), g.NY-w)
		for i := range g.NX {
			var s float64
			for k := range w {
				s += rows[(lo+k)*g.NX+i]
			}
			out[j*g.NX+i] = s
		}
	}
	return out
}

// smooth applies a Gaussian filter, truncated at four standard deviations, in place: along
// longitude, periodic if wrap, then along latitude. Beyond the edges the nearest row is used.
//
// Source: scipy.ndimage.gaussian_filter (truncate = 4, mode = "nearest" or "wrap").
func smooth(x []float64, g *Grid, sigma float64, wrap bool) {
	radius := int(4*sigma + 0.5)
	kernel := make([]float64, 2*radius+1)
	var total float64
	for k := range kernel {
		d := float64(k-radius) / sigma
		kernel[k] = math.Exp(-d * d / 2)
		total += kernel[k]
	}
	// line filters one row or column of n values.
	line := func(get func(int) float64, set func(int, float64), n int, wrap bool) {
		out := make([]float64, n)
		for i := range n {
			var s float64
			for k, c := range kernel {
				at := i + k - radius
				if wrap {
					at = (at%n + n) % n
				} else {
					at = min(max(at, 0), n-1)
				}
				s += c * get(at)
			}
			out[i] = s / total
		}
		for i, v := range out {
			set(i, v)
		}
	}
	for j := range g.NY {
		line(func(i int) float64 { return x[j*g.NX+i] }, func(i int, v float64) { x[j*g.NX+i] = v }, g.NX, wrap)
	}
	for i := range g.NX {
		line(func(j int) float64 { return x[j*g.NX+i] }, func(j int, v float64) { x[j*g.NX+i] = v }, g.NY, false)
	}
}
