package scoring

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/postproc/score"
	"github.com/ensemble-weather/ensemble/postproc/skill"
)

// Case is one date of one target, with everything that is to be judged on it.
//
// Shape: every field [NY*NX]; Members [member][NY*NX]. Mean, Sigma (the network's
// distribution) and Spread (its estimate of the full ensemble's spread) may be
// nil, as may Obs.
type Case struct {
	Init                ensemble.Init
	Obs                 []float32
	Members             [][]float32
	Used                []int // positions of the members that the network saw
	Mean, Sigma, Spread []float32
	Calibrated          [][]float32 // members that are published, or that the network gives
	// Parameters [parameter][NY*NX] are those of the network's distribution, if it is not normal.
	Parameters [][]float32
	// LastRead are the members that the network saw at the last lead that it read, if that is before the target's.
	LastRead [][]float32
	// EarlierLeads are the cases of the same start, variable and level at earlier target leads.
	EarlierLeads []*Case
}

// TargetOptions is the scoring of one target.
type TargetOptions struct {
	Target    score.Target
	Grid      *ensemble.Grid
	DDOF      int
	Baselines *task.Baselines // nil: none
	Climate   *score.Climate
	Bootstrap score.Bootstrap
	Selection Selection
	Inits     []ensemble.Init // of all cases, ascending
	Source    string          // whose cases they are, as score.Coupling has it
	KeepSums  bool            // what dates add, to be saved
	Family    *dist.Family    // of the network's distribution; nil for a normal one
}

// EqualWeights names weights that are all alike.
const EqualWeights = "equal"

// weightsName names the weights of a grid in results.
func weightsName(g *ensemble.Grid) string {
	if g.Kind == ensemble.RegularLatLon || g.Kind == ensemble.RegularGaussian {
		return "cos(latitude)"
	}
	return EqualWeights
}

// Shape is what the cases of one target have; all have the same.
type Shape struct {
	Mean, Spread, Obs bool // fields that are not nil
	Used, Full        int  // members
	Calibrated        int
	Earlier           int // leads of the same members
}

// shapeOf is the shape of a case.
func shapeOf(c Case) Shape {
	return Shape{c.Mean != nil, c.Spread != nil, c.Obs != nil, len(c.Used), len(c.Members), len(c.Calibrated), len(c.EarlierLeads)}
}

// Scoring scores one target, case by case. Distributions are judged against the
// analyses, spreads against the full ensemble's; all systems on the same dates and
// points.
type Scoring struct {
	TargetOptions
	Shape
	distributions, spreads *score.Accumulator // nil for what cannot be judged
	Systems                [2][]score.System  // of both
	used                   []task.Baseline    // among the systems of distributions
	options                score.Options      // of distributions
	weights                []float64
	weightsName            string
	reductions             []datedReduction // of the dates, if the gain can be split
	couplings              *couplingTests   // of systems that make members
	Saved                  []DateSums       // with judgement.keep
}

// DateSums are what one case adds to the distributions and the spreads of a scoring, and
// to the split of the network's gain.
type DateSums struct {
	Distribution, Spread *score.Date
	Reduction            *datedReduction
	Coupling             []couplingDate
}

// datedReduction is what one start adds to the split of a gain, over the whole area, over the regions
// and where the extreme forecast index is largest.
type datedReduction struct {
	Init   ensemble.Init
	Sums   []skill.Sums
	CRPS   float64 // of the network, mean over points without weights
	Points int
}

