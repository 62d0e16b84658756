package task

import (
	"fmt"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/team"
)

// Task is what a model is asked and how: which fields of which members go in,
// which statistics of which variables come out, and the numbers that turn one
// into the other. It is fitted on training dates and saved with the weights.
//
// A target is one variable at one lead and level. Targets are stored [lead][variable][level], V
// being the number of pairs of both former.
type Task struct {
	Features ensemble.Features `json:"features"`
	// Targets [lead][variable] are predicted; the variables are among Features.Axes.Variables, the leads
	// among Features.Axes.Leads or after the last of these.
	Targets     []Target          `json:"targets"`
	UsedMembers []ensemble.Member `json:"members"`                 // members whose trajectories are input
	MinMembers  int               `json:"members_least,omitempty"` // fewest members that are input in training; 0 means those used
	FullMembers int               `json:"members_full"`            // members of the full ensemble

	// LeadWeights [V] are weights in the loss; nil weights all alike.
	LeadWeights []float64 `json:"-"`
	// TargetWeights [V D] is 1 where a target was asked for, 0 where the network's depth
	// axis brings it along.
	TargetWeights []float64 `json:"target_weights"`
	// ErrorScale [V D] is the RMS error of the members' mean in training (without
	// analyses: the RMS spread), the unit in which the network thinks.
	ErrorScale []float64 `json:"error_scale"`
	// SpreadScale [V D] is the mean spread of the full ensemble, SpreadAffine
	// [V D] the best a₀ + a₁ s for it from the used members' spread s.
	SpreadScale  []float64    `json:"spread_scale"`
	SpreadAffine [][2]float64 `json:"spread_affine"`
	// SpreadRange is the largest full spread in units of its scale, the range of
	// values that similarity losses are told.
	SpreadRange float64 `json:"spread_range"`
	// Centre and Width [V D][NY*NX] standardise the members' mean to the anomaly
	// that the shift may depend on.
	Centre [][]float32 `json:"-"`
	Width  [][]float32 `json:"-"`
	// Edges [V D] are those of the bins of a histogram, differences from the members' mean in
	// units of the error scale; nil without.
	Edges [][]float64 `json:"histogram_edges,omitempty"`

	trainedHorizon ensemble.Lead   // the last lead of the training, where a prediction reads fewer
	reference      *Reference      // that the network corrects; nil for none
	extremeWeights *extremeWeights // weights of unusual forecasts in training; nil for none
}

// Statistics are the fields a task needs of one forecast and one target.
type Statistics struct{ Mean, Std []float32 }

// TargetAt gives the axis positions of target v in what the network sees. Of a target lead after all
// that it sees the last one stands for it.
func (k *Task) TargetAt(v int) (lead, variable int) {
	leads := k.Features.Axes.Leads
	if lead = slices.Index(leads, k.Targets[v].Lead); lead < 0 {
		lead = len(leads) - 1
	}
	return lead, slices.Index(k.Features.Axes.Variables, k.Targets[v].Variable)
}

// TargetInForecast gives the axis positions of target v in a forecast that has all target leads.
func (k *Task) TargetInForecast(fc *ensemble.Forecast, v int) (lead, variable int) {
	_, variable = k.TargetAt(v)
	return slices.Index(fc.Axes.Leads, k.Targets[v].Lead), variable
}

// MemberPositions finds members on the axis of a forecast.
func MemberPositions(fc *ensemble.Forecast, members []ensemble.Member) ([]int, error) {
	at, err := positionsOf(fc.Members, members)
	if err != nil {
		return nil, fmt.Errorf("forecast %s: %w", fc.Init, err)
	}
	return at, nil
}

// positionsOf finds members among those of an axis.
func positionsOf(axis, members []ensemble.Member) ([]int, error) {
	out := make([]int, len(members))
	for i, m := range members {
		if out[i] = slices.Index(axis, m); out[i] < 0 {
			return nil, fmt.Errorf("there is no member %s", m)
		}
	}
	return out, nil
}

func AllMembers(fc *ensemble.Forecast) []int {
	out := make([]int, len(fc.Members))
	for i := range out {
		out[i] = i
	}
	return out
}

