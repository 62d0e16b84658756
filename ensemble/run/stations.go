package run

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/station"
)

// sites takes values of a grid at single places.
type sites struct {
	stations []ensemble.Station
	points   [][]int     // of the grid, for each station
	weights  [][]float64 // of the points, with sum 1
	// warmer is what 2 metre temperatures gain by the difference between the height of
	// the grid and that of each station, in K; nil without heights of the grid.
	warmer []float32
	words  string // how, for the source of the products
}

// sitesOf reads the stations that are asked for and finds them on a grid.
//
// Errors: those of station.Read; exit 64 for stations outside of the grid, and bilinear
// interpolation on a projection; 65 and 66 for heights of the grid.
func sitesOf(ctx context.Context, pool *decode.Pool, c config.Output, grid *ensemble.Grid) (*sites, error) {
	stations, err := station.Read(string(c.Stations))
	if err != nil {
		return nil, err
	}
	s := &sites{stations: stations, words: c.Interpolation + " at stations"}
	var outside []string
	for _, at := range stations {
		points, weights, ok := locate(grid, at, c.Interpolation)
		if !ok {
			outside = append(outside, at.ID)
		}
		s.points, s.weights = append(s.points, points), append(s.weights, weights)
	}
	if outside != nil {
		return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s outside of the grid", plural(len(outside), "station")), At: string(c.Stations),
			Why: strings.Join(outside[:min(len(outside), 10)], ", ") + ": the grid is " + grid.String(), Fix: "leave them out of the list"}
	}
	if c.Orography == "" {
		return s, nil
	}
	heights, sum, err := orography(ctx, pool, string(c.Orography), grid)
	if err != nil {
		return nil, err
	}
	s.warmer = s.take(heights)
	for i, at := range stations {
		s.warmer[i] = float32(ensemble.LapseRate * (float64(s.warmer[i]) - at.Altitude))
		if at.Altitude != at.Altitude {
			s.warmer[i] = 0
		}
	}
	s.words += fmt.Sprintf(", 2 metre temperature by %g K m-1 from the height of the grid (sha256:%s) to the altitude of stations that have one", ensemble.LapseRate, sum)
	return s, nil
}

// Words of output.interpolation.
const (
	nearestPoint = "nearest"
	bilinear     = "bilinear"
)

// locate finds the points of a grid from which the value at a station is made: the nearest
// one, or the corners of the cell that it lies in, weighted by the distances along
// latitude and longitude. ok is false for one that lies outside: more than a cell's
// diagonal from the nearest point, or in no cell.
func locate(g *ensemble.Grid, at ensemble.Station, how string) (points []int, weights []float64, ok bool) {
	regular := g.Kind == ensemble.RegularLatLon || g.Kind == ensemble.RegularGaussian
	if how == nearestPoint || !regular {
		best, near := 0, math.Inf(1)
		for j := range g.NY {
			for i := range g.NX {
				if d := angle(at.Lat, at.Lon, g.LatAt(j, i), g.LonAt(j, i)); d < near {
					best, near = j*g.NX+i, d
				}
			}
		}
		return []int{best}, []float64{1}, how == nearestPoint && near <= reach(g, best)
	}
	j, y, ok := between(g.NY, -at.Lat, func(j int) float64 { return -g.Lat[j] })
	if !ok {
		return nil, nil, false
	}
	first := g.Lon[0]
	lon := first + math.Mod(math.Mod(at.Lon-first, 360)+360, 360)
	i, x, ok := between(g.NX, lon, func(i int) float64 { return g.Lon[i] })
	east := i + 1
	switch {
	case ok:
	case g.Periodic():
		i, east = g.NX-1, 0
		x, ok = (lon-g.Lon[i])/(first+360-g.Lon[i]), true
	default:
		return nil, nil, false
	}
	add := func(j, i int, w float64) {
		if w > 0 { // a point without weight may be missing
			points, weights = append(points, j*g.NX+i), append(weights, w)
		}
	}
	add(j, i, (1-y)*(1-x))
	add(j, min(east, g.NX-1), (1-y)*x)
	add(min(j+1, g.NY-1), i, y*(1-x))
	add(min(j+1, g.NY-1), min(east, g.NX-1), y*x)
	return points, weights, true
}

