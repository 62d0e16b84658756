package product

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// layout says in which order a file has the points of a grid: row r of the file
// is normal row rows[r], its column c normal column cols[c]. lat, lon, x and y
// are the coordinates in that order, one-dimensional; a lat-lon grid has lat and
// lon, a projected one x and y.
type layout struct {
	grid       *ensemble.Grid
	rows, cols []int
	lat, lon   []float64
	x, y       []float64
	from       float64 // where the range of a projected grid's longitudes begins
}

// newLayout restores the rows of the input and the longitude at which it began,
// or longitudes as asked. Columns run from west to east: CDO 2.1 interpolates
// wrongly where a file's longitudes fall.
func newLayout(g *ensemble.Grid, want Longitudes) layout {
	l := layout{grid: g, rows: make([]int, g.NY), cols: make([]int, g.NX)}
	for r := range l.rows {
		l.rows[r] = r
	}
	if g.Source.SouthFirst {
		slices.Reverse(l.rows)
	}
	for c := range l.cols {
		l.cols[c] = c
	}
	if g.Kind == ensemble.Points {
		from := 0.0
		if want == From180 {
			from = -180
		}
		for _, lon := range g.Lon {
			l.lon = append(l.lon, wrapLongitude(lon, from))
		}
		return l
	}
	if g.Kind == ensemble.Projected {
		l.y, l.x = reorder(g.Y, l.rows), slices.Clone(g.X)
		if want == From180 || want == KeepLongitudes && g.Source.FirstLon < 0 {
			l.from = -180
		}
		return l
	}
	l.lat = reorder(g.Lat, l.rows)
	l.setLongitudes(want)
	return l
}

// setLongitudes turns the columns so that they start where they should, and
// writes each longitude in the turn of the globe that makes them ascend.
func (l *layout) setLongitudes(want Longitudes) {
	g := l.grid
	nx := g.NX
	west := 0 // normal column that is the file's westernmost
	var from float64
	switch want {
	case KeepLongitudes:
		west = ((-g.Source.Roll)%nx + nx) % nx
		from = g.Source.FirstLon
	case From0:
		from = 0
	case From180:
		from = -180
	}
	if want != KeepLongitudes {
		if g.Periodic() {
			for c := range g.Lon {
				if wrapLongitude(g.Lon[c], from) < wrapLongitude(g.Lon[west], from) {
					west = c
				}
			}
		}
		from = wrapLongitude(g.Lon[west], from)
	}
	l.lon = make([]float64, nx)
	for c := range l.cols {
		l.cols[c] = (west + c) % nx
		// A column may lie a rounding west of from, never half a turn.
		v := g.Lon[l.cols[c]]
		v += 360 * math.Round((from-g.Lon[west])/360)
		for c > 0 && v < l.lon[c-1] {
			v += 360
		}
		l.lon[c] = v
	}
	// An input that started at 180 or 350 E and wrapped at 360 cannot be kept to
	// the letter, longitudes being monotonic: it starts at 180 or 10 W then.
	if want == KeepLongitudes && l.lon[nx-1] > 360 {
		for c := range l.lon {
			l.lon[c] -= 360
		}
	}
}

// gribLayout is the order of points in a GRIB message: newLayout's rows, and
// columns from west to east, unless the input's other scanning flags are asked
// for or, on a projection, cannot be changed.
func gribLayout(g *ensemble.Grid, o Options) layout {
	if o.Scan != KeepScan && g.Kind != ensemble.Projected {
		plain := *g
		plain.Source.EastFirst, plain.Source.ColumnMajor, plain.Source.ScanningMode = false, false, 0
		return newLayout(&plain, o.Longitude)
	}
	l := newLayout(g, o.Longitude)
	if g.Source.EastFirst {
		slices.Reverse(l.cols)
		slices.Reverse(l.lon)
		slices.Reverse(l.x)
	}
	return l
}

// wrapLongitude is a longitude brought into [from, from+360).
func wrapLongitude(lon, from float64) float64 {
	v := math.Mod(lon-from, 360)
	if v < 0 {
		v += 360
	}
	return from + v
}

// reorder is v in the order of at.
func reorder(v []float64, at []int) []float64 {
	out := make([]float64, len(at))
	for i, k := range at {
		out[i] = v[k]
	}
	return out
}

// each visits the points of a field row by row in the file's order.
func (l *layout) each(visit func(point int)) {
	for _, r := range l.rows {
		for _, c := range l.cols {
			visit(r*l.grid.NX + c)
		}
	}
}

// put writes the values of one field in the file's order, missing ones as the fill value.
func (l *layout) put(dst []byte, values []float32, fill float32) {
	l.each(func(p int) {
		v := values[p]
		if v != v {
			v = fill
		}
		binary.LittleEndian.PutUint32(dst, math.Float32bits(v))
		dst = dst[4:]
	})
}

// putInts writes the whole numbers of one field.
func (l *layout) putInts(dst []byte, value func(point int) int32) {
	l.each(func(p int) {
		binary.LittleEndian.PutUint32(dst, uint32(value(p)))
		dst = dst[4:]
	})
}

// packing turns values into whole numbers and back: value = offset + scale·n.
type packing struct{ scale, offset float64 }

// packedFill marks missing points of packed values; no value has that number.
const packedFill = int16(math.MinInt16)

// newPacking spreads the values of some fields over the numbers of so many bits. They are
// stored less half of their range, as netCDF's short integers have a sign.
func newPacking(fields []Field, bits int) packing {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, f := range fields {
		for _, v := range f.Values {
			if v == v {
				lo, hi = min(lo, float64(v)), max(hi, float64(v))
			}
		}
	}
	if lo > hi {
		lo, hi = 0, 0
	}
	levels := math.Exp2(float64(bits)) - 2 // one number is packedFill's
	scale := (hi - lo) / levels
	if scale == 0 {
		scale = 1
	}
	return packing{scale, lo + scale*levels/2}
}

// putPacked writes the values of one field packed.
func (l *layout) putPacked(dst []byte, values []float32, q packing) {
	l.each(func(p int) {
		n := packedFill
		if v := float64(values[p]); v == v {
			n = int16(math.Round((v - q.offset) / q.scale))
		}
		binary.LittleEndian.PutUint16(dst, uint16(n))
		dst = dst[2:]
	})
}

// putScanOrder writes the values of one field in the order of a GRIB message with
// these rows and columns: by meridians if the input had them so, every second
// line backwards if its scanning mode says so. NaN stays NaN.
func (l *layout) putScanOrder(dst []byte, values []float32) {
	src := l.grid.Source
	lines, points := l.rows, l.cols
	if src.ColumnMajor {
		lines, points = l.cols, l.rows
	}
	boustrophedon := src.ScanningMode >= 0 && src.ScanningMode&scanAlternateRows != 0
	at := 0
	for i, a := range lines {
		for k := range points {
			b := points[k]
			if boustrophedon && i%2 == 1 {
				b = points[len(points)-1-k]
			}
			r, c := a, b
			if src.ColumnMajor {
				r, c = b, a
			}
			binary.LittleEndian.PutUint32(dst[at:], math.Float32bits(values[r*l.grid.NX+c]))
			at += 4
		}
	}
}

// scanAlternateRows is the bit of the GRIB scanning mode, flag table 3.4, that turns
// every second line round.
const scanAlternateRows = 0x10
