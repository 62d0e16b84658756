package task

import (
	"fmt"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/team"
)

// Task defines the prediction problem of a model: the input fields and members, the predicted
// variables and leads, and the numbers that convert between physical fields and the network. It is
// fitted on the training dates and stored with the weights.
//
// A target is one variable at one lead and level. Per-target values are stored in the order
// [lead][variable][level], written as [V D] with V pairs of lead and variable and D levels.
type Task struct {
	Features ensemble.Features `json:"features"`
	// Targets [lead][variable] are predicted. Their variables are in Features.Axes.Variables. Their
	// leads are in Features.Axes.Leads or after the last of these.
	Targets     []Target          `json:"targets"`
	UsedMembers []ensemble.Member `json:"members"`                 // input members
	MinMembers  int               `json:"members_least,omitempty"` // smallest number of input members in training; 0 means all of UsedMembers
	FullMembers int               `json:"members_full"`            // number of members of the full ensemble

	// LeadWeights [V] are weights in the loss; nil means equal weights.
	LeadWeights []float64 `json:"-"`
	// TargetWeights [V D] is 1 for a requested target, and 0 for a level that is predicted only
	// because the network has it on its depth axis.
	TargetWeights []float64 `json:"target_weights"`
	// ErrorScale [V D] is the RMS error of the members' mean in training or, without analyses,
	// their RMS spread. It is the unit of the network's output.
	ErrorScale []float64 `json:"error_scale"`
	// SpreadScale [V D] is the mean spread of the full ensemble. SpreadAffine [V D] holds a₀ and a₁
	// of its linear regression a₀ + a₁ s on the spread s of the used members.
	SpreadScale  []float64    `json:"spread_scale"`
	SpreadAffine [][2]float64 `json:"spread_affine"`
	// SpreadRange is the largest spread of the full ensemble in units of SpreadScale: the dynamic
	// range L of SSIM losses.
	SpreadRange float64 `json:"spread_range"`
	// LargestError [V D] is the largest distance of the analysis from the members' mean in training;
	// nil without analyses. LargestSpread [V D] is the largest spread of the full ensemble. Forecasts
	// much farther from their ensemble are not published. Unit: SI.
	LargestError  []float64 `json:"largest_error,omitempty"`
	LargestSpread []float64 `json:"largest_spread"`
	// Centre and Width [V D][NY·NX] are mean and standard deviation of the members' mean, with
	// which its anomaly is standardised.
	Centre [][]float32 `json:"-"`
	Width  [][]float32 `json:"-"`
	// Edges [V D] are the edges of the bins of a histogram head, relative to the members' mean and
	// in units of the error scale; nil for other heads.
	Edges [][]float64 `json:"histogram_edges,omitempty"`

	trainedHorizon ensemble.Lead   // longest lead of the training, if a prediction reads fewer leads; else 0
	reference      *Reference      // forecast that the network corrects; nil for none
	extremeWeights *extremeWeights // weights of unusual forecasts in training; nil for none
}

// Statistics holds mean and standard deviation of the input members for one forecast and target.
//
// Shape: [point]. Unit: SI.
type Statistics struct{ Mean, Std []float32 }

// TargetAt returns the indices of target v on the lead and variable axes of the input. A target
// after the last input lead is predicted from that lead.
func (k *Task) TargetAt(v int) (lead, variable int) {
	leads := k.Features.Axes.Leads
	if lead = slices.Index(leads, k.Targets[v].Lead); lead < 0 {
		lead = len(leads) - 1
	}
	return lead, slices.Index(k.Features.Axes.Variables, k.Targets[v].Variable)
}

// TargetInForecast returns the indices of target v on the axes of a forecast that has all target
// leads.
func (k *Task) TargetInForecast(fc *ensemble.Forecast, v int) (lead, variable int) {
	_, variable = k.TargetAt(v)
	return slices.Index(fc.Axes.Leads, k.Targets[v].Lead), variable
}

// MemberPositions returns the positions of members on the axis of a forecast.
//
// Errors: a member that the forecast does not have.
func MemberPositions(fc *ensemble.Forecast, members []ensemble.Member) ([]int, error) {
	at, err := positionsOf(fc.Members, members)
	if err != nil {
		return nil, fmt.Errorf("forecast %s: %w", fc.Init, err)
	}
	return at, nil
}

// positionsOf returns the positions of members on an axis.
func positionsOf(axis, members []ensemble.Member) ([]int, error) {
	out := make([]int, len(members))
	for i, m := range members {
		if out[i] = slices.Index(axis, m); out[i] < 0 {
			return nil, fmt.Errorf("member %s not found", m)
		}
	}
	return out, nil
}

// AllMembers returns the positions of all members of a forecast.
func AllMembers(fc *ensemble.Forecast) []int {
	out := make([]int, len(fc.Members))
	for i := range out {
		out[i] = i
	}
	return out
}

// Indices of the sums over dates of one target, by grid point. The first four are those of the used
// members' mean (ensemble.PointSums). s is the spread of the used members, f that of all members.
const (
	sumCount = iota + 4 // dates with both spreads
	sumS
	sumF
	sumSS
	sumSF
	largestF
	sumErrors // dates with an analysis
	sumSquaredErrors
	largestError
	targetSums
)