// The sums over dates, by point, from which a target is fitted: those of the used
// members' mean as ensemble.PointSums, then these.
const (
	sumCount = iota + 4 // dates with both spreads: s of the used members, f of all
	sumS
	sumF
	sumSS
	sumSF
	largestF
	sumErrors // dates with an analysis
	sumSquaredErrors
	targetSums
)

// Sums are sums over dates by point, from which a task is fitted. Of several ranks each
// has those of its slab.
type Sums struct {
	k           *Task
	used        []int // positions of the used members
	features    *ensemble.FeatureSums
	targets     [][targetSums][]float64 // as targets are stored, of the forecasts; nil before the first
	levels      int
	hasAnalyses bool // whether there were analyses
	Head        *HeadSums

	mean, std, all []float32
}

// NewSums are those of no date. members are those of the forecasts.
func (k *Task) NewSums(members []ensemble.Member) (*Sums, error) {
	used, err := positionsOf(members, k.UsedMembers)
	return &Sums{k: k, used: used, features: k.Features.NewSums(used)}, err
}

// Add takes one start of the training; they come in the order of their dates. There may be no analyses
// for a task that predicts only spread.
func (s *Sums) Add(fc *ensemble.Forecast, analyses []*ensemble.Analysis) error {
	n := fc.Grid.Size()
	if s.targets == nil {
		s.levels = len(fc.Axes.Levels)
		s.mean, s.std, s.all = make([]float32, n), make([]float32, n), make([]float32, n)
		s.targets = make([][targetSums][]float64, len(s.k.Targets)*s.levels)
		for at := range s.targets {
			to := &s.targets[at]
			for i := sumCount; i < targetSums; i++ {
				to[i] = make([]float64, n)
			}
			m := ensemble.NewPointSums(fc.Grid)
			to[0], to[1], to[2], to[3] = m.N, m.Sum, m.Sq, m.Pivot
		}
	}
	s.features.Add(fc)
	for v := range s.k.Targets {
		for l := range s.levels {
			if err := s.addTarget(fc, analyses, v, l); err != nil {
				return err
			}
		}
	}
	return nil
}

// addTarget takes target v at level l of the forecasts.
func (s *Sums) addTarget(fc *ensemble.Forecast, analyses []*ensemble.Analysis, v, l int) error {
	k, to := s.k, &s.targets[v*s.levels+l]
	t, x := k.TargetAt(v)
	fc.MeanStd(s.mean, s.std, t, x, l, s.used, k.Features.DDOF)
	ensemble.PointSums{N: to[0], Sum: to[1], Sq: to[2], Pivot: to[3]}.Add(s.mean)
	t, x = k.TargetInForecast(fc, v)
	fc.MeanStd(s.all, s.all, t, x, l, AllMembers(fc), k.Features.DDOF)
	for p, std := range s.std {
		if s, f := float64(std), float64(s.all[p]); f == f {
			to[sumCount][p]++
			to[sumS][p] += s
			to[sumF][p] += f
			to[sumSS][p] += s * s
			to[sumSF][p] += s * f
			to[largestF][p] = max(to[largestF][p], f)
		}
	}
	if analyses == nil {
		return nil
	}
	s.hasAnalyses = true
	obs, err := k.AnalysisField(analyses, fc.Init, v, fc.Axes.Levels[l])
	if err != nil {
		return err
	}
	if s.Head != nil {
		s.Head.add(v*len(k.Features.Axes.Levels)+slices.Index(k.Features.Axes.Levels, fc.Axes.Levels[l]), obs, s.mean, fc.Grid.Weights(), fc.Init.Valid(k.Targets[v].Lead))
	}
	for p, y := range obs {
		if d := float64(y) - float64(s.mean[p]); d == d {
			to[sumErrors][p]++
			to[sumSquaredErrors][p] += d * d
		}
	}
	return nil
}

