package scoring

import (
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// placeScores collects the CRPS of the network minus that of reference systems at every date and point,
// for maps of the difference. Points of a large grid are thinned evenly, which bounds memory and time.
type placeScores struct {
	points     []int
	step       int           // of rows and columns
	references []int         // indices of the reference systems
	series     [][][]float32 // [reference][date][point]
}

// Limits of maps by place: points of a map, and bytes of all dates of a reference.
const (
	mapPoints   = 16384
	seriesBytes = 32 << 20
)

// placePoints is the largest number of points of a map by place of scores on some dates.
func placePoints(dates int) int { return min(mapPoints, max(1, seriesBytes/4/max(1, dates))) }

// localBaselines are the baselines that a map compares with, by preference.
var localBaselines = []string{"emos_grid", "emos_point", "emos"}

// newPlaces selects points and references: the input members, and a baseline. It is nil without any reference.
func (s *Scoring) newPlaces() *placeScores {
	p := &placeScores{}
	find := func(name string) int {
		return slices.IndexFunc(s.Systems[0], func(y score.System) bool { return y.Name == name })
	}
	for _, names := range [][]string{{SystemRaw(s.Used)}, localBaselines} {
		for _, name := range names {
			if at := find(name); at > 0 {
				p.references = append(p.references, at)
				break
			}
		}
	}
	if len(p.references) == 0 {
		return nil
	}
	p.step = thinningStep(s.Grid, placePoints(len(s.Inits)))
	_, p.points = thin(s.Grid, p.step)
	p.series = make([][][]float32, len(p.references))
	return p
}

// add adds the differences of one date.
//
// Missing: NaN where a system or the analysis is missing.
func (p *placeScores) add(systems []score.System, samples []score.Sample, obs []float32) {
	network := crpsAt(&systems[0], &samples[0], obs, p.points)
	for i, at := range p.references {
		d := crpsAt(&systems[at], &samples[at], obs, p.points)
		for k := range d {
			d[k] = network[k] - d[k]
		}
		p.series[i] = append(p.series[i], d)
	}
}

// crpsAt computes the CRPS of a system at some points: of its distribution, or plain CRPS of its members.
func crpsAt(y *score.System, s *score.Sample, obs []float32, points []int) []float32 {
	out := make([]float32, len(points))
	values := make([]float64, max(len(s.Members), len(s.Parameters)))
	for k, p := range points {
		o := float64(obs[p])
		var crps float64
		switch {
		case y.Family != nil && s.Parameters != nil:
			crps = y.Family.CRPS(nil, model.ParameterFields(s.Parameters).At(values, p), o)
		case s.Mean != nil:
			crps, _, _ = dist.NormalCRPS(float64(s.Mean[p]), float64(s.Spread[p]), o)
		default:
			for m, f := range s.Members {
				values[m] = float64(f[p])
			}
			crps = dist.KernelCRPS(values[:len(s.Members)], o, dist.Plain)
		}
		out[k] = float32(crps)
	}
	return out
}

// PlaceScore is the difference of the CRPS of the network and a reference system by place.
//
// Shape: [point of the thinned grid].
// Unit: of the variable; p-values have none.
type PlaceScore struct {
	Reference  string
	Difference []float32 // mean over the dates; negative: the network is better
	P          []float32 // two-sided p-value of equal scores
}

// placeScores returns the mean differences with their p-values (score.DieboldMarianoMap, with memory).
//
// Missing: dates without a value at a point do not count; NaN at points with fewer than three dates.
func (s *Scoring) placeScores() (out []PlaceScore) {
	if s.places == nil {
		return nil
	}
	for i, at := range s.places.references {
		if len(s.places.series[i]) == 0 {
			continue
		}
		n := len(s.places.points)
		found := PlaceScore{s.Systems[0][at].Name, make([]float32, n), make([]float32, n)}
		p := score.DieboldMarianoMap(s.places.series[i], 0)
		for k := range n {
			sum, dates := 0.0, 0
			for _, date := range s.places.series[i] {
				if v := float64(date[k]); !math.IsNaN(v) {
					sum += v
					dates++
				}
			}
			found.Difference[k], found.P[k] = float32(sum/float64(dates)), float32(p[k])
			if dates < 3 {
				found.Difference[k] = float32(math.NaN())
			}
		}
		out = append(out, found)
	}
	return out
}

// thinningStep is the smallest step of rows and columns that leaves at most the given number of points. On a full
// circle it divides the columns if possible, so that the thinned grid is a circle too.
func thinningStep(g *ensemble.Grid, most int) int {
	step := 1
	for (g.NX+step-1)/step*((g.NY+step-1)/step) > most {
		step++
	}
	for wide := step; g.Periodic() && wide <= 2*step; wide++ {
		if g.NX%wide == 0 {
			return wide
		}
	}
	return step
}

// thin returns a grid with every step-th row and column, and the indices of its points.
func thin(g *ensemble.Grid, step int) (*ensemble.Grid, []int) {
	out := &ensemble.Grid{Kind: g.Kind, NX: (g.NX + step - 1) / step, NY: (g.NY + step - 1) / step, Mapping: g.Mapping}
	var points []int
	for j := 0; j < g.NY; j += step {
		for i := 0; i < g.NX; i += step {
			points = append(points, j*g.NX+i)
		}
	}
	every := func(of []float64) (kept []float64) {
		for i := 0; i < len(of); i += step {
			kept = append(kept, of[i])
		}
		return kept
	}
	if g.Kind == ensemble.RegularLatLon || g.Kind == ensemble.RegularGaussian {
		out.Lat, out.Lon = every(g.Lat), every(g.Lon)
		return out, points
	}
	out.X, out.Y = every(g.X), every(g.Y)
	for _, p := range points {
		if len(g.Lat) == g.Size() {
			out.Lat, out.Lon = append(out.Lat, g.Lat[p]), append(out.Lon, g.Lon[p])
		}
	}
	return out, points
}
