package regrid

import (
	"fmt"
	"sort"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// bilinear computes the weights of Bilinear.
//
// With fractions s between rows and t between columns the weights of the four points
// are (1−s)(1−t), (1−s)t, s(1−t) and st. Rows of a reduced grid have columns of their
// own.
//
// Source: CDO, operator `remapbil`.
func (b *builder) bilinear(from, to *ensemble.Grid) error {
	if from.Kind == ensemble.Projected {
		return b.bilinearProjected(from, to)
	}
	r, ok := gridRows(from)
	if !ok {
		return fmt.Errorf("bilinear interpolation from a %s grid: it has no rows", from.Kind)
	}
	north, south := r.reachesPole(true), r.reachesPole(false)
	forEachPoint(to, func(lat, lon float64) {
		if !b.interpolateRows(r, lat, lon, north, south) {
			b.dropTarget()
		}
		b.nextTarget()
	})
	return nil
}

// forEachPoint visits the points of a grid row by row.
func forEachPoint(g *ensemble.Grid, visit func(lat, lon float64)) {
	for j := range g.NY {
		for i := range g.NX {
			visit(g.LatAt(j, i), g.LonAt(j, i))
		}
	}
}

// interpolateRows adds the weights of one target between two rows. It returns false
// if the target is outside. north and south report whether the grid reaches the
// poles.
func (b *builder) interpolateRows(r rows, lat, lon float64, north, south bool) bool {
	n := len(r.lat)
	j := sort.Search(n, func(j int) bool { return r.lat[j] <= lat }) // the first row that is not north of the target
	switch {
	case j < n && r.lat[j] == lat:
		return b.addRow(r, j, lon, 1)
	case j > 0 && j < n:
		// Linear in latitude between rows j−1 and j.
		share := snap((r.lat[j-1] - lat) / (r.lat[j-1] - r.lat[j]))
		return b.addRow(r, j-1, lon, 1-share) && b.addRow(r, j, lon, share)
	case j == 0 && north:
		return b.addPolarCap(r, 0, lon, (lat-r.lat[0])/(90-r.lat[0]))
	case j == n && south:
		return b.addPolarCap(r, n-1, lon, (r.lat[n-1]-lat)/(r.lat[n-1]+90))
	case j == 0 && lat-r.lat[0] < edgeTolerance:
		return b.addRow(r, 0, lon, 1)
	case j == n && r.lat[n-1]-lat < edgeTolerance:
		return b.addRow(r, n-1, lon, 1)
	}
	return false
}

// addRow adds the weights of the two neighbours in a row, times w. It returns false
// if the longitude is outside of the row.
func (b *builder) addRow(r rows, row int, lon, w float64) bool {
	if w == 0 {
		return true
	}
	i, k, share, ok := r.bracket(row, lon)
	if ok {
		b.addWeight(r.first[row]+i, w*(1-share))
		b.addWeight(r.first[row]+k, w*share)
	}
	return ok
}

// addPolarCap adds the weights of a target between the last row and the pole, whose
// value is the mean of that row. share is 0 at the row and 1 at the pole.
func (b *builder) addPolarCap(r rows, row int, lon, share float64) bool {
	if !b.addRow(r, row, lon, 1-share) {
		return false
	}
	n := len(r.lon[row])
	for i := range n {
		b.addWeight(r.first[row]+i, share/float64(n))
	}
	return true
}
