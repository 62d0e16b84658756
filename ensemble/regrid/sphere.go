package regrid

import (
	"math"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// rad is one degree in radians.
const rad = math.Pi / 180

// vector is a point in space, on the unit sphere for points of a grid.
type vector [3]float64

// unitVector returns the point at a latitude and longitude in degrees.
//
//	x = cos φ cos λ,   y = cos φ sin λ,   z = sin φ
func unitVector(lat, lon float64) vector {
	s, c := math.Sincos(lat * rad)
	sl, cl := math.Sincos(lon * rad)
	return vector{c * cl, c * sl, s}
}

// unitVectors returns the points of a grid.
func unitVectors(g *ensemble.Grid) []vector {
	out := make([]vector, 0, g.Size())
	forEachPoint(g, func(lat, lon float64) { out = append(out, unitVector(lat, lon)) })
	return out
}

func (a vector) minus(b vector) vector { return vector{a[0] - b[0], a[1] - b[1], a[2] - b[2]} }
func (a vector) plus(b vector) vector  { return vector{a[0] + b[0], a[1] + b[1], a[2] + b[2]} }
func (a vector) dot(b vector) float64  { return a[0]*b[0] + a[1]*b[1] + a[2]*b[2] }
func (a vector) cross(b vector) vector {
	return vector{a[1]*b[2] - a[2]*b[1], a[2]*b[0] - a[0]*b[2], a[0]*b[1] - a[1]*b[0]}
}
func (a vector) times(f float64) vector { return vector{f * a[0], f * a[1], f * a[2]} }
func (a vector) unit() vector           { return a.times(1 / math.Sqrt(a.dot(a))) }

// squaredChord returns the square of the chord between two points on the unit
// sphere. It is monotonic in the great-circle distance d:
//
//	4 sin²(d/2)
func (a vector) squaredChord(b vector) float64 { d := a.minus(b); return d.dot(d) }
