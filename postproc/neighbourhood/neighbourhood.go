// Package neighbourhood takes means over the points around each point of a grid: those
// within a distance on the globe, whatever the grid. Of probabilities they are
// neighbourhood probabilities; of events of members they tell where one happens nearby.
package neighbourhood

import (
	"fmt"
	"math"
	"runtime"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// earthRadius is the radius of the sphere on which distances are taken, in metres. Source:
// WMO GRIB2 code table 3.2, entry 6.
const earthRadius = 6371229.0

// Discs are the points within a radius of each point of a grid, the point itself
// and those at the radius included.
type Discs struct {
	grid    *ensemble.Grid
	weights []float64 // area weights
	chord2  float64   // square of the largest distance through the unit sphere
	rows    []row
	vectors [][3]float64 // of points on the unit sphere; nil for rows along parallels
}

// row is some points of a grid that lie one after the other.
type row struct{ from, to int }

// New finds the discs of a radius in metres on a grid.
//
// Errors: for a radius that is not above 0.
func New(g *ensemble.Grid, radius float64) (*Discs, error) {
	if !(radius > 0) {
		return nil, fmt.Errorf("neighbourhood: a radius of %g m", radius)
	}
	half := math.Sin(min(radius/(2*earthRadius), math.Pi/2))
	d := &Discs{grid: g, weights: g.Weights(), chord2: 4 * half * half * (1 + 1e-9)} // points at the radius count, in spite of rounding
	n := 0
	switch {
	case g.Rows != nil:
		for _, nx := range g.Rows {
			d.rows = append(d.rows, row{n, n + nx})
			n += nx
		}
		return d, nil
	case g.Kind == ensemble.Points:
		for p := range g.Size() {
			d.rows = append(d.rows, row{p, p + 1})
		}
	default:
		for j := range g.NY {
			d.rows = append(d.rows, row{j * g.NX, (j + 1) * g.NX})
		}
	}
	if g.Kind == ensemble.RegularLatLon || g.Kind == ensemble.RegularGaussian {
		return d, nil
	}
	d.vectors = make([][3]float64, g.Size())
	for p := range d.vectors {
		lat, lon := g.LatAt(p/g.NX, p%g.NX)*math.Pi/180, g.LonAt(p/g.NX, p%g.NX)*math.Pi/180
		d.vectors[p] = [3]float64{math.Cos(lat) * math.Cos(lon), math.Cos(lat) * math.Sin(lon), math.Sin(lat)}
	}
	return d, nil
}

// Mean gives the mean of each field over the disc around each point, weighted by area:
//
//	Σ_q w_q x_q / Σ_q w_q  over the points q of the disc that are not missing
//
// and how many points have missing ones in their disc.
//
// Shape: as the fields', [point]. Unit: that of the fields.
// Missing: where the point itself is; other missing points are left out of the mean.
// Rows of projected grids are taken for curves that enter and leave a disc once, which
// holds for discs that are small against the globe.
// Cost: O(points × rows in a disc), a few times that for projected grids; points² for Points.
// Source: Schwartz and Sobash 2017, doi:10.1175/MWR-D-16-0400.1.
func (d *Discs) Mean(fields ...[]float32) (means [][]float32, incomplete int) {
	n := d.grid.Size()
	// What lies before each point, so that a run of points costs two looks.
	sums, present := make([][]float64, len(fields)), make([][]float64, len(fields))
	area := make([]float64, n+1)
	for p, w := range d.weights {
		area[p+1] = area[p] + w
	}
	means = make([][]float32, len(fields))
	for f, x := range fields {
		means[f] = make([]float32, n)
		sums[f] = make([]float64, n+1)
		present[f] = area
		for p, v := range x {
			if v != v {
				present[f] = make([]float64, n+1)
				break
			}
			sums[f][p+1] = sums[f][p] + d.weights[p]*float64(v)
		}
		if &present[f][0] == &area[0] {
			continue
		}
		for p, v := range x {
			sums[f][p+1], present[f][p+1] = sums[f][p], present[f][p]
			if v == v {
				sums[f][p+1] += d.weights[p] * float64(v)
				present[f][p+1] += d.weights[p]
			}
		}
	}
	var next, lacking atomic.Int64
	var wait sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(d.rows)) {
		wait.Add(1)
		go func() {
			defer wait.Done()
			var s scratch
			for j := int(next.Add(1)) - 1; j < len(d.rows); j = int(next.Add(1)) - 1 {
				lacking.Add(int64(d.meansOfRow(j, &s, fields, means, sums, present, area)))
			}
		}()
	}
	wait.Wait()
	return means, int(lacking.Load())
}