// Sums holds sums over dates by grid point, from which a task is fitted. With several ranks
// each has the sums of its slab.
type Sums struct {
	k           *Task
	used        []int // positions of the used members
	features    *ensemble.FeatureSums
	targets     [][targetSums][]float64 // [target][sum][point]; nil before the first date
	levels      int
	hasAnalyses bool      // whether there were analyses
	Head        *HeadSums // of the network's head; nil if it needs none

	mean, std, all []float32
}

// NewSums returns empty sums. members are the members of the forecasts.
//
// Errors: a used member that the forecasts do not have.
func (k *Task) NewSums(members []ensemble.Member) (*Sums, error) {
	used, err := positionsOf(members, k.UsedMembers)
	return &Sums{k: k, used: used, features: k.Features.NewSums(used)}, err
}

// Add adds one initialisation of the training. Initialisations must be added in the order of their
// dates. analyses may be nil for a task that predicts spread only.
//
// Missing: points without forecast or analysis are not counted.
// Errors: a missing analysis.
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

// addTarget adds target v on level l of the forecast's axis.
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
			to[largestError][p] = max(to[largestError][p], math.Abs(d))
		}
	}
	return nil
}

// FitSums fits the task to the sums over the training dates: normalisation of the features, scales
// of errors and spreads, and maps of the anomaly. las has window and filter of local
// standardisation.
//
// With several ranks the sums are joined on the root rank, which alone fits. The result does not
// depend on the number of ranks, bit for bit.
//
// Errors: no training data; a variable without variation. All ranks join all sums before an error
// is returned, so that no rank waits.
func (k *Task) FitSums(s *Sums, kind ensemble.Standardisation, las ensemble.LASOptions, grid *ensemble.Grid, ranks *team.Team) error {
	if s.targets == nil {
		return fmt.Errorf("no training forecasts")
	}
	join := func(part []float64) ([]float64, error) { return team.GatherFields(ranks, part, 1) }
	bad := k.Features.FitSums(s.features, kind, las, grid, join) // returned at the end, as other ranks wait in join
	n := len(k.Targets) * len(k.Features.Axes.Levels)
	k.ErrorScale, k.SpreadScale, k.SpreadAffine = make([]float64, n), make([]float64, n), make([][2]float64, n)
	k.Centre, k.Width, k.LargestSpread = make([][]float32, n), make([][]float32, n), make([]float64, n)
	if s.hasAnalyses {
		k.LargestError = make([]float64, n)
	}
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

// fit fits target v on level l from sums over dates on the whole grid. All means are area-weighted.
//
// The spread regression is that of the full spread f on the used spread s:
//
//	slope = (⟨sf⟩ − ⟨s⟩⟨f⟩) / (⟨s²⟩ − ⟨s⟩²)     intercept = ⟨f⟩ − slope·⟨s⟩
//
// Errors: a scale or slope that is not positive and finite.
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
	k.SpreadScale[at], k.LargestSpread[at] = f/area, largest
	k.SpreadRange = max(k.SpreadRange, largest*area/f)
	slope := (sf/area - s*f/area/area) / (ss/area - s*s/area/area)
	k.SpreadAffine[at] = [2]float64{(f - slope*s) / area, slope}
	k.ErrorScale[at] = math.Sqrt(ss / area)
	if analyses {
		k.ErrorScale[at], k.LargestError[at] = math.Sqrt(total(sumSquaredErrors)/total(sumErrors)), slices.Max(of(largestError))
	}
	for name, x := range map[string]float64{"RMS error": k.ErrorScale[at], "mean spread": k.SpreadScale[at], "slope of spread": slope} {
		if !(x > 0) || math.IsInf(x, 0) {
			return fmt.Errorf("%s %s at %s: %s in the training data is %g, want a positive number", k.Targets[v].Variable, k.Features.Axes.Levels[l], k.Targets[v].Lead, name, x)
		}
	}
	maps, err := ensemble.PointSums{N: of(0), Sum: of(1), Sq: of(2), Pivot: of(3)}.LAS(grid, anomalyMaps(grid))
	if err != nil {
		return err
	}
	k.Centre[at], k.Width[at] = toFloat32(maps.Mean), toFloat32(maps.Scale)
	return nil
}

// anomalyMaps selects a window of seven points and a filter of about one point for the maps of the
// anomaly, so that they stay local. On smaller grids the window is smaller.
func anomalyMaps(g *ensemble.Grid) ensemble.LASOptions {
	return ensemble.LASOptions{Window: min(7, g.NX, g.NY), Smooth: 1}
}

// toFloat32 converts to float32, the type of network inputs.
func toFloat32(x []float64) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(v)
	}
	return y
}

// AnalysisField returns the analysis of target v on a level, for an initialisation.
//
// Errors: the analysis is missing, or lacks the variable or level.
func (k *Task) AnalysisField(analyses []*ensemble.Analysis, init ensemble.Init, v int, level ensemble.Level) ([]float32, error) {
	t := k.Targets[v]
	at := slices.IndexFunc(analyses, func(a *ensemble.Analysis) bool { return a.Valid == init.Valid(t.Lead) })
	if at < 0 {
		return nil, fmt.Errorf("initialisation %s: no analysis for lead %s", init, t.Lead)
	}
	a := analyses[at]
	i, l := slices.Index(a.Variables, t.Variable), slices.Index(a.Levels, level)
	if i < 0 || l < 0 {
		return nil, fmt.Errorf("analysis of %s: no %s at %s", a.Valid, t.Variable, level)
	}
	return a.Field(i, l), nil
}
