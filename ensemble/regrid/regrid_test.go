package regrid

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
)

func named(t testing.TB, name string) *ensemble.Grid {
	t.Helper()
	g, err := ensemble.NamedGrid(name)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// octahedral returns the octahedral reduced Gaussian grid O n.
func octahedral(n int) *ensemble.Grid {
	g := &ensemble.Grid{Kind: ensemble.ReducedGaussian, NY: 1}
	for j, lat := range ensemble.GaussianLatitudes(2 * n) {
		points := 20 + 4*min(j, 2*n-1-j)
		g.Rows = append(g.Rows, points)
		for i := range points {
			g.Lat, g.Lon = append(g.Lat, lat), append(g.Lon, 360*float64(i)/float64(points))
		}
	}
	g.NX = len(g.Lat)
	return g
}

// polar returns a polar stereographic grid around the North Pole, which is inside a
// cell.
func polar(n int, lowest float64) *ensemble.Grid {
	g := &ensemble.Grid{Kind: ensemble.Projected, NX: n, NY: n}
	reach := math.Tan((90 - lowest) / 2 * rad)
	for j := range n {
		for i := range n {
			x, y := reach*(2*float64(i)/float64(n-1)-1), reach*(1-2*float64(j)/float64(n-1))
			g.Lat = append(g.Lat, 90-2*math.Atan(math.Hypot(x, y))/rad)
			g.Lon = append(g.Lon, math.Mod(math.Atan2(x, -y)/rad+360, 360))
		}
	}
	return g
}

// turned returns a rotated grid with its pole at 40 N, as in limited-area models,
// across the date line.
func turned(nx, ny int) *ensemble.Grid {
	g := &ensemble.Grid{Kind: ensemble.Projected, NX: nx, NY: ny}
	s, c := math.Sincos(40 * rad)
	for j := range ny {
		for i := range nx {
			y, x := (20-40*float64(j)/float64(ny-1))*rad, (-25+50*float64(i)/float64(nx-1))*rad
			g.Lat = append(g.Lat, math.Asin(s*math.Sin(y)+c*math.Cos(y)*math.Cos(x))/rad)
			g.Lon = append(g.Lon, math.Mod(180+math.Atan2(math.Sin(x)*math.Cos(y), c*math.Sin(y)-s*math.Cos(y)*math.Cos(x))/rad+720, 360))
		}
	}
	return g
}

func weights(t testing.TB, from, to *ensemble.Grid, m Method) *Weights {
	t.Helper()
	w, err := New(from, to, Options{Method: m})
	if err != nil {
		t.Fatalf("%s from %s to %s: %v", m, from, to, err)
	}
	return w
}

// sampled evaluates a function of latitude and longitude in radians at the points
// of a grid.
func sampled(g *ensemble.Grid, f func(lat, lon float64) float64) []float64 {
	var out []float64
	forEachPoint(g, func(lat, lon float64) { out = append(out, f(lat*rad, lon*rad)) })
	return out
}

func interpolated(w *Weights, src []float64) []float64 {
	dst := make([]float64, w.NumTargets())
	Apply(w, dst, src)
	return dst
}

// A constant field stays constant wherever the source covers the target, and a
// global source covers every target.
func TestConstants(t *testing.T) {
	global := map[string]*ensemble.Grid{"lat-lon": named(t, "5deg"), "gaussian": named(t, "F16"), "octahedral": octahedral(12)}
	other := map[string]*ensemble.Grid{"polar": polar(20, 50), "turned": turned(30, 25), "area": named(t, "2deg@60/-20/30/30")}
	for _, m := range Methods {
		for _, sources := range []map[string]*ensemble.Grid{global, other} {
			for name, from := range sources {
				for _, to := range []*ensemble.Grid{named(t, "4.5deg"), octahedral(10), turned(12, 11)} {
					if m == Conservative && from.Kind == ensemble.Projected && to.Kind == ensemble.Projected {
						continue
					}
					w := weights(t, from, to, m)
					reached := 0
					for _, y := range interpolated(w, sampled(from, func(_, _ float64) float64 { return -3.25 })) {
						if y == y {
							reached++
							if math.Abs(y+3.25) > 1e-12 {
								t.Fatalf("%s from %s to %s: %v, want -3.25", m, name, to, y)
							}
						}
					}
					if global[name] != nil && reached != to.Size() || reached == 0 && to.Kind != ensemble.Projected {
						t.Errorf("%s from %s to %s: %d of %d points reached", m, name, to, reached, to.Size())
					}
					if reached != w.Covered() {
						t.Errorf("%s from %s to %s: %d points reached, Reached says %d", m, name, to, reached, w.Covered())
					}
				}
			}
		}
	}
}

// Bilinear interpolation is exact for fields that are bilinear in latitude and
// longitude, except near poles and where longitudes jump.
func TestBilinearFields(t *testing.T) {
	f := func(lat, lon float64) float64 { return 2 - 3*lat + lon + 0.5*lat*lon }
	for _, from := range []*ensemble.Grid{named(t, "2.5deg"), named(t, "F24"), octahedral(24)} {
		to := named(t, "1.7deg@51/10.2/-51/329.8")
		if from.Rows != nil {
			// rows with different numbers of points have no common product lat·lon
			f = func(lat, lon float64) float64 { return 2 - 3*lat + lon }
		}
		got := interpolated(weights(t, from, to, Bilinear), sampled(from, f))
		for i, want := range sampled(to, f) {
			if math.Abs(got[i]-want) > 1e-12 {
				t.Fatalf("from %s: %v, want %v", from, got[i], want)
			}
		}
	}
}

// Conservative interpolation preserves the integral over the sphere to rounding,
// for any field.
func TestConservation(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	integral := func(g *ensemble.Grid, x []float64) (sum float64) {
		c, err := gridCells(g)
		if err != nil {
			t.Fatal(err)
		}
		k := 0
		for j, s := range c.boxes.side {
			for i := range len(s) - 1 {
				sum += (s[i+1] - s[i]) * rad * (c.boxes.high[j] - c.boxes.low[j]) * x[k]
				k++
			}
		}
		return sum
	}
	grids := []*ensemble.Grid{named(t, "5deg"), named(t, "F16"), octahedral(12), named(t, "7.2deg")}
	for _, from := range grids {
		x := make([]float64, from.Size())
		for i := range x {
			x[i] = 270 + 30*r.NormFloat64()
		}
		want := integral(from, x)
		if sphere := integral(from, sampled(from, func(_, _ float64) float64 { return 1 })); math.Abs(sphere/(4*math.Pi)-1) > 1e-13 {
			t.Errorf("%s: cells of %v in all, the sphere has %v", from, sphere, 4*math.Pi)
		}
		for _, to := range grids {
			if got := integral(to, interpolated(weights(t, from, to, Conservative), x)); math.Abs(got/want-1) > 1e-12 {
				t.Errorf("from %s to %s: integral %v, want %v", from, to, got, want)
			}
		}
	}
}

// The overlaps of every projected cell sum to its area, also around the pole and
// across the date line.
func TestConservationOfPolygons(t *testing.T) {
	for name, from := range map[string]*ensemble.Grid{"polar": polar(21, 55), "polar, pole in a corner": polar(22, 55), "turned": turned(30, 25)} {
		for _, to := range []*ensemble.Grid{named(t, "3deg"), octahedral(20)} {
			w := weights(t, from, to, Conservative)
			c, err := gridCells(to)
			if err != nil {
				t.Fatal(err)
			}
			sums := make([]float64, from.Size())
			k := 0
			for j, s := range c.boxes.side {
				for i := range len(s) - 1 {
					area := (s[i+1] - s[i]) * (c.boxes.high[j] - c.boxes.low[j])
					for n := w.start[k]; n < w.start[k+1]; n++ {
						sums[w.column[n]] += w.weight[n] * area
					}
					k++
				}
			}
			all := 0.0
			for i, p := range polygonCells(from) {
				all += math.Abs(p.area())
				if want := math.Abs(p.area()); math.Abs(sums[i]/want-1) > 1e-12 {
					t.Fatalf("%s to %s: cell %d at %g N %g E has %v, its overlaps %v", name, to, i, from.Lat[i], from.Lon[i], want, sums[i])
				}
			}
			if name == "polar" { // circles inscribed in and circumscribed about the cap from 55 N
				if least, most := 360*(1-math.Sin(55*rad)), 360*(1-math.Sin(40*rad)); all < least || all > most {
					t.Errorf("%s: cells of %g in all, want %g to %g", name, all, least, most)
				}
			}
			// In the opposite direction: every cell is covered.
			back := weights(t, to, from, Conservative)
			for i := range back.NumTargets() {
				total := 0.0
				for _, x := range back.weight[back.start[i]:back.start[i+1]] {
					total += x
				}
				if math.Abs(total-1) > 1e-11 {
					t.Fatalf("%s to %s: cell %d is covered by %v", to, name, i, total)
				}
			}
		}
	}
}

// The error of smooth fields decreases with the square of the grid spacing for
// bilinear interpolation, linearly for the others. Source: fields 1 and 2 of Jones
// 1999: Y₂² and Y₃₂¹⁶.
func TestHarmonics(t *testing.T) {
	smooth := func(lat, lon float64) float64 { return 2 + math.Pow(math.Cos(lat), 2)*math.Cos(2*lon) }
	wavy := func(lat, lon float64) float64 { return 2 + math.Pow(math.Sin(2*lat), 16)*math.Cos(16*lon) }
	to := named(t, "F23") // no latitudes are those of the sources
	rms := func(f func(lat, lon float64) float64, from *ensemble.Grid, m Method) float64 {
		got, want, sum, n := interpolated(weights(t, from, to, m), sampled(from, f)), sampled(to, f), 0.0, 0.0
		for i := range got {
			if got[i] == got[i] {
				sum += (got[i] - want[i]) * (got[i] - want[i])
				n++
			}
		}
		return math.Sqrt(sum / n)
	}
	families := map[string]func(n int) *ensemble.Grid{
		"lat-lon":    func(n int) *ensemble.Grid { return named(t, fmt.Sprintf("%gdeg", 90/float64(n))) },
		"gaussian":   func(n int) *ensemble.Grid { return named(t, fmt.Sprintf("F%d", n)) },
		"octahedral": octahedral,
		"polar":      func(n int) *ensemble.Grid { return polar(2*n, 30) },
		"turned":     func(n int) *ensemble.Grid { return turned(n, n) },
	}
	for name, of := range families {
		for _, c := range []struct {
			m            Method
			field        string
			f            func(lat, lon float64) float64
			n            int
			most         float64 // at the finer resolution, in units of the field's amplitude 1
			order, least float64 // factor by which doubling the resolution reduces the error
		}{
			{Bilinear, "smooth", smooth, 20, 4e-3, 2, 1.7},
			{Bilinear, "wavy", wavy, 40, 5e-2, 2, 1.5},
			{Nearest, "smooth", smooth, 20, 4e-2, 1, 0.7},
		} {
			if name == "octahedral" { // the first row has 20 points for all n, so coarse grids have relatively more
				c.least -= 0.3
			}
			coarse, fine := rms(c.f, of(c.n), c.m), rms(c.f, of(2*c.n), c.m)
			if order := math.Log2(coarse / fine); order < c.least || fine > c.most {
				t.Errorf("%s from %s, %s field: errors %.2g and %.2g, order %.2f; want %g of order %g", c.m, name, c.field, coarse, fine, order, c.most, c.order)
			}
		}
		// The means of small source cells converge to those of a fixed target cell.
		if name == "polar" || name == "turned" {
			continue
		}
		exact := interpolated(weights(t, named(t, "1deg"), to, Conservative), sampled(named(t, "1deg"), smooth))
		var errors [2]float64
		for k, n := range []int{15, 30} {
			for i, y := range interpolated(weights(t, of(n), to, Conservative), sampled(of(n), smooth)) {
				errors[k] = max(errors[k], math.Abs(y-exact[i]))
			}
		}
		if order := math.Log2(errors[0] / errors[1]); order < 0.8 || errors[1] > 4e-2 {
			t.Errorf("conservative from %s: errors %.2g and %.2g, order %.2f", name, errors[0], errors[1], order)
		}
	}
}

// Poles, date line and Greenwich are ordinary points.
func TestSeams(t *testing.T) {
	from := named(t, "F8")
	places := &ensemble.Grid{Kind: ensemble.Points, NX: 5, NY: 1, Lat: []float64{90, -90, 10, 10, 10}, Lon: []float64{0, 123, 359.5, -0.5, 720 + 359.5}}
	f := func(lat, lon float64) float64 { return math.Cos(lat)*math.Cos(lon) + lat }
	got := interpolated(weights(t, from, places, Bilinear), sampled(from, f))
	// The mean of cos(λ) over the last row is 0, so the value at the pole depends
	// on its latitude only.
	if last := from.Lat[0] * rad; math.Abs(got[0]-last) > 1e-12 || math.Abs(got[1]+last) > 1e-12 {
		t.Errorf("poles have %v and %v, want ±%v", got[0], got[1], last)
	}
	if got[2] != got[3] || got[2] != got[4] || math.Abs(got[2]-f(10*rad, -0.5*rad)) > 0.02 {
		t.Errorf("west of Greenwich %v, %v and %v, want %v", got[2], got[3], got[4], f(10*rad, -0.5*rad))
	}
}

// Missing source values count by their weight.
func TestMissing(t *testing.T) {
	nan := math.NaN()
	from := &ensemble.Grid{Kind: ensemble.RegularLatLon, NX: 2, NY: 2, Lat: []float64{1, 0}, Lon: []float64{10, 11}}
	to := &ensemble.Grid{Kind: ensemble.Points, NX: 3, NY: 1, Lat: []float64{0.25, 0.75, 1}, Lon: []float64{10.25, 10.75, 10}}
	for _, c := range []struct {
		minValid float64
		src      []float64
		want     []float64
	}{
		{0.5, []float64{nan, nan, 4, 8}, []float64{5, nan, nan}}, // three quarters are valid, then one quarter
		{0.2, []float64{nan, nan, 4, 8}, []float64{5, 7, nan}},
		{0.8, []float64{nan, nan, 4, 8}, []float64{nan, nan, nan}},
		{0.9, []float64{3, nan, nan, nan}, []float64{nan, nan, 3}}, // a target at a source point depends on that point only
	} {
		w, err := New(from, to, Options{MinValid: c.minValid})
		if err != nil {
			t.Fatal(err)
		}
		for i, y := range interpolated(w, c.src) {
			if math.Abs(y-c.want[i]) > 1e-12 || (y == y) != (c.want[i] == c.want[i]) {
				t.Errorf("threshold %g, %v: target %d is %v, want %v", c.minValid, c.src, i, y, c.want[i])
			}
		}
	}
	// A target that source cells cover partly.
	area := named(t, "1deg@50/0/40/10")
	// cells from 8 to 11 and from 11 to 14
	half := &ensemble.Grid{Kind: ensemble.RegularLatLon, NX: 2, NY: 2, Lat: []float64{46, 44}, Lon: []float64{9.5, 12.5}}
	got := interpolated(weights(t, area, half, Conservative), sampled(area, func(_, _ float64) float64 { return 1 }))
	if got[0] != 1 || got[1] == got[1] {
		t.Errorf("covered by five sixths and by none: %v", got)
	}
}

func TestNearestIsTheNearest(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	from := octahedral(9)
	at := unitVectors(from)
	tr := newKDTree(at)
	for range 500 {
		p := unitVector(180*r.Float64()-90, 360*r.Float64())
		best := 0
		for k := range at {
			if p.squaredChord(at[k]) < p.squaredChord(at[best]) {
				best = k
			}
		}
		if k, _ := tr.nearest(p); k != best {
			t.Fatalf("point %d is found, %d is nearer", k, best)
		}
	}
	// Targets outside of an area are missing.
	far := &ensemble.Grid{Kind: ensemble.Points, NX: 3, NY: 1, Lat: []float64{50.4, 50.9, 45}, Lon: []float64{5, 5, 11}}
	got := interpolated(weights(t, named(t, "1deg@50/0/40/10"), far, Nearest), make([]float64, 121))
	if got[0] != 0 || got[1] == got[1] || got[2] == got[2] {
		t.Errorf("near, far and far: %v", got)
	}
}

func TestRestrict(t *testing.T) {
	from, to := octahedral(8), named(t, "10deg")
	w := weights(t, from, to, Bilinear)
	src := sampled(from, func(lat, lon float64) float64 { return lat * math.Cos(lon) })
	window := ensemble.Window{Rows: [2]int{3, 9}, Cols: [2]int{30, 36}}
	whole, part := interpolated(w, src), interpolated(w.Restrict(to, window), src)
	for i, y := range ensemble.CropField(whole, to, window) {
		if part[i] != y {
			t.Fatalf("point %d of the window: %v, want %v", i, part[i], y)
		}
	}
	if w.Restrict(to, ensemble.Window{}) != w {
		t.Error("the whole window is copied")
	}
}

func TestRefuses(t *testing.T) {
	places := &ensemble.Grid{Kind: ensemble.Points, NX: 2, NY: 1, Lat: []float64{1, 2}, Lon: []float64{3, 4}}
	row := named(t, "1deg@2/0/1/3").Subgrid(ensemble.Window{Rows: [2]int{0, 1}, Cols: [2]int{0, 4}})
	for _, c := range []struct {
		m        Method
		from, to *ensemble.Grid
	}{
		{Bilinear, places, named(t, "10deg")}, {Conservative, places, named(t, "10deg")}, {Conservative, named(t, "10deg"), places},
		{Conservative, polar(5, 60), turned(5, 5)}, {Conservative, row, named(t, "10deg")}, {"cubic", named(t, "10deg"), places},
	} {
		if _, err := New(c.from, c.to, Options{Method: c.m}); err == nil {
			t.Errorf("%s from %s to %s was accepted", c.m, c.from, c.to)
		}
	}
}

func BenchmarkBilinear(b *testing.B) {
	from, to := octahedral(64), named(b, "1deg")
	w := weights(b, from, to, Bilinear)
	src, dst := make([]float32, from.Size()), make([]float32, to.Size())
	b.SetBytes(int64(4 * (len(src) + len(dst))))
	for b.Loop() {
		Apply(w, dst, src)
	}
}
