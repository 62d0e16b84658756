package scoring

import (
	"fmt"
	"math"
	"runtime"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/postproc/score"
	"github.com/ensemble-weather/ensemble/postproc/significance"
	"golang.org/x/sync/errgroup"
)

// FieldFalseDiscoveries is the false discovery rate of scores by place: of the points called significant at most this
// share is wrong in the mean. Wilks recommends twice the level of a single test, here 5 %.
//
// Source: Wilks 2016, doi:10.1175/BAMS-D-15-00267.1.
const FieldFalseDiscoveries = 0.1

// Limits of maps by place: points of a map, and bytes of all dates, references and targets.
const (
	mapPoints   = 16384
	seriesBytes = 256 << 20
)

// MapStep is the step of rows and columns of maps by place, which bounds memory and time; 0 for grids that are neither
// rectangular nor a list of points.
func MapStep(g *ensemble.Grid, dates, targets int) int {
	if !g.Rectangular() && g.Kind != ensemble.Points {
		return 0
	}
	const references = 2
	return thinningStep(g, min(mapPoints, max(1, seriesBytes/4/references/max(1, dates)/max(1, targets))))
}

// localBaselines are the baselines that a map compares with, by preference.
var localBaselines = []string{"emos_grid", "emos_point", "emos"}

// PlaceDate is the contribution of one date to scores by place. A point that misses a value is NaN in all.
//
// Shape: [point]; References [reference][point].
type PlaceDate struct {
	CRPS       []float32   // of the first system: of its distribution, or plain of its members
	References [][]float32 // CRPS of the systems that it is compared with
	Error      []float32   // mean minus analysis
	Variance   []float32   // square of the spread
}

// placeSums are the sums of the scores by place of a target: of the first system, at some points, compared with some
// systems.
//
// Memory: 4 bytes for each date, point and reference, for the tests, and 36 + 8 references for each point.
type placeSums struct {
	points                []int
	references            []int // indices of the systems
	n                     []int32
	crps, err, square, sq []float64
	other                 [][]float64   // CRPS [reference][point]
	differences           [][][]float32 // CRPS minus that of the reference, [reference][date][point]
}

// newPlaceSums selects points, by the step of rows and columns, and references: of each list the first system that is
// scored.
func (s *Scoring) newPlaceSums(step int, lists ...[]string) *placeSums {
	p := &placeSums{}
	for _, names := range lists {
		for _, name := range names {
			if at := slices.IndexFunc(s.Systems[0], func(y score.System) bool { return y.Name == name }); at > 0 {
				p.references = append(p.references, at)
				break
			}
		}
	}
	_, p.points = thin(s.Grid, step)
	n := len(p.points)
	p.n = make([]int32, n)
	for _, x := range []*[]float64{&p.crps, &p.err, &p.square, &p.sq} {
		*x = make([]float64, n)
	}
	p.differences = make([][][]float32, len(p.references))
	for range p.references {
		p.other = append(p.other, make([]float64, n))
	}
	return p
}

// date computes the contribution of one date.
func (p *placeSums) date(systems []score.System, samples []score.Sample, obs []float32) PlaceDate {
	n := len(p.points)
	d := PlaceDate{CRPS: make([]float32, n), Error: make([]float32, n), Variance: make([]float32, n)}
	for range p.references {
		d.References = append(d.References, make([]float32, n))
	}
	mean, spread := samples[0].Mean, samples[0].Spread
	if mean == nil {
		mean, spread = MeanStd(samples[0].Members, 1)
	}
	var g errgroup.Group
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		g.Go(func() error {
			var at pointCRPS
			for k := w * n / workers; k < (w+1)*n/workers; k++ {
				q := p.points[k]
				d.CRPS[k] = at.of(&systems[0], &samples[0], obs, q)
				d.Error[k], d.Variance[k] = mean[q]-obs[q], spread[q]*spread[q]
				missing := d.CRPS[k] + d.Error[k] + d.Variance[k]
				for i, r := range p.references {
					d.References[i][k] = at.of(&systems[r], &samples[r], obs, q)
					missing += d.References[i][k]
				}
				if missing != missing {
					d.set(k, float32(math.NaN()))
				}
			}
			return nil
		})
	}
	_ = g.Wait() // the workers return no errors
	return d
}

// set sets all values of a point.
func (d *PlaceDate) set(k int, v float32) {
	d.CRPS[k], d.Error[k], d.Variance[k] = v, v, v
	for _, r := range d.References {
		r[k] = v
	}
}

// pointCRPS computes the CRPS at a point; it contains scratch.
type pointCRPS struct{ values []float64 }

// of is the CRPS of a system: of its distribution, or plain CRPS of its members.
func (x *pointCRPS) of(y *score.System, s *score.Sample, obs []float32, p int) float32 {
	if n := max(len(s.Members), len(s.Parameters)); len(x.values) < n {
		x.values = make([]float64, n)
	}
	o := float64(obs[p])
	var crps float64
	switch {
	case y.Family != nil && s.Parameters != nil:
		crps = y.Family.CRPS(nil, model.ParameterFields(s.Parameters).At(x.values[:len(s.Parameters)], p), o)
	case s.Mean != nil:
		crps, _, _ = dist.NormalCRPS(float64(s.Mean[p]), float64(s.Spread[p]), o)
	default:
		for m, f := range s.Members {
			x.values[m] = float64(f[p])
		}
		crps = dist.KernelCRPS(x.values[:len(s.Members)], o, dist.Plain)
	}
	return float32(crps)
}

