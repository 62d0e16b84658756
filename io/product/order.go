package product

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// layout is the order of points in a file. Row r of the file is row rows[r] in
// normal order, column c is column cols[c]. lat, lon, x and y are the coordinates
// in that order: lat and lon of a latitude-longitude grid, x and y of a projection.
type layout struct {
	grid       *ensemble.Grid
	rows, cols []int
	lat, lon   []float64
	x, y       []float64
	from       float64 // start of the longitude range of a projected grid
}

// newLayout restores the row order and the first longitude of the input, or applies
// the requested range of longitudes. Columns always run from west to east, because
// CDO 2.1 interpolates incorrectly on decreasing longitudes.
//
// Unit: degrees; longitudes increase, and all lie within one turn.
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
		if g.X != nil {
			l.y, l.x = reorder(g.Y, l.rows), slices.Clone(g.X)
		}
		if want == From180 || want == KeepLongitudes && g.Source.FirstLon < 0 {
			l.from = -180
		}
		return l
	}
	l.lat = reorder(g.Lat, l.rows)
	l.setLongitudes(want)
	return l
}

// setLongitudes rotates the columns to the first longitude and shifts longitudes by
// multiples of 360° so that they increase. An area that is not periodic keeps its first
// column and is shifted only, since rotation would tear it.
func (l *layout) setLongitudes(want Longitudes) {
	g := l.grid
	nx := g.NX
	west := 0 // column in normal order that is the westernmost of the file
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
		// Rounding may put a column west of from, but never by half a turn.
		v := g.Lon[l.cols[c]]
		v += 360 * math.Round((from-g.Lon[west])/360)
		for c > 0 && v < l.lon[c-1] {
			v += 360
		}
		l.lon[c] = v
	}
	// Longitudes must be monotonic. An input that began at 180 or 350 E and wrapped
	// at 360 therefore begins at 180 or 10 W.
	if want == KeepLongitudes && l.lon[nx-1] > 360 {
		for c := range l.lon {
			l.lon[c] -= 360
		}
	}
}

// gribLayout returns the order of points in a GRIB message: rows as in newLayout,
// and columns from west to east. KeepScan keeps the other scanning flags of the
// input; those of a projection cannot be changed.
//
// Source: FM 92 GRIB2, flag table 3.4 (scanning mode).
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

// wrapLongitude returns a longitude in [from, from+360).
func wrapLongitude(lon, from float64) float64 {
	v := math.Mod(lon-from, 360)
	if v < 0 {
		v += 360
	}
	return from + v
}

// reorder returns v in the order of at.
func reorder(v []float64, at []int) []float64 {
	out := make([]float64, len(at))
	for i, k := range at {
		out[i] = v[k]
	}
	return out
}

// each visits the points of a field row by row in the order of the file.
func (l *layout) each(visit func(point int)) {
	for _, r := range l.rows {
		for _, c := range l.cols {
			visit(r*l.grid.NX + c)
		}
	}
}

// put writes the values of one field in the order of the file. Missing values become
// fill. dst has four bytes for each value, little-endian, as NetCDF's and Zarr's writers
// expect them.
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

// putInts writes the integers of one field.
func (l *layout) putInts(dst []byte, value func(point int) int32) {
	l.each(func(p int) {
		binary.LittleEndian.PutUint32(dst, uint32(value(p)))
		dst = dst[4:]
	})
}

// packing converts values to integers n and back: value = offset + scale·n.
type packing struct{ scale, offset float64 }

// packedFill marks missing points of packed values.
const packedFill = int16(math.MinInt16)

// newPacking distributes the range of values of fields over 2^bits − 2 steps.
// Integers are centred on 0, because NetCDF classic has signed integers only.
//
// The error of a value is half a scale at most.
//
// Missing: NaN does not count; fields without values get scale 1, as constant ones do.
// Source: CF section 8.1; NUG, appendix A (scale_factor, add_offset).
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
	levels := math.Exp2(float64(bits)) - 2 // one code is packedFill
	scale := (hi - lo) / levels
	if scale == 0 {
		scale = 1
	}
	return packing{scale, lo + scale*levels/2}
}

// putPacked writes the values of one field packed. Values within the range of newPacking
// cannot reach packedFill.
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

// putScanOrder writes the values of one field in the scanning order of a GRIB
// message: by columns if the input had columns, every second line reversed if the
// scanning mode has alternating rows. NaN stays NaN.
//
// Source: FM 92 GRIB2, flag table 3.4: bit 3 (adjacent points in j direction) and bit 4
// (alternating rows).
func (l *layout) putScanOrder(dst []byte, values []float32) {
	src := l.grid.Source
	lines, points := l.rows, l.cols
	if src.ColumnMajor {
		lines, points = l.cols, l.rows
	}
	alternate := src.ScanningMode >= 0 && src.ScanningMode&scanAlternateRows != 0
	at := 0
	for i, a := range lines {
		for k := range points {
			b := points[k]
			if alternate && i%2 == 1 {
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

// scanAlternateRows is the bit for alternating rows of the scanning mode, FM 92
// GRIB2, flag table 3.4.
const scanAlternateRows = 0x10