// FitSums estimates everything from the sums over the training dates. Window and filter of the
// maps of the anomaly are those of las. Of several ranks each has its slab of the grid; sums
// are joined on the leading rank, which alone fits, with the bits of one that has all.
func (k *Task) FitSums(s *Sums, kind ensemble.Standardisation, las ensemble.LASOptions, grid *ensemble.Grid, ranks *team.Team) error {
	if s.targets == nil {
		return fmt.Errorf("no training forecast")
	}
	join := func(part []float64) ([]float64, error) { return team.GatherFields(ranks, part, 1) }
	bad := k.Features.FitSums(s.features, kind, las, grid, join) // kept until all is joined, as others wait for it
	n := len(k.Targets) * len(k.Features.Axes.Levels)
	k.ErrorScale, k.SpreadScale, k.SpreadAffine = make([]float64, n), make([]float64, n), make([][2]float64, n)
	k.Centre, k.Width = make([][]float32, n), make([][]float32, n)
	for v := range k.Targets {
		var sums [targetSums][]float64
		for l := range s.levels {
			for i, x := range s.targets[v*s.levels+l] {
				sums[i] = append(sums[i], x...)
			}
		}
		for i := range sums {
			var err error
			if sums[i], err = join(sums[i]); err != nil {
				return err
			}
		}
		if sums[0] == nil {
			continue
		}
		for l := range k.Features.Axes.Levels {
			if err := k.fit(v, l, grid, func(i int) []float64 { return sums[i][l*grid.Size() : (l+1)*grid.Size()] }, s.hasAnalyses); err != nil && bad == nil {
				bad = err
			}
		}
	}
	return bad
}

// fit estimates what is known of target v at level l, from sums over dates of
// the whole grid.
func (k *Task) fit(v, l int, grid *ensemble.Grid, of func(i int) []float64, analyses bool) error {
	at := v*len(k.Features.Axes.Levels) + l
	w := grid.Weights()
	total := func(i int) (sum float64) {
		for p, x := range of(i) {
			sum += w[p] * x
		}
		return sum
	}
	area, s, f, ss, sf, largest := total(sumCount), total(sumS), total(sumF), total(sumSS), total(sumSF), slices.Max(of(largestF))
	k.SpreadScale[at] = f / area
	k.SpreadRange = max(k.SpreadRange, largest*area/f)
	slope := (sf/area - s*f/area/area) / (ss/area - s*s/area/area)
	k.SpreadAffine[at] = [2]float64{(f - slope*s) / area, slope}
	k.ErrorScale[at] = math.Sqrt(ss / area)
	if analyses {
		k.ErrorScale[at] = math.Sqrt(total(sumSquaredErrors) / total(sumErrors))
	}
	for name, x := range map[string]float64{"error": k.ErrorScale[at], "spread": k.SpreadScale[at], "slope of spread": slope} {
		if !(x > 0) || math.IsInf(x, 0) {
			return fmt.Errorf("%s %s at %s: the training data have a %s of %g", k.Targets[v].Variable, k.Features.Axes.Levels[l], k.Targets[v].Lead, name, x)
		}
	}
	maps, err := ensemble.PointSums{N: of(0), Sum: of(1), Sq: of(2), Pivot: of(3)}.LAS(grid, anomalyMaps(grid))
	if err != nil {
		return err
	}
	k.Centre[at], k.Width[at] = toFloat32(maps.Mean), toFloat32(maps.Scale)
	return nil
}

// anomalyMaps keeps the centre of the anomaly local: a window of seven points
// and a filter of about one, smaller where the grid is.
func anomalyMaps(g *ensemble.Grid) ensemble.LASOptions {
	return ensemble.LASOptions{Window: min(7, g.NX, g.NY), Smooth: 1}
}

func toFloat32(x []float64) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(v)
	}
	return y
}

// AnalysisField picks the field of target v at a level from the analyses of a start.
func (k *Task) AnalysisField(analyses []*ensemble.Analysis, init ensemble.Init, v int, level ensemble.Level) ([]float32, error) {
	t := k.Targets[v]
	at := slices.IndexFunc(analyses, func(a *ensemble.Analysis) bool { return a.Valid == init.Valid(t.Lead) })
	if at < 0 {
		return nil, fmt.Errorf("start %s has no analysis of lead %s", init, t.Lead)
	}
	a := analyses[at]
	i, l := slices.Index(a.Variables, t.Variable), slices.Index(a.Levels, level)
	if i < 0 || l < 0 {
		return nil, fmt.Errorf("analysis of %s has no %s at %s", a.Valid, t.Variable, level)
	}
	return a.Field(i, l), nil
}