// Begin starts the scoring of cases of a shape.
func (j TargetOptions) Begin(f Shape) (*Scoring, error) {
	s := &Scoring{TargetOptions: j, Shape: f}
	s.weights, s.weightsName = j.Selection.weights(j.Grid)
	area := score.Grid{Weights: s.weights, Name: s.weightsName, NX: j.Grid.NX, Periodic: j.Grid.Periodic()}
	if j.Grid.Kind == ensemble.Points {
		area.NX = 0 // neighbours in the list are not neighbours on the ground
	}
	chosen, err := j.Selection.options(j.Target.Variable, j.Grid)
	if err != nil {
		return nil, err
	}
	if f.Obs {
		s.couplings = newCouplings(j.Grid, j.Inits, j.Bootstrap)
		s.couplings.joinable = j.KeepSums
		s.Systems[0] = s.distributionSystems()
		s.options = s.withClimate(chosen)
		o := &s.options
		if o.Scores == nil {
			o.Scores = score.Default
			if o.Climate > 0 {
				o.Scores = slices.Concat(o.Scores, score.DefaultForClimate)
			}
			if f.Earlier > 0 {
				o.Scores = slices.Concat(o.Scores, score.DefaultForLeads)
			}
		}
		if slices.Contains(o.Scores, score.CRPSGauss.ID) && slices.ContainsFunc(s.Systems[0], func(y score.System) bool { return y.Family != nil }) {
			o.Scores = append(slices.Clone(o.Scores), score.CRPSFamily.ID) // the same score of families that are not normal
		}
		if s.distributions, err = score.New(j.Target, area, s.Systems[0], *o); err != nil {
			return nil, err
		}
	}
	if f.Spread && f.Full > f.Used {
		s.Systems[1] = s.spreadSystems()
		// What such a system scores by itself would bear the name of the
		// distribution's score; only the distance to the full spread is computed.
		o := chosen
		o.Scores, o.FullSpread = []string{score.SpreadRMSE.ID}, true
		s.spreads, err = score.New(j.Target, area, s.Systems[1], o)
	}
	return s, err
}

// Sum gives what a case adds; join adds it, also if another rank summed it.
func (s *Scoring) Sum(c Case) (d DateSums, err error) {
	if shapeOf(c) != s.Shape {
		return d, fmt.Errorf("%s: the first start has %+v, start %s has %+v", s.Target.Variable, s.Shape, c.Init, shapeOf(c))
	}
	ref := s.reference(c)
	if s.distributions != nil {
		sums, err := s.sumDistributions(c, ref)
		if err != nil {
			return d, err
		}
		d.Distribution = &sums
		if d.Coupling, err = s.couplings.sum(s, c); err != nil {
			return d, err
		}
	}
	if s.spreads != nil {
		sums, err := s.sumSpreads(c)
		if err != nil {
			return d, err
		}
		d.Spread = &sums
	}
	if s.canSplit() {
		g := skill.Case{Init: c.Init, Members: c.Members, Obs: c.Obs, Mean: c.Mean, Spread: c.Sigma}
		if s.Family != nil {
			par := make([]float64, len(c.Parameters))
			g.Score = func(p int) float64 {
				return s.Family.CRPS(nil, model.ParameterFields(c.Parameters).At(par, p), float64(c.Obs[p]))
			}
			g.Expected = func(p int) float64 {
				if s.Family.HalfMeanDifference == nil {
					return 0
				}
				return s.Family.HalfMeanDifference(model.ParameterFields(c.Parameters).At(par, p))
			}
		}
		sums, err := s.Baselines.Reduction.Score(&g, skill.Options{Weights: s.weights, Areas: s.areas(ref)})
		if err != nil {
			return d, err
		}
		d.Reduction = &datedReduction{Init: c.Init, Sums: sums}
		d.Reduction.CRPS, d.Reduction.Points = unweightedCRPS(&g)
	}
	return d, nil
}

// canSplit says whether the network's gain over all members can be split.
func (s *Scoring) canSplit() bool {
	return s.Mean && s.Obs && s.Baselines != nil && s.Baselines.Reduction != nil && s.Baselines.Reduction.Members == s.Full
}

func (s *Scoring) Join(d DateSums) error {
	if s.KeepSums {
		s.Saved = append(s.Saved, d)
	}
	if d.Reduction != nil {
		s.reductions = append(s.reductions, *d.Reduction)
	}
	if d.Distribution != nil {
		s.couplings.joinStart(d.Distribution.Init, d.Coupling)
		if err := s.distributions.Join(*d.Distribution); err != nil {
			return err
		}
	}
	if d.Spread != nil {
		return s.spreads.Join(*d.Spread)
	}
	return nil
}

