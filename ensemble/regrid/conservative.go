package regrid

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// Cells are intersected in the plane of the cylindrical equal-area projection:
// longitude in degrees by the sine of latitude. Areas in this plane are
// proportional to areas on the sphere. Cells of regular and reduced grids are
// rectangles. Cells of projected grids are polygons with straight sides, which
// neighbours share. So the overlaps of a cell add up to its area.
//
// Source: Snyder 1987, section 10 (cylindrical equal-area projection); Jones 1999.

// conservative computes the weights of Conservative: area of overlap divided by the
// area of the target cell.
func (b *builder) conservative(from, to *ensemble.Grid) error {
	source, err := gridCells(from)
	if err != nil {
		return err
	}
	target, err := gridCells(to)
	if err != nil {
		return err
	}
	switch {
	case source.boxes != nil && target.boxes != nil:
		b.overlapBoxes(source.boxes, target.boxes)
	case source.boxes != nil:
		for _, p := range target.polygons {
			whole := math.Abs(p.area())
			source.boxes.overlapPolygon(p, func(box int, area float64) { b.addWeight(box, area/whole) })
			b.nextTarget()
		}
	case target.boxes != nil:
		b.overlapPolygons(source.polygons, target.boxes)
	default:
		return fmt.Errorf("conservative interpolation between two projected grids is not supported")
	}
	return nil
}

// cells holds the cells of a grid: boxes, or one polygon per point.
type cells struct {
	boxes    *boxes
	polygons []polygon
}

// gridCells returns the cells of a grid.
func gridCells(g *ensemble.Grid) (cells, error) {
	if r, ok := gridRows(g); ok {
		b, err := r.cellBoxes()
		return cells{boxes: b}, err
	}
	if g.Kind != ensemble.Projected || g.NX < 2 || g.NY < 2 {
		return cells{}, fmt.Errorf("conservative interpolation with a %s grid of %d x %d points: it has no cells", g.Kind, g.NX, g.NY)
	}
	return cells{polygons: polygonCells(g)}, nil
}

// boxes holds the cells of rows. The cells of a row lie between the latitudes low
// and high, and between consecutive values of side.
type boxes struct {
	rows
	// high and low are sines of latitude, by row.
	high, low []float64
	// side holds the boundaries of a row's cells in degrees, ascending, one more
	// than cells.
	side [][]float64
}

// cellBoxes gives each point the area closest to its row, and inside it closest to
// the point. The outermost rows extend by half of the row spacing; those of a
// global grid extend to the pole.
func (r rows) cellBoxes() (*boxes, error) {
	n := len(r.lat)
	if n < 2 {
		return nil, fmt.Errorf("conservative interpolation with a grid of one row: its cells have no height")
	}
	b := &boxes{rows: r, high: make([]float64, n), low: make([]float64, n), side: make([][]float64, n)}
	for j := range n {
		north, south := 0.0, 0.0
		switch {
		case j > 0:
			north = (r.lat[j-1] + r.lat[j]) / 2
		case r.reachesPole(true):
			north = 90
		default:
			north = min(90, r.lat[0]+(r.lat[0]-r.lat[1])/2)
		}
		switch {
		case j < n-1:
			south = (r.lat[j] + r.lat[j+1]) / 2
		case r.reachesPole(false):
			south = -90
		default:
			south = max(-90, r.lat[n-1]-(r.lat[n-2]-r.lat[n-1])/2)
		}
		b.high[j], b.low[j] = math.Sin(north*rad), math.Sin(south*rad)
		if j > 0 && &r.lon[j][0] == &r.lon[j-1][0] {
			b.side[j] = b.side[j-1]
			continue
		}
		x := r.lon[j]
		m := len(x)
		s := make([]float64, m+1)
		for i := 1; i < m; i++ {
			s[i] = (x[i-1] + x[i]) / 2
		}
		switch {
		case r.circle:
			s[m] = (x[m-1] + x[0] + 360) / 2
			s[0] = s[m] - 360
		case m > 1:
			s[0], s[m] = x[0]-(x[1]-x[0])/2, x[m-1]+(x[m-1]-x[m-2])/2
		default:
			return nil, fmt.Errorf("conservative interpolation with a grid whose row at %g N has one point: its cell has no width", r.lat[j])
		}
		b.side[j] = s
	}
	return b, nil
}

