package regrid

import (
	"fmt"
	"sort"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// bilinear makes the weights of Bilinear.
func (b *builder) bilinear(from, to *ensemble.Grid) error {
	if from.Kind == ensemble.Projected {
		return b.quadrilaterals(from, to)
	}
	r, ok := rowsOf(from)
	if !ok {
		return fmt.Errorf("bilinear interpolation from a %s grid: its points make no rows", from.Kind)
	}
	north, south := r.reaches(true), r.reaches(false)
	each(to, func(lat, lon float64) {
		if !b.between(r, lat, lon, north, south) {
			b.drop()
		}
		b.next()
	})
	return nil
}

// each visits the points of a grid.
func each(g *ensemble.Grid, visit func(lat, lon float64)) {
	for j := range g.NY {
		for i := range g.NX {
			visit(g.LatAt(j, i), g.LonAt(j, i))
		}
	}
}

// between adds the weights of one target among rows, unless it is outside.
func (b *builder) between(r rows, lat, lon float64, north, south bool) bool {
	n := len(r.lat)
	j := sort.Search(n, func(j int) bool { return r.lat[j] <= lat }) // the first row that is not north of the target
	switch {
	case j < n && r.lat[j] == lat:
		return b.row(r, j, lon, 1)
	case j > 0 && j < n:
		share := snapped((r.lat[j-1] - lat) / (r.lat[j-1] - r.lat[j]))
		return b.row(r, j-1, lon, 1-share) && b.row(r, j, lon, share)
	case j == 0 && north:
		return b.cap(r, 0, lon, (lat-r.lat[0])/(90-r.lat[0]))
	case j == n && south:
		return b.cap(r, n-1, lon, (r.lat[n-1]-lat)/(r.lat[n-1]+90))
	case j == 0 && lat-r.lat[0] < edge:
		return b.row(r, 0, lon, 1)
	case j == n && r.lat[n-1]-lat < edge:
		return b.row(r, n-1, lon, 1)
	}
	return false
}

// row adds what a row contributes to a target.
func (b *builder) row(r rows, row int, lon, w float64) bool {
	if w == 0 {
		return true
	}
	i, k, share, ok := r.along(row, lon)
	if ok {
		b.add(r.first[row]+i, w*(1-share))
		b.add(r.first[row]+k, w*share)
	}
	return ok
}

// cap adds the weights of a target between the last row and the pole, which has the mean
// of the row; share is how near it is to the pole.
func (b *builder) cap(r rows, row int, lon, share float64) bool {
	if !b.row(r, row, lon, 1-share) {
		return false
	}
	n := len(r.lon[row])
	for i := range n {
		b.add(r.first[row]+i, share/float64(n))
	}
	return true
}