// Result gives the scores of all cases that were joined.
func (s *Scoring) Result() (*score.Result, error) {
	all := &score.Result{}
	if s.distributions != nil {
		var pairs []score.Pair
		if s.Mean {
			for _, other := range s.Systems[0][1:] {
				pairs = append(pairs, s.distributions.Pairs(SystemNetwork, other.Name)...)
				// The CRPS of members and of other families is comparable under another name.
				named := []string{score.CRPSGauss.ID, score.CRPSPlain.ID, score.CRPSFamily.ID}
				for _, own := range named {
					for _, theirs := range named {
						if own != theirs && own != score.CRPSPlain.ID && s.distributions.HasScore(SystemNetwork, own) && s.distributions.HasScore(other.Name, theirs) {
							pairs = append(pairs, score.Pair{ID: own, System: SystemNetwork, Reference: other.Name, ReferenceID: theirs})
						}
					}
				}
			}
		}
		r, err := s.distributions.Result(s.Bootstrap, pairs)
		if err != nil {
			return nil, err
		}
		all.Append(r)
		if all.Coupling, err = s.couplings.result(s.Target, s.Source); err != nil {
			return nil, err
		}
	}
	if s.spreads != nil {
		var pairs []score.Pair
		for _, other := range s.Systems[1][1:] {
			pairs = append(pairs, score.Pair{ID: score.SpreadRMSE.ID, System: SystemNetwork, Reference: other.Name})
		}
		r, err := s.spreads.Result(s.Bootstrap, pairs)
		if err != nil {
			return nil, err
		}
		all.Append(r)
	}
	if len(s.reductions) > 0 {
		if err := s.splitReductions(all); err != nil {
			return nil, err
		}
	}
	all.Dates = s.dateScores()
	return all, nil
}

// atEarlierLeads gives members at the leads before.
func (c Case) atEarlierLeads(of func(c *Case) [][]float32) (out [][][]float32) {
	for _, e := range c.EarlierLeads {
		out = append(out, of(e))
	}
	return out
}

// selectMembers gives the fields of some members.
func selectMembers(c Case, of []int) [][]float32 {
	out := make([][]float32, len(of))
	for i, m := range of {
		out[i] = c.Members[m]
	}
	return out
}

// MeanStd is the mean and standard deviation over fields.
func MeanStd(fields [][]float32, ddof int) (mean, std []float32) {
	mean, std = make([]float32, len(fields[0])), make([]float32, len(fields[0]))
	ensemble.MeanStd(mean, std, fields, ddof)
	return mean, std
}

// distributionSystems are the systems whose means and spreads, or members, are judged
// against analyses: the network first, if there is one.
func (s *Scoring) distributionSystems() (systems []score.System) {
	if s.Mean {
		network := score.System{Name: SystemNetwork, MembersUsed: s.Used, Provides: score.Mean | score.Spread, Family: s.Family}
		if s.Family != nil {
			network.Provides |= score.Parameters
		}
		systems = append(systems, network)
	}
	if s.Calibrated > 0 {
		systems = append(systems, score.System{Name: SystemMembers, MembersUsed: s.Calibrated, Provides: score.Members})
	}
	if s.Used > 1 {
		systems = append(systems, score.System{Name: SystemRaw(s.Used), MembersUsed: s.Used, Provides: score.Members})
	}
	if s.Full > s.Used {
		systems = append(systems, score.System{Name: SystemRaw(s.Full), MembersUsed: s.Full, Provides: score.Members})
	}
	for i := range systems { // baselines are fitted to one lead
		if s.Earlier > 0 && systems[i].Provides == score.Members {
			systems[i].Provides |= score.Leads
		}
	}
	if s.Baselines == nil {
		return systems
	}
	for _, b := range s.Baselines.Fits {
		y := score.System{Name: b.Method.ID, MembersUsed: s.Used}
		switch b.Method.Family {
		case nil:
			y.Provides = score.Members
		case dist.Normal:
			y.Provides = score.Mean | score.Spread
		default:
			y.Provides, y.Family = score.Parameters, b.Method.Family
		}
		if b.Method.Predictors == baseline.NoPredictors {
			y.MembersUsed = 0
		} else if s.Used < 2 {
			continue // it corrects members
		}
		s.used = append(s.used, b)
		systems = append(systems, y)
	}
	return systems
}

