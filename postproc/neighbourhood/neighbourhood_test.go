package neighbourhood

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// grids are one of each kind, small enough to look at all pairs of points.
func grids(t *testing.T) map[string]*ensemble.Grid {
	t.Helper()
	out := map[string]*ensemble.Grid{}
	for name, of := range map[string]string{"globe with poles": "10deg", "Gaussian": "F8", "area over the date line": "5deg@60/150/-20/-140", "pole cap": "5deg@90/0/70/355"} {
		g, err := ensemble.NamedGrid(of)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = g
	}
	reduced := &ensemble.Grid{Kind: ensemble.ReducedLatLon, NY: 1, Rows: []int{4, 12, 20, 24, 20, 12, 4}}
	for j, n := range reduced.Rows {
		for i := range n {
			reduced.Lat, reduced.Lon = append(reduced.Lat, 85-85*float64(j)/3), append(reduced.Lon, 360*float64(i)/float64(n))
		}
		reduced.NX += n
	}
	out["reduced"] = reduced
	// A polar stereographic plane with the pole among its points.
	plane := &ensemble.Grid{Kind: ensemble.Projected, NX: 13, NY: 11}
	for j := range plane.NY {
		plane.Y = append(plane.Y, 300e3*float64(5-j))
	}
	for i := range plane.NX {
		plane.X = append(plane.X, 250e3*float64(i-4))
	}
	for _, y := range plane.Y {
		for _, x := range plane.X {
			plane.Lat = append(plane.Lat, 90-2*math.Atan(math.Hypot(x, y)/(2*earthRadius))*180/math.Pi)
			plane.Lon = append(plane.Lon, math.Atan2(x, -y)*180/math.Pi)
		}
	}
	out["projected"] = plane
	places := &ensemble.Grid{Kind: ensemble.Points, NX: 40, NY: 1}
	r := rand.New(rand.NewPCG(3, 4))
	for range 40 {
		places.Lat, places.Lon = append(places.Lat, 180*r.Float64()-90), append(places.Lon, 720*r.Float64()-360)
	}
	out["places"] = places
	return out
}

// away is the distance of two points in metres by the haversine.
func away(g *ensemble.Grid, p, q int) float64 {
	const rad = math.Pi / 180
	a, b := g.LatAt(p/g.NX, p%g.NX)*rad, g.LatAt(q/g.NX, q%g.NX)*rad
	s, l := math.Sin((a-b)/2), math.Sin((g.LonAt(p/g.NX, p%g.NX)-g.LonAt(q/g.NX, q%g.NX))*rad/2)
	return 2 * earthRadius * math.Asin(math.Min(1, math.Sqrt(s*s+math.Cos(a)*math.Cos(b)*l*l)))
}

// On every kind of grid, a mean is that over all points within the radius.
func TestMeanOfAllPairs(t *testing.T) {
	for name, g := range grids(t) {
		for _, radius := range []float64{1, 401e3, 1307e3, 4013e3, 30000e3} {
			t.Run(fmt.Sprintf("%s, %g km", name, radius/1000), func(t *testing.T) {
				r := rand.New(rand.NewPCG(1, 2))
				fields := make([][]float32, 3)
				for f := range fields {
					fields[f] = make([]float32, g.Size())
					for p := range fields[f] {
						fields[f][p] = float32(r.Float64())
						if f == 1 && r.IntN(5) == 0 {
							fields[f][p] = float32(math.NaN())
						}
					}
				}
				d, err := New(g, radius)
				if err != nil {
					t.Fatal(err)
				}
				got, incomplete := d.Mean(fields...)
				w := g.Weights()
				lacking := 0
				for p := range w {
					lacks := false
					for f, x := range fields {
						var sum, weight float64
						for q := range w {
							if q != p && away(g, p, q) > radius {
								continue
							}
							if x[q] != x[q] {
								lacks = true
								continue
							}
							sum, weight = sum+w[q]*float64(x[q]), weight+w[q]
						}
						want := sum / weight
						if x[p] != x[p] {
							want = math.NaN()
						}
						if v := float64(got[f][p]); math.Abs(v-want) > 1e-6 || (v != v) != (want != want) {
							t.Fatalf("field %d at point %d: %g, want %g", f, p, v, want)
						}
					}
					if lacks {
						lacking++
					}
				}
				if incomplete != lacking {
					t.Errorf("%d points with missing ones around, want %d", incomplete, lacking)
				}
			})
		}
	}
}

// An event of one member at one point is anywhere for just the points around it; the mean of
// its probabilities is never more than that it happens anywhere.
func TestAnywhere(t *testing.T) {
	g, err := ensemble.NamedGrid("10deg")
	if err != nil {
		t.Fatal(err)
	}
	members := make([][]float32, 20)
	for m := range members {
		members[m] = make([]float32, g.Size())
	}
	const at = 4*36 + 35 // 50 N, 10 W
	members[11][at] = 1
	members[3][9*36] = float32(math.NaN())
	d, err := New(g, 1200e3)
	if err != nil {
		t.Fatal(err)
	}
	p, incomplete := d.MaximumProbability(members)
	for q := range p {
		want := float32(0)
		if away(g, at, q) <= 1200e3 {
			want = 1. / 20
		}
		if q == 9*36 {
			if p[q] == p[q] {
				t.Errorf("a missing point is %g", p[q])
			}
		} else if p[q] != want {
			t.Errorf("point %d: %g, want %g", q, p[q], want)
		}
	}
	if incomplete == 0 {
		t.Error("no point has a missing one around")
	}
	sum := make([]float32, g.Size())
	for _, x := range members {
		for q := range x {
			sum[q] += x[q] / 20
		}
	}
	mean, _ := d.Mean(sum)
	for q := range p {
		if mean[0][q] > p[q]+1e-6 {
			t.Errorf("point %d: the mean is %g, anywhere %g", q, mean[0][q], p[q])
		}
	}
}

func TestNewRefuses(t *testing.T) {
	g := &ensemble.Grid{Kind: ensemble.Points, NX: 1, NY: 1, Lat: []float64{0}, Lon: []float64{0}}
	for _, r := range []float64{0, -1, math.NaN()} {
		if _, err := New(g, r); err == nil {
			t.Errorf("a radius of %g is taken", r)
		}
	}
}

func ExampleDiscs_Mean() {
	g := &ensemble.Grid{Kind: ensemble.Points, NX: 3, NY: 1, Lat: []float64{0, 0, 0}, Lon: []float64{0, 0.1, 0.3}}
	d, err := New(g, 12e3) // a tenth of a degree is 11 km
	if err != nil {
		panic(err)
	}
	means, _ := d.Mean([]float32{0.2, 0.6, 1})
	fmt.Println(means[0])
	// Output: [0.4 0.4 1]
}

func ExampleDiscs_MaximumProbability() {
	g := &ensemble.Grid{Kind: ensemble.Points, NX: 3, NY: 1, Lat: []float64{0, 0, 0}, Lon: []float64{0, 0.1, 0.3}}
	d, err := New(g, 12e3)
	if err != nil {
		panic(err)
	}
	p, _ := d.MaximumProbability([][]float32{{1, 0, 0}, {0, 1, 0}, {0, 0, 0}, {0, 0, 1}}) // event by member and point
	fmt.Println(p)
	// Output: [0.5 0.5 0.25]
}
