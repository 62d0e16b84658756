package scoring

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/postproc/score"
	"github.com/ensemble-weather/ensemble/postproc/significance"
)

// cells is a regular global grid.
func cells(nx, ny int) *ensemble.Grid {
	g := &ensemble.Grid{Kind: ensemble.RegularLatLon, NX: nx, NY: ny}
	for i := range nx {
		g.Lon = append(g.Lon, float64(i)*360/float64(nx))
	}
	for j := range ny {
		g.Lat = append(g.Lat, 90-(float64(j)+0.5)*180/float64(ny))
	}
	return g
}

// A thinned grid has at most the requested points, at the places of the points whose indices it returns, and stays a
// full circle where the columns allow it.
func TestThin(t *testing.T) {
	for _, c := range []struct {
		g        *ensemble.Grid
		most     int
		periodic bool
	}{{cells(64, 32), 4096, true}, {cells(64, 32), 600, true}, {cells(1440, 721), 16384, true}, {cells(7, 5), 9, false},
		{&ensemble.Grid{Kind: ensemble.Points, NX: 10, NY: 1, Lat: make([]float64, 10), Lon: make([]float64, 10)}, 4, false}} {
		step := thinningStep(c.g, c.most)
		thinned, points := thin(c.g, step)
		if thinned.Size() > c.most || thinned.Size() != len(points) || thinned.Periodic() != c.periodic {
			t.Errorf("%d by %d, at most %d: step %d, %d by %d, %d points, periodic %t", c.g.NX, c.g.NY, c.most, step, thinned.NX, thinned.NY, len(points), thinned.Periodic())
		}
		for k, p := range points {
			if thinned.LatAt(k/thinned.NX, k%thinned.NX) != c.g.LatAt(p/c.g.NX, p%c.g.NX) || thinned.LonAt(k/thinned.NX, k%thinned.NX) != c.g.LonAt(p/c.g.NX, p%c.g.NX) {
				t.Fatalf("point %d is not at that of the grid", k)
			}
		}
	}
}

// Scores by place agree with the scores over the whole area: their weighted mean is the difference of the CRPS, and
// points where the network is better on every date are significant.
func TestPlaceScores(t *testing.T) {
	g := cells(8, 4)
	var inits []ensemble.Init
	for k := range 20 {
		inits = append(inits, ensemble.InitAt(time.Date(2020, 1, 1+7*k, 0, 0, 0, 0, time.UTC)))
	}
	j := TargetOptions{Target: score.Target{Variable: "t", Level: ensemble.PressureLevel(850), Lead: ensemble.Lead(48 * time.Hour), Unit: "K"}, Grid: g, DDOF: 1, Inits: inits, MapStep: 1, EveryPoint: true,
		Bootstrap: significance.Bootstrap{Resamples: 50}}
	var s *Scoring
	for k, init := range inits {
		field := func(f func(p int) float64) []float32 {
			out := make([]float32, g.Size())
			for p := range out {
				out[p] = float32(f(p))
			}
			return out
		}
		noise := func(p, seed int) float64 { return rand.New(rand.NewPCG(uint64(1000*k+p), uint64(seed))).NormFloat64() }
		c := Case{Init: init, Used: []int{0, 1, 2}, Obs: field(func(p int) float64 { return noise(p, 0) }), Sigma: field(func(int) float64 { return 0.7 }),
			Mean: field(func(p int) float64 { return 0.2 * noise(p, 1) })}
		for m := range 5 {
			c.Members = append(c.Members, field(func(p int) float64 {
				if p%g.NX < 4 { // in the west the members are biased
					return 3 + noise(p, 2+m)
				}
				return noise(p, 2+m)
			}))
		}
		if s == nil {
			var err error
			s, err = j.Begin(shapeOf(c))
			runtest.Must(t, err)
		}
		sums, err := s.Sum(c)
		runtest.Must(t, err)
		runtest.Must(t, s.Join(sums))
	}
	r, err := s.Result()
	runtest.Must(t, err)
	found := s.MapScores()
	if found == nil || len(found.References) != 1 || found.References[0].System != "raw3" {
		t.Fatalf("%+v", found)
	}
	every := s.FieldScores()
	if len(every.References) != 2 || every.References[1].System != "raw5" {
		t.Fatalf("at every point %+v, want a comparison with each other system", every)
	}
	if !reflect.DeepEqual(every.References[0], found.References[0]) || !reflect.DeepEqual(every.CRPS, found.CRPS) {
		t.Errorf("at every point %+v, of maps with all points %+v", every, found)
	}
	places := found.References
	var sum, weight float64
	for p, w := range g.Weights() {
		sum, weight = sum+w*float64(places[0].Difference[p]), weight+w
		if west := p%g.NX < 4; west != (places[0].P[p] < 0.01 && places[0].Difference[p] < -1) {
			t.Errorf("point %d: difference %g, p %g", p, places[0].Difference[p], places[0].P[p])
		}
	}
	want := float64(r.Find(score.CRPSGauss.ID, SystemNetwork, "t", "850hPa", "48h").Value - r.Find(score.CRPSPlain.ID, "raw3", "t", "850hPa", "48h").Value)
	if got := sum / weight; math.Abs(got-want) > 1e-6 {
		t.Errorf("the differences have the mean %g, the scores %g", got, want)
	}
	sum = 0
	for p, w := range g.Weights() {
		sum += w * float64(every.References[1].CRPS[p])
	}
	if got, want := sum/weight, float64(r.Find(score.CRPSPlain.ID, "raw5", "t", "850hPa", "48h").Value); math.Abs(got-want) > 1e-6 {
		t.Errorf("the CRPS of raw5 at each point has the mean %g, the score %g", got, want)
	}
}

// Maps by place of all targets stay within their memory; small grids are not thinned, reduced ones have no maps.
func TestMapStep(t *testing.T) {
	for _, c := range []struct {
		g              *ensemble.Grid
		dates, targets int
		whole          bool
	}{{cells(64, 32), 51, 4, true}, {cells(64, 32), 51, 24, true}, {cells(240, 121), 365, 1, false}, {cells(240, 121), 365, 24, false}, {cells(1440, 721), 3650, 60, false}} {
		step := MapStep(c.g, c.dates, c.targets)
		_, points := thin(c.g, step)
		if bytes := 4 * 2 * len(points) * c.dates * c.targets; bytes > seriesBytes || len(points) > mapPoints || len(points) == 0 || (step == 1) != c.whole {
			t.Errorf("%d by %d, %d dates, %d targets: step %d, %d points, %d bytes", c.g.NX, c.g.NY, c.dates, c.targets, step, len(points), bytes)
		}
	}
	if step := MapStep(&ensemble.Grid{Kind: ensemble.ReducedGaussian, NX: 10, NY: 1, Rows: []int{4, 6}}, 5, 1); step != 0 {
		t.Errorf("step %d of a reduced grid", step)
	}
}