// scratch are the sums over the discs around the points of one row.
type scratch struct {
	sum, present [][]float64 // [field][point]
	all          []float64
}

// meansOfRow makes the means around the points of row j.
func (d *Discs) meansOfRow(j int, s *scratch, fields, means [][]float32, sums, present [][]float64, area []float64) (incomplete int) {
	at := d.rows[j]
	n := at.to - at.from
	if len(s.all) < n {
		s.all = make([]float64, n)
		s.sum, s.present = make([][]float64, len(fields)), make([][]float64, len(fields))
		for f := range fields {
			s.sum[f], s.present[f] = make([]float64, n), make([]float64, n)
		}
	}
	clear(s.all)
	for f := range fields {
		clear(s.sum[f])
		clear(s.present[f])
	}
	add := func(point, from, to int) {
		i := point - at.from
		s.all[i] += area[to] - area[from]
		for f := range fields {
			s.sum[f][i] += sums[f][to] - sums[f][from]
			s.present[f][i] += present[f][to] - present[f][from]
		}
	}
	for _, step := range []int{-1, 1} { // away from the row, until a row is too far
		k := j
		if step > 0 {
			k++
		}
		for ; k >= 0 && k < len(d.rows) && d.eachRun(at, d.rows[k], add); k += step {
		}
	}
	for i := range n {
		p, lacks := at.from+i, false
		for f, x := range fields {
			v := x[p]
			if v == v {
				v = float32(s.sum[f][i] / s.present[f][i])
			}
			means[f][p] = v
			lacks = lacks || s.present[f][i] < s.all[i]*(1-1e-9)
		}
		if lacks {
			incomplete++
		}
	}
	return incomplete
}

// eachRun tells add which points of a row are in the disc around each point of another, as runs
// that follow each other in the grid; some says whether there are some.
func (d *Discs) eachRun(at, of row, add func(point, from, to int)) (some bool) {
	switch {
	case d.grid.Kind == ensemble.Points && d.grid.Rows == nil:
		for p := at.from; p < at.to; p++ {
			if d.within(p, of.from) {
				add(p, of.from, of.to)
			}
		}
		return true // places have no order, so all are looked at
	case d.vectors == nil:
		return d.eachRunOnParallel(at, of, add)
	}
	return d.eachRunOnCurve(at, of, add)
}

// eachRunOnParallel is runs for rows along parallels: by the haversine, a point lies at most Δλ east
// or west.
func (d *Discs) eachRunOnParallel(at, of row, add func(point, from, to int)) bool {
	lat1, lat2 := d.latitude(at.from)*math.Pi/180, d.latitude(of.from)*math.Pi/180
	s := math.Sin((lat2 - lat1) / 2)
	left, both := d.chord2/4-s*s, math.Cos(lat1)*math.Cos(lat2)
	if left < 0 {
		return false
	}
	width := 180.0
	if left < both {
		width = 2 * math.Asin(math.Sqrt(left/both)) * 180 / math.Pi
	}
	if width >= 180 {
		for p := at.from; p < at.to; p++ {
			add(p, of.from, of.to)
		}
		return true
	}
	n := of.to - of.from
	lon := func(i int) float64 { return d.longitude(of.from + i) }
	first, last := lon(0), lon(n-1)
	for p := at.from; p < at.to; p++ {
		centre := d.longitude(p)
		for turn := -360.0; turn <= 360; turn += 360 { // a row may run past a full turn
			west, east := centre+turn-width, centre+turn+width
			if east < first-longitudeTolerance || west > last+longitudeTolerance {
				continue
			}
			from := sort.Search(n, func(i int) bool { return lon(i) >= west-longitudeTolerance })
			to := sort.Search(n, func(i int) bool { return lon(i) > east+longitudeTolerance })
			if from < to {
				add(p, of.from+from, of.from+to)
			}
		}
	}
	return true
}

