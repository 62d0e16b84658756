package ensemble

import (
	"math"
	"slices"
	"testing"
)

// N16, from the README of the global model's data: 85.7606 is the first.
func TestGaussianLatitudes(t *testing.T) {
	lat := GaussianLatitudes(32)
	if math.Abs(lat[0]-85.7605871) > 1e-6 || lat[31] != -lat[0] || math.Abs(lat[15]-2.76890301) > 1e-6 {
		t.Errorf("N16: %v %v %v", lat[0], lat[15], lat[31])
	}
}

// A reduced grid: an octahedral one in small, whose weights of a row add up to those of
// a regular grid's row.
func TestReducedGrid(t *testing.T) {
	rows := []int{20, 24, 28, 24, 20}
	lats := []float64{60, 30, 0, -30, -60}
	g := &Grid{Kind: ReducedLatLon, NY: 1, Rows: rows}
	for j, n := range rows {
		for i := range n {
			g.Lat, g.Lon = append(g.Lat, lats[j]), append(g.Lon, 360*float64(i)/float64(n))
		}
		g.NX += n
	}
	w := g.Weights()
	k := 0
	for j, n := range rows {
		sum := 0.0
		for range n {
			sum += w[k]
			k++
		}
		if want := 28 * math.Cos(lats[j]*math.Pi/180); math.Abs(sum-want) > 1e-12 {
			t.Errorf("row %d: weights of %g in all, want %g", j, sum, want)
		}
	}
	if g.Rectangular() || g.Periodic() {
		t.Error("a reduced grid is taken for a rectangle")
	}
	if lat, lon := g.LatAt(0, 20), g.LonAt(0, 21); lat != 30 || lon != 15 {
		t.Errorf("second row: %g N, then %g E", lat, lon)
	}
	part := g.Subgrid(Window{Rows: [2]int{0, 1}, Cols: [2]int{18, 22}})
	if got := part.Weights(); part.Kind != Points || !slices.Equal(got, w[18:22]) || !slices.Equal(part.Subgrid(Window{Rows: [2]int{0, 1}, Cols: [2]int{1, 3}}).Weights(), w[19:21]) {
		t.Errorf("a part is %s with weights %v, want %v", part.Kind, got, w[18:22])
	}
	other := *g
	other.Rows = []int{24, 20, 28, 24, 20}
	if g.SameAs(&other, 1e9) || !g.SameAs(&Grid{Kind: g.Kind, NX: g.NX, NY: 1, Rows: g.Rows, Lat: g.Lat, Lon: g.Lon}, 0) {
		t.Error("grids are not compared by their rows")
	}
	if s, want := g.String(), "reduced_ll 5 rows of 20 to 28 points, 116 points, 60 to -60 N"; s != want {
		t.Errorf("%q, want %q", s, want)
	}
}

func TestNamedGrid(t *testing.T) {
	for _, c := range []struct {
		name        string
		nx, ny      int
		first, last [2]float64
	}{
		{"1.5deg", 240, 121, [2]float64{90, 0}, [2]float64{-90, 358.5}},
		{"0.1deg", 3600, 1801, [2]float64{90, 0}, [2]float64{-90, 359.9}},
		{"360x180", 360, 180, [2]float64{89.5, 0}, [2]float64{-89.5, 359}},
		{"48x25", 48, 25, [2]float64{86.4, 0}, [2]float64{-86.4, 352.5}},
		{"F16", 64, 32, [2]float64{GaussianLatitudes(32)[0], 0}, [2]float64{-GaussianLatitudes(32)[0], 354.375}},
		{"0.5deg@72/-20/30/45", 131, 85, [2]float64{72, 340}, [2]float64{30, 405}},
		{"10deg@20/170/-20/-170", 3, 5, [2]float64{20, 170}, [2]float64{-20, 190}},
	} {
		g, err := NamedGrid(c.name)
		if err != nil {
			t.Error(err)
			continue
		}
		if g.NX != c.nx || g.NY != c.ny || g.Lat[0] != c.first[0] || g.Lon[0] != c.first[1] || g.Lat[g.NY-1] != c.last[0] || g.Lon[g.NX-1] != c.last[1] {
			t.Errorf("%s is %s", c.name, g)
		}
	}
	for _, name := range []string{"", "deg", "1", "0deg", "-1deg", "NaNdeg", "0.7deg", "F0", "Fx", "F9999", "1deg@1/2/3", "1deg@30/0/40/10", "1deg@90.5/0/0/10", "1deg@40/0/30/9.5", "F8@1/2/3/4", "0.001deg", "1deg@40/0/30/360", "1x5", "36x18@1/2/3/4", "99999x99999", "36x18x2", "-4x8"} {
		if g, err := NamedGrid(name); err == nil {
			t.Errorf("%q is %s", name, g)
		}
	}
}
