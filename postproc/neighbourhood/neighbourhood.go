// Package neighbourhood computes means over the neighbourhood of each grid point: all points
// within a distance on the globe, on any grid. Means of probabilities are neighbourhood
// probabilities; means of member events show whether the event happens nearby.
//
// Source: Schwartz and Sobash 2017, doi:10.1175/MWR-D-16-0400.1.
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

// earthRadius is the radius of the spherical Earth for distances.
//
// Unit: m. Source: WMO GRIB2 code table 3.2, entry 6.
const earthRadius = 6371229.0

// Discs defines the neighbourhoods of one radius on a grid: the points within the radius of
// each point, including the point itself and points at exactly the radius.
type Discs struct {
	grid    *ensemble.Grid
	weights []float64 // [point] area weights
	chord2  float64   // squared chord of the radius on the unit sphere
	rows    []row
	vectors [][3]float64 // [point] on the unit sphere; nil for grids with rows along parallels
}

// row is a range of consecutive points of a grid.
type row struct{ from, to int } // from included, to excluded

// New prepares the neighbourhoods of a radius in metres. The chord of a central angle α on
// the unit sphere is 2 sin(α/2), with α = radius/earthRadius at most π.
//
// Errors: a radius that is not positive.
func New(g *ensemble.Grid, radius float64) (*Discs, error) {
	if !(radius > 0) {
		return nil, fmt.Errorf("neighbourhood: radius %g m: want a positive number", radius)
	}
	half := math.Sin(min(radius/(2*earthRadius), math.Pi/2))
	d := &Discs{grid: g, weights: g.Weights(), chord2: 4 * half * half * (1 + 1e-9)} // the factor includes points at the radius in spite of rounding
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

// Mean computes the area-weighted mean of each field over the neighbourhood of each point,
//
//	Σ_q w_q x_q / Σ_q w_q  over the non-missing points q of the neighbourhood
//
// and returns the number of points whose neighbourhood has missing values.
//
// Neighbourhoods are unions of runs of consecutive points, so sums over them are
// differences of prefix sums. On projected grids a row is assumed to enter and leave a
// neighbourhood once, which holds for radii that are small relative to the globe.
//
// Shape: as the fields, [point]. Unit: that of the fields.
// Missing: NaN where the point itself is NaN; other missing points are left out.
// Cost: O(points × rows in a neighbourhood), a few times that for projected grids; points²
// for Points.
// Source: Schwartz and Sobash 2017, doi:10.1175/MWR-D-16-0400.1.
func (d *Discs) Mean(fields ...[]float32) (means [][]float32, incomplete int) {
	n := d.grid.Size()
	// Prefix sums: the sum over a run of points is a difference of two of them.
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
	var next, missing atomic.Int64
	var wait sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(d.rows)) {
		wait.Add(1)
		go func() {
			defer wait.Done()
			var s scratch
			for j := int(next.Add(1)) - 1; j < len(d.rows); j = int(next.Add(1)) - 1 {
				missing.Add(int64(d.meansOfRow(j, &s, fields, means, sums, present, area)))
			}
		}()
	}
	wait.Wait()
	return means, int(missing.Load())
}

// scratch holds the sums over the neighbourhoods of the points of one row.
type scratch struct {
	sum, present [][]float64 // [field][point] Σ w x and Σ w over non-missing points
	all          []float64   // [point] Σ w over all points
}

// meansOfRow computes the means at the points of row j and returns the number of points with
// missing values nearby. sums and present are the prefix sums of Σ w x and Σ w over
// non-missing points, area those of Σ w.
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
	// add adds the run of points from ≤ q < to to the neighbourhood of a point.
	add := func(point, from, to int) {
		i := point - at.from
		s.all[i] += area[to] - area[from]
		for f := range fields {
			s.sum[f][i] += sums[f][to] - sums[f][from]
			s.present[f][i] += present[f][to] - present[f][from]
		}
	}
	for _, step := range []int{-1, 1} { // outwards, until a row is out of reach
		k := j
		if step > 0 {
			k++
		}
		for ; k >= 0 && k < len(d.rows) && d.eachRun(at, d.rows[k], add); k += step {
		}
	}
	for i := range n {
		p, missing := at.from+i, false
		for f, x := range fields {
			v := x[p]
			if v == v {
				v = float32(s.sum[f][i] / s.present[f][i])
			}
			means[f][p] = v
			missing = missing || s.present[f][i] < s.all[i]*(1-1e-9)
		}
		if missing {
			incomplete++
		}
	}
	return incomplete
}