// longitudeTolerance is how far in degrees a point may lie beyond a disc by rounding.
const longitudeTolerance = 1e-9

func (d *Discs) latitude(p int) float64  { return d.grid.LatAt(p/d.grid.NX, p%d.grid.NX) }
func (d *Discs) longitude(p int) float64 { return d.grid.LonAt(p/d.grid.NX, p%d.grid.NX) }

// eachRunOnCurve is runs for rows along any curve: from the point of a row that is nearest, to both
// sides. Nearest points and ends of runs move on with the point.
func (d *Discs) eachRunOnCurve(at, of row, add func(point, from, to int)) (some bool) {
	nearest := -1
	from, to := of.from, of.from
	for p := at.from; p < at.to; p++ {
		if nearest < 0 {
			nearest = of.from
			for q := of.from; q < of.to; q++ {
				if d.distance2(p, q) < d.distance2(p, nearest) {
					nearest = q
				}
			}
		}
		for nearest+1 < of.to && d.distance2(p, nearest+1) < d.distance2(p, nearest) {
			nearest++
		}
		for nearest > of.from && d.distance2(p, nearest-1) < d.distance2(p, nearest) {
			nearest--
		}
		if !d.within(p, nearest) {
			continue
		}
		some = true
		from, to = min(from, nearest), max(to, nearest+1)
		for from < nearest && !d.within(p, from) {
			from++
		}
		for from > of.from && d.within(p, from-1) {
			from--
		}
		for to > nearest+1 && !d.within(p, to-1) {
			to--
		}
		for to < of.to && d.within(p, to) {
			to++
		}
		add(p, from, to)
	}
	return some
}

func (d *Discs) within(p, q int) bool { return d.distance2(p, q) <= d.chord2 }

// distance2 is the square of the distance of two points through the unit sphere.
func (d *Discs) distance2(p, q int) float64 {
	a, b := &d.vectors[p], &d.vectors[q]
	x, y, z := a[0]-b[0], a[1]-b[1], a[2]-b[2]
	return x*x + y*y + z*z
}

// MaximumProbability is the share of members with an event at any point of the disc around each
// point: the neighbourhood maximum ensemble probability.
//
// Shape: members [member][point], 1 where the event happens and 0 where it does not.
// Missing: where a member is; points that are missing nearby count as without the event.
// incomplete counts the points that have some.
// Source: Schwartz and Sobash 2017, doi:10.1175/MWR-D-16-0400.1.
func (d *Discs) MaximumProbability(members [][]float32) (probability []float32, incomplete int) {
	probability = make([]float32, d.grid.Size())
	for from := 0; from < len(members); from += maxFields {
		means, lacks := d.Mean(members[from:min(from+maxFields, len(members))]...)
		incomplete = max(incomplete, lacks)
		for _, mean := range means {
			for p, v := range mean {
				switch {
				case v > 0:
					probability[p]++
				case v != v:
					probability[p] = v
				}
			}
		}
	}
	for p := range probability {
		probability[p] /= float32(len(members))
	}
	return probability, incomplete
}

// maxFields bounds the fields whose sums are in memory together.
const maxFields = 8
