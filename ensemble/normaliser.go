package ensemble

import (
	"fmt"
	"math"
	"slices"
)

// Standardisation says how far a normaliser resolves place.
type Standardisation string

// The standardisations.
const (
	GlobalStandard Standardisation = "global" // one mean and scale for the whole grid
	LAS            Standardisation = "las"    // Local Area-wise Standardization: maps
)

// LASOptions shape the maps of Local Area-wise Standardization. The zero value
// asks for the defaults of the published method, on any grid.
type LASOptions struct {
	Window int     // side of the square windows in grid points; 0 means 7
	Smooth float64 // standard deviation of the Gaussian filter in grid points; 0 means 10
	// Published reproduces the maps of the published code: windows do not wrap
	// around in longitude and the scale is the mean of the yearly standard
	// deviations instead of one over all years.
	Published bool
}

// Normaliser makes a variable comparable over places: x' = (x - Mean)/Scale.
//
// Shape: Mean and Scale have length 1 (global) or NY*NX (LAS).
// Unit: that of the variable.
type Normaliser struct {
	Kind        Standardisation
	Mean, Scale []float64
}

// Apply writes the standardised field; dst and src may be the same slice.
// Missing: NaN stays NaN.
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

// Moments gathers what a Normaliser is fitted from: per year and grid point the
// count, sum and sum of squares of the fields of the training dates.
type Moments struct {
	grid  *Grid
	pivot float64 // subtracted from all values so that squares lose no digits
	years map[int]*yearMoments
}

type yearMoments struct{ n, sum, sq []float64 }

// NewMoments starts an empty accumulator for fields on a grid.
func NewMoments(grid *Grid) *Moments { return &Moments{grid: grid, years: map[int]*yearMoments{}} }

// Add takes one field of a year. Missing points are left out.
func (m *Moments) Add(year int, field []float32) {
	if len(m.years) == 0 {
		for _, x := range field {
			if x == x {
				m.pivot = float64(x)
				break
			}
		}
	}
	y := m.years[year]
	if y == nil {
		n := m.grid.Size()
		y = &yearMoments{make([]float64, n), make([]float64, n), make([]float64, n)}
		m.years[year] = y
	}
	for i, x := range field {
		if x != x {
			continue
		}
		d := float64(x) - m.pivot
		y.n[i]++
		y.sum[i] += d
		y.sq[i] += d * d
	}
}

// Global fits one area-weighted mean and standard deviation.
//
// Errors: if no value was added. A constant field gets the scale 1.
func (m *Moments) Global() (*Normaliser, error) {
	var n, sum, sq float64
	w := m.grid.Weights()
	for _, year := range m.sorted() {
		y := m.years[year]
		for i := range w {
			n += w[i] * y.n[i]
			sum += w[i] * y.sum[i]
			sq += w[i] * y.sq[i]
		}
	}
	if n == 0 {
		return nil, fmt.Errorf("no value to fit a normaliser on")
	}
	mean := sum / n
	scale := math.Sqrt(math.Max(0, sq/n-mean*mean))
	if scale == 0 {
		scale = 1
	}
	return &Normaliser{GlobalStandard, []float64{mean + m.pivot}, []float64{scale}}, nil
}

// LAS fits the maps of Local Area-wise Standardization: around every point the
// mean and standard deviation over all dates and a square window, smoothed by a
// Gaussian. Windows and filter wrap around in longitude on periodic grids;
// beyond the first and last row the nearest row stands in. The scale has a floor
// of 1e-3 of its area mean, so that a constant patch divides by something.
//
// Source: Grönquist et al. 2021, doi:10.1098/rsta.2020.0092; the published code
// differs as LASOptions.Published says.
// Errors: if no value was added or the grid is smaller than the window.
func (m *Moments) LAS(o LASOptions) (*Normaliser, error) {
	if o.Window == 0 {
		o.Window = 7
	}
	if o.Smooth == 0 {
		o.Smooth = 10
	}
	g := m.grid
	if g.NX < o.Window || g.NY < o.Window {
		return nil, fmt.Errorf("window of %d points on a grid of %d x %d", o.Window, g.NX, g.NY)
	}
	wrap := g.Periodic() && !o.Published
	mean, scale := make([]float64, g.Size()), make([]float64, g.Size())
	var parts []*yearMoments
	if o.Published {
		for _, year := range m.sorted() {
			parts = append(parts, m.years[year])
		}
	} else if len(m.years) > 0 {
		parts = []*yearMoments{m.pooled()}
	}
	if len(parts) == 0 {
		return nil, fmt.Errorf("no value to fit a normaliser on")
	}
	for _, y := range parts {
		n := windowSums(y.n, g, o.Window, wrap)
		sum := windowSums(y.sum, g, o.Window, wrap)
		sq := windowSums(y.sq, g, o.Window, wrap)
		for i := range n {
			mu := sum[i] / n[i]
			mean[i] += mu / float64(len(parts))
			scale[i] += math.Sqrt(math.Max(0, sq[i]/n[i]-mu*mu)) / float64(len(parts))
		}
	}
	smooth(mean, g, o.Smooth, g.Periodic())
	smooth(scale, g, o.Smooth, g.Periodic())
	w := g.Weights()
	var area, total float64
	for i, s := range scale {
		area += w[i]
		total += w[i] * s
	}
	floor := 1e-3 * total / area
	if floor == 0 {
		floor = 1
	}
	for i := range scale {
		mean[i] += m.pivot
		scale[i] = math.Max(scale[i], floor)
	}
	return &Normaliser{LAS, mean, scale}, nil
}

func (m *Moments) sorted() []int {
	years := make([]int, 0, len(m.years))
	for y := range m.years {
		years = append(years, y)
	}
	slices.Sort(years)
	return years
}

func (m *Moments) pooled() *yearMoments {
	n := m.grid.Size()
	all := &yearMoments{make([]float64, n), make([]float64, n), make([]float64, n)}
	for _, year := range m.sorted() {
		y := m.years[year]
		for i := range n {
			all.n[i] += y.n[i]
			all.sum[i] += y.sum[i]
			all.sq[i] += y.sq[i]
		}
	}
	return all
}

// windowSums sums x over the w×w window centred on every point. Near the first
// and last rows (and columns, without wrap) the nearest whole window is taken,
// which is what edge padding of the map of whole windows gives.
func windowSums(x []float64, g *Grid, w int, wrap bool) []float64 {
	rows := make([]float64, len(x)) // sums along longitude
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

// smooth filters x in place by a Gaussian cut at four standard deviations:
// along longitude, wrapping around if wrap, then along latitude with the
// nearest row beyond the edges.
func smooth(x []float64, g *Grid, sigma float64, wrap bool) {
	radius := int(4*sigma + 0.5)
	kernel := make([]float64, 2*radius+1)
	var total float64
	for k := range kernel {
		d := float64(k-radius) / sigma
		kernel[k] = math.Exp(-d * d / 2)
		total += kernel[k]
	}
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