// add adds the contribution of a date.
func (p *placeSums) add(d PlaceDate) {
	for i, r := range d.References {
		difference := make([]float32, len(r))
		for k, c := range d.CRPS {
			difference[k] = c - r[k]
		}
		p.differences[i] = append(p.differences[i], difference)
	}
	for k, c := range d.CRPS {
		if c != c {
			continue
		}
		p.n[k]++
		p.crps[k] += float64(c)
		p.err[k] += float64(d.Error[k])
		p.square[k] += float64(d.Error[k]) * float64(d.Error[k])
		p.sq[k] += float64(d.Variance[k])
		for i, r := range d.References {
			p.other[i][k] += float64(r[k])
		}
	}
}

// PlaceScores are the scores of the first system by place. Points without a date are NaN.
//
// Shape: [point]. Unit: of the variable; the spread-skill ratio has none.
type PlaceScores struct {
	System                        string
	N                             []int32 // dates
	CRPS, Bias, RMSE, SpreadSkill []float32
	References                    []PlaceReference
}

// PlaceReference compares the first system with another one by place.
//
// Shape: [point]. Unit: of the variable; p-values have none.
type PlaceReference struct {
	System     string
	CRPS       []float32
	Difference []float32 // mean CRPS of the first system minus that of the reference; negative: the first is better
	P          []float64 // two-sided p-value of equal scores (significance.DieboldMarianoMap, with memory); NaN with fewer than significance.MinDates dates; nil if no place has more
}

// NoTest states why there are no p-values; "" if there are.
func (r *PlaceReference) NoTest() string {
	if r.P != nil {
		return ""
	}
	return fmt.Sprintf("the difference is not tested, no place has %d dates", significance.MinDates)
}

// scores returns the scores of all dates.
func (p *placeSums) scores(systems []score.System) *PlaceScores {
	at := func(of func(k int, n float64) float64) []float32 {
		out := make([]float32, len(p.n))
		for k, n := range p.n {
			out[k] = float32(math.NaN())
			if n > 0 {
				out[k] = float32(of(k, float64(n)))
			}
		}
		return out
	}
	factor := 1.0 // of the spread-skill ratio
	if m := float64(systems[0].MembersUsed); systems[0].Provides&score.Members != 0 {
		factor = (m + 1) / m
	}
	out := &PlaceScores{System: systems[0].Name, N: p.n,
		CRPS:        at(func(k int, n float64) float64 { return p.crps[k] / n }),
		Bias:        at(func(k int, n float64) float64 { return p.err[k] / n }),
		RMSE:        at(func(k int, n float64) float64 { return math.Sqrt(p.square[k] / n) }),
		SpreadSkill: at(func(k int, _ float64) float64 { return math.Sqrt(factor * p.sq[k] / p.square[k]) })}
	for i, r := range p.references {
		reference := PlaceReference{System: systems[r].Name,
			CRPS:       at(func(k int, n float64) float64 { return p.other[i][k] / n }),
			Difference: at(func(k int, n float64) float64 { return (p.crps[k] - p.other[i][k]) / n })}
		if slices.Max(p.n) >= significance.MinDates {
			reference.P = significance.DieboldMarianoMap(p.differences[i], 0)
		}
		out.References = append(out.References, reference)
	}
	return out
}

// MapScores returns the scores by place for maps: at points of a thinned grid, compared with the input members and a
// baseline; nil without any of these.
func (s *Scoring) MapScores() *PlaceScores {
	if s.places == nil {
		return nil
	}
	return s.places.scores(s.Systems[0])
}

// FieldScores returns the scores at every point, compared with every raw ensemble and baseline; nil unless they were collected.
func (s *Scoring) FieldScores() *PlaceScores {
	if s.fields == nil {
		return nil
	}
	return s.fields.scores(s.Systems[0])
}

// beginPlaces starts the scores by place that the options request.
func (s *Scoring) beginPlaces() {
	if !s.Mean && s.Calibrated == 0 {
		return
	}
	if s.MapStep > 0 {
		if s.places = s.newPlaceSums(s.MapStep, []string{SystemRaw(s.Used)}, localBaselines); len(s.places.references) == 0 {
			s.places = nil
		}
	}
	if s.EveryPoint {
		var others [][]string
		for _, y := range s.Systems[0][1:] {
			if IsReference(y.Name) {
				others = append(others, []string{y.Name})
			}
		}
		s.fields = s.newPlaceSums(1, others...)
	}
}

// datePlaces computes the contributions of a date to scores by place.
func (s *Scoring) datePlaces(samples []score.Sample, obs []float32) (maps, fields *PlaceDate) {
	if s.places != nil {
		d := s.places.date(s.Systems[0], samples, obs)
		maps = &d
	}
	if s.fields != nil {
		d := s.fields.date(s.Systems[0], samples, obs)
		fields = &d
	}
	return maps, fields
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