// sumDistributions sums one date of the systems of distributionSystems.
func (s *Scoring) sumDistributions(c Case, ref score.Reference) (score.Date, error) {
	var samples []score.Sample
	if s.Mean {
		samples = append(samples, score.Sample{Mean: c.Mean, Spread: c.Sigma, Parameters: c.Parameters})
	}
	if s.Calibrated > 0 {
		samples = append(samples, score.Sample{Members: c.Calibrated, Earlier: c.atEarlierLeads(func(c *Case) [][]float32 { return c.Calibrated })})
	}
	few := selectMembers(c, c.Used)
	if s.Used > 1 {
		samples = append(samples, score.Sample{Members: few, Earlier: c.atEarlierLeads(func(c *Case) [][]float32 { return selectMembers(*c, c.Used) })})
	}
	if s.Full > s.Used {
		samples = append(samples, score.Sample{Members: c.Members, Earlier: c.atEarlierLeads(func(c *Case) [][]float32 { return c.Members })})
	}
	for _, e := range c.EarlierLeads {
		ref.Earlier = append(ref.Earlier, e.Obs)
	}
	if len(s.used) > 0 {
		raw := baseline.Raw{Valid: c.Init.Valid(s.Target.Lead).Time, Members: few}
		if s.Used > 1 {
			raw.Mean, raw.Std = MeanStd(few, 1)
		}
		for _, b := range s.used {
			out := b.Fit.Forecast(raw)
			switch b.Method.Family {
			case nil:
				samples = append(samples, score.Sample{Members: out})
			case dist.Normal:
				samples = append(samples, score.Sample{Mean: out[0], Spread: out[1]})
			default:
				samples = append(samples, score.Sample{Parameters: out})
			}
		}
	}
	return s.distributions.Sum(c.Init, ref, samples)
}

// spreadSystems are the systems whose spread fields are judged against the spread of
// all members.
func (s *Scoring) spreadSystems() []score.System {
	systems := []score.System{
		{Name: SystemNetwork, MembersUsed: s.Used, Provides: score.Spread},
		{Name: SystemRaw(s.Used), MembersUsed: s.Used, Provides: score.Spread},
	}
	if s.Baselines != nil && s.Baselines.Affine.B != 0 {
		systems = append(systems, score.System{Name: SystemAffine, MembersUsed: s.Used, Provides: score.Spread})
	}
	return systems
}

// sumSpreads sums one date of the systems of spreadSystems.
func (s *Scoring) sumSpreads(c Case) (score.Date, error) {
	_, few := MeanStd(selectMembers(c, c.Used), s.DDOF)
	_, full := MeanStd(c.Members, s.DDOF)
	known := few // of which the full spread is estimated
	if c.LastRead != nil {
		_, known = MeanStd(c.LastRead, s.DDOF)
	}
	samples := []score.Sample{{Spread: c.Spread}, {Spread: few}}
	if len(s.Systems[1]) == 3 {
		affine := make([]float32, len(few))
		s.Baselines.Affine.Predict(affine, known)
		samples = append(samples, score.Sample{Spread: affine})
	}
	return s.spreads.Sum(c.Init, score.Reference{Obs: full, FullSpread: full}, samples)
}

// CRPSByInit is what each start adds to the CRPS of the network's distribution, or of the members that it gives, which is the fair one.
func (s *Scoring) CRPSByInit() map[ensemble.Init]score.WeightedSum {
	out := map[ensemble.Init]score.WeightedSum{}
	if s.distributions == nil {
		return out
	}
	for _, of := range [][2]string{{SystemNetwork, score.CRPSFamily.ID}, {SystemNetwork, score.CRPSGauss.ID}, {SystemMembers, score.CRPSFair.ID}} {
		if s.distributions.HasScore(of[0], of[1]) {
			for _, d := range s.distributions.WeightedSums(of[0], of[1]) {
				out[d.Init] = d
			}
			break
		}
	}
	return out
}