// eachRun calls add for the points of row of that lie in the neighbourhood of each point of row
// at, as ranges of consecutive points. It reports whether there are any, so that the
// search for rows can end.
func (d *Discs) eachRun(at, of row, add func(point, from, to int)) (some bool) {
	switch {
	case d.grid.Kind == ensemble.Points && d.grid.Rows == nil:
		for p := at.from; p < at.to; p++ {
			if d.within(p, of.from) {
				add(p, of.from, of.to)
			}
		}
		return true // points have no spatial order: test all
	case d.vectors == nil:
		return d.eachRunOnParallel(at, of, add)
	}
	return d.eachRunOnCurve(at, of, add)
}

// eachRunOnParallel is runs for rows along parallels. By the haversine formula
//
//	sin²(c/2) = sin²(Δφ/2) + cos φ₁ cos φ₂ sin²(Δλ/2)
//
// a point of the other row is within the angle c if it lies at most Δλ east or west.
func (d *Discs) eachRunOnParallel(at, of row, add func(point, from, to int)) bool {
	// left is sin²(c/2) − sin²(Δφ/2), so sin²(Δλ/2) = left/(cos φ₁ cos φ₂) at the radius.
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
		for turn := -360.0; turn <= 360; turn += 360 { // longitudes of a row may exceed 360°
			west, east := centre+turn-width, centre+turn+width
			if east < first-longitudeTolerance || west > last+longitudeTolerance {
				continue
			}
			// Longitudes ascend along a row, so the run is found by bisection.
			from := sort.Search(n, func(i int) bool { return lon(i) >= west-longitudeTolerance })
			to := sort.Search(n, func(i int) bool { return lon(i) > east+longitudeTolerance })
			if from < to {
				add(p, of.from+from, of.from+to)
			}
		}
	}
	return true
}

// longitudeTolerance is the tolerance for rounding of longitudes.
//
// Unit: degrees.
const longitudeTolerance = 1e-9

// latitude and longitude are those of point p in degrees.
func (d *Discs) latitude(p int) float64  { return d.grid.LatAt(p/d.grid.NX, p%d.grid.NX) }
func (d *Discs) longitude(p int) float64 { return d.grid.LonAt(p/d.grid.NX, p%d.grid.NX) }

// eachRunOnCurve is runs for rows along any curve: the range extends from the nearest point of the
// row to both sides. Nearest point and ends are updated from those of the previous point.
func (d *Discs) eachRunOnCurve(at, of row, add func(point, from, to int)) (some bool) {
	nearest := -1                // point of row of nearest to p, −1 before the first search
	from, to := of.from, of.from // run of points within the radius
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

// within reports whether two points are within the radius.
func (d *Discs) within(p, q int) bool { return d.distance2(p, q) <= d.chord2 }

// distance2 is the squared chord between two points on the unit sphere. Comparing squared
// chords avoids an arcsine for every pair.
func (d *Discs) distance2(p, q int) float64 {
	a, b := &d.vectors[p], &d.vectors[q]
	x, y, z := a[0]-b[0], a[1]-b[1], a[2]-b[2]
	return x*x + y*y + z*z
}

// MaximumProbability is the neighbourhood maximum ensemble probability: the fraction of members with
// an event at any point of the neighbourhood.
//
// Shape: members [member][point], 1 for the event and 0 otherwise.
// Missing: NaN where a member is NaN; missing points nearby count as no event. incomplete
// is the number of points that have some.
// Source: Schwartz and Sobash 2017, doi:10.1175/MWR-D-16-0400.1.
func (d *Discs) MaximumProbability(members [][]float32) (probability []float32, incomplete int) {
	probability = make([]float32, d.grid.Size())
	for from := 0; from < len(members); from += maxFields {
		means, missing := d.Mean(members[from:min(from+maxFields, len(members))]...)
		incomplete = max(incomplete, missing)
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

// maxFields bounds the number of fields with prefix sums in memory at the same time.
const maxFields = 8
