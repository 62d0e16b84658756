// Package order converts fields between the storage order of a file and the normal
// order of this program. In normal order, rows run from north to south and columns
// from west to east, beginning in [0, 360) degrees.
package order

import (
	"fmt"
	"math"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// Longitudes returns n equidistant ascending longitudes from west to east as stated
// in a file, the first in [0, 360), and the input column that became the first.
//
// A global grid begins at its column nearest to 0 from above. A limited area stays
// contiguous: one that crosses Greenwich runs for example from 350 to 370.
//
// Unit: degrees.
// Errors: nil if n columns cannot have these longitudes.
func Longitudes(west, east float64, n int) (lon []float64, roll int) {
	span := math.Mod(east-west, 360)
	if span < -1e-6 {
		span += 360
	}
	if n > 1 && span < 1e-6 {
		span = 360 // both ends on one meridian: written as 0 to 360
	}
	step := 0.0
	if n > 1 {
		step = span / float64(n-1)
		if math.Abs(step*float64(n)-360) < 0.02*step || math.Abs(step*float64(n)-360) < 2e-3*float64(n) && step*float64(n) > 359 && step*float64(n) < 361 {
			step = 360 / float64(n) // files round corners to 10⁻³ degrees
		}
	}
	first := math.Mod(math.Mod(west, 360)+360, 360)
	lon = make([]float64, n)
	for i := range lon {
		lon[i] = first + float64(i)*step
	}
	return lon, Roll(lon)
}

// Roll rotates the ascending longitudes of a global grid so that they begin in [0,
// 360), in place, and returns the column that became the first. Longitudes of a
// limited area are only shifted by multiples of 360.
func Roll(lon []float64) int {
	n := len(lon)
	if n == 0 {
		return 0
	}
	turn := 360 * math.Floor(lon[0]/360+1e-12)
	for i := range lon {
		lon[i] = snapZero(lon[i] - turn)
	}
	if n < 2 {
		return 0
	}
	step := (lon[n-1] - lon[0]) / float64(n-1)
	if math.Abs(step*float64(n)-360) > step/2 {
		return 0
	}
	roll := 0
	for roll < n && lon[roll] < 360-1e-9 {
		roll++
	}
	if roll == n {
		return 0
	}
	rolled := make([]float64, n)
	for i := range rolled {
		c := roll + i
		if c < n {
			rolled[i] = snapZero(lon[c] - 360)
		} else {
			rolled[i] = lon[c-n]
		}
	}
	copy(lon, rolled)
	return roll
}

// snapZero returns 0 for values that differ from 0 only by rounding, so that
// longitudes begin at exactly 0 and not just below 360.
func snapZero(v float64) float64 {
	if math.Abs(v) < 1e-9 {
		return 0
	}
	return v
}

// ToNormal copies a field from storage order to normal order.
//
// Shape: stored and normal [g.Size()].
// Errors: other lengths.
func ToNormal(normal, stored []float32, g *ensemble.Grid) error {
	return forEach(g, len(normal), len(stored), func(n, s int) { normal[n] = stored[s] },
		func(n, s, count int) { copy(normal[n:n+count], stored[s:s+count]) })
}

// ToStored copies a field from normal order to the storage order of the input.
//
// Shape, Errors: as ToNormal.
func ToStored(stored, normal []float32, g *ensemble.Grid) error {
	return forEach(g, len(normal), len(stored), func(n, s int) { stored[s] = normal[n] },
		func(n, s, count int) { copy(stored[s:s+count], normal[n:n+count]) })
}

// forEach visits the points in both orders: one for single points, run for ranges
// that are contiguous in both. In normal order n = row·NX + column, from north to
// south and west to east. In storage order, with column c and row r of the file,
//
//	s = r·NX + c,   or c·NY + r if adjacent points follow a meridian (ColumnMajor)
//
// The flags of the scanning mode reverse r (SouthFirst), c (EastFirst), or every
// second row; Roll moves columns from [-180, 180) to [0, 360).
//
// Source: GRIB2 flag table 3.4, bits 1 to 4; GRIB1 code table 8, bits 1 to 3.
func forEach(g *ensemble.Grid, lenNormal, lenStored int, one func(n, s int), run func(n, s, count int)) error {
	if lenNormal != g.Size() || lenStored != g.Size() {
		return fmt.Errorf("order: got %d and %d values for a grid of %d points", lenNormal, lenStored, g.Size())
	}
	o := g.Source
	if g.Rows != nil {
		forEachReduced(g, one, run)
		return nil
	}
	nx, ny := g.NX, g.NY
	// Every second stored row (column, if ColumnMajor) is reversed.
	alternate := isAlternating(o)
	for j := range ny {
		row := j
		if o.SouthFirst {
			row = ny - 1 - j
		}
		if !o.EastFirst && !o.ColumnMajor && !alternate {
			run(j*nx, row*nx+o.Roll, nx-o.Roll)
			if o.Roll > 0 {
				run(j*nx+nx-o.Roll, row*nx, o.Roll)
			}
			continue
		}
		for i := range nx {
			col := i + o.Roll
			if col >= nx {
				col -= nx
			}
			if o.EastFirst {
				col = nx - 1 - col
			}
			r, c := row, col
			if o.ColumnMajor {
				if alternate && c%2 == 1 {
					r = ny - 1 - r
				}
				one(j*nx+i, c*ny+r)
				continue
			}
			if alternate && r%2 == 1 {
				c = nx - 1 - c
			}
			one(j*nx+i, r*nx+c)
		}
	}
	return nil
}

// isAlternating reports whether every second stored row is reversed: bit 4 of the
// GRIB2 scanning mode (flag table 3.4).
func isAlternating(o ensemble.SourceOrder) bool {
	return o.ScanningMode > 0 && o.ScanningMode&0x10 != 0
}

// forEachReduced is forEach for a reduced grid, whose rows have different numbers of
// points: row j begins after the points of the rows before it, in both orders.
func forEachReduced(g *ensemble.Grid, one func(n, s int), run func(n, s, count int)) {
	o := g.Source
	at := 0 // first point of the row in normal order
	for j, n := range g.Rows {
		row, stored := j, at
		if o.SouthFirst {
			row, stored = len(g.Rows)-1-j, g.NX-at-n
		}
		if o.EastFirst != (isAlternating(o) && row%2 == 1) {
			for i := range n {
				one(at+i, stored+n-1-i)
			}
		} else {
			run(at, stored, n)
		}
		at += n
	}
}

// Rect is a rectangle of a field in storage order: rows and columns of the input.
type Rect struct{ Row, Col, Rows, Cols int }

// WindowRects returns the parts of a stored field that hold a window in normal
// order: one rectangle, or two if the window crosses the last column of the input.
//
// Errors: a field with alternating rows or a reduced grid, which has no rectangles.
func WindowRects(g *ensemble.Grid, w ensemble.Window) ([]Rect, error) {
	o := g.Source
	if isAlternating(o) || g.Rows != nil {
		return nil, fmt.Errorf("order: alternating rows and reduced grids have no rectangles")
	}
	if g.IsWhole(w) {
		w = ensemble.Window{Rows: [2]int{0, g.NY}, Cols: [2]int{0, g.NX}}
	}
	row := w.Rows[0]
	if o.SouthFirst {
		row = g.NY - w.Rows[1]
	}
	var out []Rect
	add := func(from, to int) { // input columns, counted from the west
		if from >= to {
			return
		}
		if o.EastFirst {
			from, to = g.NX-to, g.NX-from
		}
		out = append(out, Rect{row, from, w.Rows[1] - w.Rows[0], to - from})
	}
	add(w.Cols[0]+o.Roll, min(w.Cols[1]+o.Roll, g.NX))
	add(max(w.Cols[0]+o.Roll-g.NX, 0), w.Cols[1]+o.Roll-g.NX)
	return out, nil
}

// CopyToWindow copies the values of a rectangle to their positions in a window in
// normal order. All other points of the window stay unchanged.
//
// Shape: stored holds the rectangle in storage order, window is [row][column].
func (r Rect) CopyToWindow(window, stored []float32, g *ensemble.Grid, w ensemble.Window) {
	stride := r.Cols
	if g.Source.ColumnMajor {
		stride = r.Rows
	}
	r.copyToWindow(window, stored, stride, g, w)
}

// CopyFieldToWindow copies the rectangle out of a complete field.
//
// Shape: stored [g.Size()] in storage order, window [row][column].
func (r Rect) CopyFieldToWindow(window, stored []float32, g *ensemble.Grid, w ensemble.Window) {
	if g.Source.ColumnMajor {
		r.copyToWindow(window, stored[r.Col*g.NY+r.Row:], g.NY, g, w)
	} else {
		r.copyToWindow(window, stored[r.Row*g.NX+r.Col:], g.NX, g, w)
	}
}

// RowLayout returns the positions of the rectangle's rows in a window in normal
// order: the first row begins at point to, the others step points apart. ok is
// false if stored rows do not run from west to east.
func (r Rect) RowLayout(g *ensemble.Grid, w ensemble.Window) (to, step int, ok bool) {
	if g.Source.ColumnMajor || g.Source.EastFirst {
		return 0, 0, false
	}
	if g.IsWhole(w) {
		w = ensemble.Window{Rows: [2]int{0, g.NY}, Cols: [2]int{0, g.NX}}
	}
	step = w.Cols[1] - w.Cols[0]
	to = (r.Col-g.Source.Roll+g.NX)%g.NX - w.Cols[0]
	if g.Source.SouthFirst {
		to, step = to+(r.Rows-1)*step, -step
	}
	return to, step, true
}

// copyToWindow copies a rectangle whose rows (columns, if ColumnMajor) are stride
// values apart.
func (r Rect) copyToWindow(window, stored []float32, stride int, g *ensemble.Grid, w ensemble.Window) {
	if g.IsWhole(w) {
		w = ensemble.Window{Rows: [2]int{0, g.NY}, Cols: [2]int{0, g.NX}}
	}
	o := g.Source
	nx, west := w.Cols[1]-w.Cols[0], r.Col
	if o.EastFirst {
		west = g.NX - r.Col - r.Cols
	}
	first := (west-o.Roll+g.NX)%g.NX - w.Cols[0] // column in the window
	for j := range r.Rows {
		row := j
		if o.SouthFirst {
			row = r.Rows - 1 - j
		}
		to := window[j*nx+first : j*nx+first+r.Cols]
		if !o.EastFirst && !o.ColumnMajor {
			copy(to, stored[row*stride:])
			continue
		}
		for i := range to {
			col := i
			if o.EastFirst {
				col = r.Cols - 1 - i
			}
			if o.ColumnMajor {
				to[i] = stored[col*stride+row]
			} else {
				to[i] = stored[row*stride+col]
			}
		}
	}
}