// forEachOverlap visits the cells of a row that overlap an interval of longitudes.
// overlap is in degrees. turn is the multiple of 360 that was added to the
// interval.
func (b *boxes) forEachOverlap(row int, west, east float64, visit func(point int, overlap, turn float64)) {
	s := b.side[row]
	n := len(s) - 1
	// An interval may overlap the row in several turns of the globe.
	for k := math.Floor((s[0] - east) / 360); k <= math.Ceil((s[n]-west)/360); k++ {
		turn := 360 * k
		lo, hi := west+turn, east+turn
		if hi <= s[0] || lo >= s[n] {
			continue
		}
		for i := max(0, sort.SearchFloat64s(s, lo)-1); i < n && s[i] < hi; i++ {
			if overlap := min(hi, s[i+1]) - max(lo, s[i]); overlap > 0 {
				visit(b.first[row]+i, overlap, turn)
			}
		}
	}
}

// overlappingRows returns the rows from first to before end that overlap an
// interval of sines of latitude.
func (b *boxes) overlappingRows(low, high float64) (first, end int) {
	n := len(b.high)
	return sort.Search(n, func(j int) bool { return b.low[j] < high }), sort.Search(n, func(j int) bool { return b.high[j] <= low })
}

// overlapBoxes computes the weights from boxes to boxes: products of
// one-dimensional overlaps.
func (b *builder) overlapBoxes(from, to *boxes) {
	for row, side := range to.side {
		high, low := to.high[row], to.low[row]
		first, end := from.overlappingRows(low, high)
		for i := range len(side) - 1 {
			width := side[i+1] - side[i]
			for j := first; j < end; j++ {
				height := (min(high, from.high[j]) - max(low, from.low[j])) / (high - low)
				from.forEachOverlap(j, side[i], side[i+1], func(point int, overlap, _ float64) { b.addWeight(point, overlap/width*height) })
			}
			b.nextTarget()
		}
	}
}

// overlapPolygons computes the weights from polygons to boxes. Polygons are visited
// by source, so the weights are sorted by target afterwards (counting sort).
func (b *builder) overlapPolygons(from []polygon, to *boxes) {
	type overlap struct {
		target, source int32
		area           float64
	}
	var overlaps []overlap
	var area []float64 // of the boxes
	for row, s := range to.side {
		for i := range len(s) - 1 {
			area = append(area, (s[i+1]-s[i])*(to.high[row]-to.low[row]))
		}
	}
	// Count the overlaps of each target, accumulate the counts, then place the
	// weights.
	b.start = make([]int, len(area)+1)
	for k, p := range from {
		to.overlapPolygon(p, func(box int, area float64) {
			overlaps = append(overlaps, overlap{int32(box), int32(k), area})
			b.start[box+1]++
		})
	}
	for i := range area {
		b.start[i+1] += b.start[i]
	}
	b.column, b.weight = make([]int32, len(overlaps)), make([]float64, len(overlaps))
	at := slices.Clone(b.start)
	for _, p := range overlaps {
		k := at[p.target]
		b.column[k], b.weight[k] = p.source, p.area/area[p.target]
		at[p.target]++
	}
}

// overlapPolygon visits the boxes that a polygon overlaps, with the areas of
// overlap.
func (b *boxes) overlapPolygon(p polygon, visit func(box int, area float64)) {
	lowest, highest := p.bounds(sine)
	first, end := b.overlappingRows(lowest, highest)
	for j := first; j < end; j++ {
		band := p.clip(sine, b.low[j], 1).clip(sine, b.high[j], -1)
		if len(band) < 3 {
			continue
		}
		west, east := band.bounds(longitude)
		b.forEachOverlap(j, west, east, func(box int, _, turn float64) {
			i := box - b.first[j]
			part := band.clip(longitude, b.side[j][i]-turn, 1).clip(longitude, b.side[j][i+1]-turn, -1)
			if area := math.Abs(part.area()); area > 0 {
				visit(box, area)
			}
		})
	}
}