// between finds v among n ascending values: it lies a share of the way from value k to the
// next.
func between(n int, v float64, value func(k int) float64) (k int, share float64, ok bool) {
	if n == 0 || v < value(0)-1e-9 || v > value(n-1)+1e-9 {
		return 0, 0, false
	}
	for k = 0; k < n-2 && value(k+1) <= v; k++ {
	}
	if n == 1 {
		return 0, 0, true
	}
	return k, min(1, max(0, (v-value(k))/(value(k+1)-value(k)))), true
}

// angle is that between two places, in radians.
//
// Source: haversine formula.
func angle(lat1, lon1, lat2, lon2 float64) float64 {
	rad := math.Pi / 180
	a, b := math.Sin((lat2-lat1)*rad/2), math.Sin((lon2-lon1)*rad/2)
	return 2 * math.Asin(math.Sqrt(min(1, a*a+math.Cos(lat1*rad)*math.Cos(lat2*rad)*b*b)))
}

// reach is the largest distance from a point to one of those around it.
func reach(g *ensemble.Grid, point int) float64 {
	far, row, col := 0.0, point/g.NX, point%g.NX
	for _, j := range []int{max(0, row-1), row, min(g.NY-1, row+1)} {
		for _, i := range []int{max(0, col-1), col, min(g.NX-1, col+1)} {
			far = max(far, angle(g.LatAt(row, col), g.LonAt(row, col), g.LatAt(j, i), g.LonAt(j, i)))
		}
	}
	return far
}

// take interpolates a field to the stations. Missing: where a point with weight is.
func (s *sites) take(field []float32) []float32 {
	out := make([]float32, len(s.stations))
	for i := range out {
		sum := 0.0
		for k, p := range s.points[i] {
			sum += s.weights[i][k] * float64(field[p])
		}
		out[i] = float32(sum)
	}
	return out
}

// orography reads the height of a grid: geopotential at the surface, or a height in m.
//
// Errors: 65 and 66.
func orography(ctx context.Context, pool *decode.Pool, path string, grid *ensemble.Grid) (heights []float32, sum string, err error) {
	in, err := fio.Open(ctx, []string{path}, fio.Options{Pool: pool})
	if err != nil {
		return nil, "", err
	}
	defer in.Close()
	found := slices.IndexFunc(in.Catalogue().Entries, func(e ensemble.Entry) bool {
		return e.Level.Kind != ensemble.Pressure && slices.Contains(orographies, e.Variable) && (e.Unit == "m" || e.Unit == "m2 s-2")
	})
	if found < 0 {
		return nil, "", &exit.Error{Code: exit.BadData, What: "no height of the ground", At: path, Why: "it holds none of " + strings.Join(orographies, ", ") + " at the surface",
			Fix: "give a file with the geopotential or the height of the model's surface"}
	}
	e := in.Catalogue().Entries[found]
	if !e.Grid.SameAs(grid, gridTolerance) {
		return nil, "", gridsDiffer("the heights", e.Grid, "the forecasts", grid).on(e).err()
	}
	f, err := in.ReadOne(ctx, e)
	if err != nil {
		return nil, "", err
	}
	if e.Unit == "m2 s-2" {
		for i := range f.Values {
			f.Values[i] /= ensemble.StandardGravity
		}
	}
	sums, err := manifest.Sum(path)
	if err != nil {
		return nil, "", err
	}
	return f.Values, sums[0].SHA256, nil
}

// orographies are the names of heights of the ground.
var orographies = []string{"z", "orog", "gh", "h", "surface_altitude", "topography"}
