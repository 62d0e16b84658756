package scoring

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/postproc/neighbourhood"
	"github.com/ensemble-weather/ensemble/postproc/score"
	"github.com/ensemble-weather/ensemble/postproc/significance"
	"github.com/ensemble-weather/ensemble/postproc/skill"
)

// Case is one initialisation of one target, with all fields that are scored.
//
// Shape: fields [NY·NX]; Members and Calibrated [member][NY·NX]; Parameters [parameter][NY·NX].
// Missing: Mean, Sigma (of the network's distribution), Spread (its estimate of the full ensemble's spread)
// and Obs may be nil.
type Case struct {
	Init                ensemble.Init
	Obs                 []float32   // analysis
	Members             [][]float32 // raw members
	Used                []int       // positions of the network's input members
	Mean, Sigma, Spread []float32
	Calibrated          [][]float32 // published members, or output of the network
	// Parameters are those of the network's distribution if it is not normal.
	Parameters [][]float32
	// Published are the probabilities of exceedance and the quantiles of TargetOptions.Published.
	Published [][]float32
	// LastRead are the input members at the last lead that the network reads, if that is before the target's lead.
	LastRead [][]float32
	// EarlierLeads are the cases of the same initialisation, variable and level at earlier target leads.
	EarlierLeads []*Case
}

// TargetOptions configures the scoring of one target.
type TargetOptions struct {
	Target    score.Target
	Grid      *ensemble.Grid
	DDOF      int             // delta degrees of freedom of spreads
	Baselines *task.Baselines // nil: none
	Climate   *score.Climate  // quantiles; nil without
	Bootstrap significance.Bootstrap
	Selection Selection
	Inits     []ensemble.Init // initialisations of all cases, ascending
	Source    string          // origin of the cases, as score.Coupling names it
	KeepSums  bool            // keep the sums of each date, for saving
	Family    *dist.Family    // family of the network's distribution; nil: normal
	Published Published       // probabilities and quantiles among the products
	// MapStep and EveryPoint collect scores by place: for maps, at every MapStep-th row and column (0: none), and at
	// every point. Join is then called in the order of the dates.
	MapStep    int
	EveryPoint bool
}

// Published names the probabilities of exceedance and the quantiles that cases have, ascending.
type Published struct {
	Thresholds []float64 `json:"thresholds"` // in the unit of the variable
	Levels     []float64 `json:"levels"`     // probabilities of the quantiles
}

// EqualWeights names equal weights in results.
const EqualWeights = "equal"

// weightsName names the weights of a grid in results.
func weightsName(g *ensemble.Grid) string {
	if g.Kind == ensemble.RegularLatLon || g.Kind == ensemble.RegularGaussian {
		return "cos(latitude)"
	}
	return EqualWeights
}

// Shape is what the cases of one target contain; it is the same for all.
type Shape struct {
	Mean, Spread, Obs bool // fields that are not nil
	Used, Full        int  // numbers of members
	Calibrated        int  // number of calibrated members
	Earlier           int  // number of earlier leads of the same members
	PublishedFields   int  // number of published probabilities and quantiles
}

// shapeOf returns the shape of a case.
func shapeOf(c Case) Shape {
	return Shape{c.Mean != nil, c.Spread != nil, c.Obs != nil, len(c.Used), len(c.Members), len(c.Calibrated), len(c.EarlierLeads), len(c.Published)}
}

// Scoring scores one target case by case. Distributions are compared with analyses, spreads with the spread
// of the full ensemble, for all systems on the same dates and points. Skill scores are 1 − S/S(reference) of
// scores S averaged over dates and points.
type Scoring struct {
	TargetOptions
	Shape
	distributions, spreads *score.Accumulator // nil if not scored
	Systems                [2][]score.System  // systems with distributions, and with spreads
	used                   []task.Baseline    // baselines among the systems
	options                score.Options      // options of distributions
	weights                []float64
	weightsName            string
	reductions             []datedReduction // by date, if the reduction in CRPS can be split
	couplings              *couplingTests   // tests of systems with members
	Saved                  []DateSums       // with TargetOptions.KeepSums
	places, fields         *placeSums       // with TargetOptions.MapStep and EveryPoint; nil: none
}

// DateSums is the contribution of one case to distributions, spreads, the split of the reduction in CRPS,
// coupling tests, and scores by place, which files of sums do not contain.
type DateSums struct {
	Distribution, Spread *score.Date     // nil if not scored
	Reduction            *datedReduction // nil if not split
	Coupling             []couplingDate
	Map, Field           *PlaceDate // nil: none
}

// datedReduction is the contribution of one initialisation to the split of the reduction in CRPS: for the whole
// area, the regions, and where the EFI is largest.
type datedReduction struct {
	Init   ensemble.Init
	Sums   []skill.Sums
	CRPS   float64 // mean over points without weights, of the network
	Points int
}

// Begin starts the scoring of cases of a shape.
//
// Errors: exit 64 for a region without points.
func (j TargetOptions) Begin(f Shape) (*Scoring, error) {
	s := &Scoring{TargetOptions: j, Shape: f}
	s.weights, s.weightsName = j.Selection.weights(j.Grid)
	area := score.Grid{Weights: s.weights, Name: s.weightsName, NX: j.Grid.NX, Periodic: j.Grid.Periodic()}
	if j.Grid.Kind == ensemble.Points {
		area.NX = 0 // neighbours in a list of points are not neighbours in space
	}
	chosen, err := j.Selection.options(j.Target, j.Grid)
	if err != nil {
		return nil, err
	}
	if j.Selection.Radius > 0 && len(chosen.Thresholds) > 0 {
		discs, err := neighbourhood.New(j.Grid, j.Selection.Radius)
		if err != nil {
			return nil, err
		}
		area.Radius = j.Selection.Radius
		area.Neighbourhood = func(fields ...[]float32) [][]float32 {
			means, _ := discs.Mean(fields...)
			return means
		}
	}
	if f.Obs {
		s.couplings = newCouplings(j.Grid, j.Inits, j.Bootstrap)
		s.couplings.joinable = j.KeepSums
		s.options = s.withClimate(j.withPublished(chosen))
		o := &s.options
		s.Systems[0] = s.distributionSystems()
		if len(s.Systems[0]) == 0 {
			return nil, &exit.Error{Code: exit.BadData, What: "nothing to compare with the analysis", At: j.Target.Variable + " " + j.Target.Level.String(),
				Why: "the products have neither a mean nor a distribution, and no members were given", Fix: "give the members by --members, or products with a mean or a distribution"}
		}
		s.beginPlaces()
		if chosen.Scores == nil {
			o.Scores = slices.Concat(score.Default, o.Scores)
			if area.Neighbourhood != nil {
				o.Scores = append(o.Scores, score.FSS.ID, score.FSSUseful.ID)
			}
			if o.Climate > 0 {
				o.Scores = slices.Concat(o.Scores, score.DefaultForClimate)
			}
			if f.Earlier > 0 {
				o.Scores = slices.Concat(o.Scores, score.DefaultForLeads)
			}
		}
		if slices.Contains(o.Scores, score.CRPSGauss.ID) && slices.ContainsFunc(s.Systems[0], func(y score.System) bool { return y.Family != nil }) {
			o.Scores = append(slices.Clone(o.Scores), score.CRPSFamily.ID) // the corresponding score for other families
		}
		if s.distributions, err = score.New(j.Target, area, s.Systems[0], *o); err != nil {
			return nil, err
		}
	}
	if f.Spread && f.Full > f.Used {
		s.Systems[1] = s.spreadSystems()
		// The CRPS of a spread without mean would have the name of the
		// distribution's score; only the error of the spread is computed.
		o := chosen
		o.Scores, o.FullSpread = []string{score.SpreadRMSE.ID}, true
		s.spreads, err = score.New(j.Target, area, s.Systems[1], o)
	}
	return s, err
}

// Sum returns the contribution of a case. Join adds it; another rank may have computed it.
//
// Errors: exit 65 if the case has another shape than the first.
func (s *Scoring) Sum(c Case) (d DateSums, err error) {
	if shapeOf(c) != s.Shape {
		return d, fmt.Errorf("%s: the first initialisation has %+v, initialisation %s has %+v", s.Target.Variable, s.Shape, c.Init, shapeOf(c))
	}
	ref := s.reference(c)
	if s.distributions != nil {
		samples := s.distributionSamples(c, &ref)
		d.Map, d.Field = s.datePlaces(samples, c.Obs)
		sums, err := s.distributions.Sum(c.Init, ref, samples)
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
		g := skill.Case{Init: c.Init, Valid: c.Init.Valid(s.Target.Lead).Time, Members: c.Members, Obs: c.Obs, Mean: c.Mean, Spread: c.Sigma}
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

// canSplit reports whether the network's reduction in CRPS against the full ensemble can be split.
func (s *Scoring) canSplit() bool { return s.Mean && s.Obs && s.hasFull() }

// hasFull reports whether the full ensemble is given, with as many members as in the fits of baselines.
func (s *Scoring) hasFull() bool {
	return s.Baselines != nil && s.Baselines.Reduction != nil && s.Baselines.Reduction.Members == s.Full
}

// check compares the parts of a contribution with what is scored: a file of sums may state anything.
func (s *Scoring) check(d DateSums) error {
	bad := (d.Distribution != nil) != (s.distributions != nil) || (d.Spread != nil) != (s.spreads != nil) || (d.Reduction != nil) != s.canSplit()
	for _, x := range []*score.Date{d.Distribution, d.Spread} {
		bad = bad || x != nil && !x.Init.Equal(d.Init().Time)
	}
	if r := d.Reduction; r != nil && !bad {
		bad = !r.Init.Equal(d.Init().Time) || len(r.Sums) != len(s.areaNames()) ||
			slices.ContainsFunc(r.Sums, func(x skill.Sums) bool { return len(x) != skill.SumsLength })
	}
	if bad {
		return fmt.Errorf("%s %s: sums of other scores", s.Target.Variable, d.Init())
	}
	if s.couplings != nil {
		return s.couplings.check(d.Coupling)
	}
	return nil
}

// Join adds the contribution of a case.
//
// Errors: sums of other scores, systems or regions; a date that was added before.
func (s *Scoring) Join(d DateSums) error {
	if err := s.check(d); err != nil {
		return err
	}
	if s.places != nil && d.Map != nil {
		s.places.add(*d.Map)
	}
	if s.fields != nil && d.Field != nil {
		s.fields.add(*d.Field)
	}
	d.Map, d.Field = nil, nil
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

// EmptyDates counts the dates without any point that has a forecast and a reference.
func (s *Scoring) EmptyDates() (empty, all int) {
	if s.distributions == nil {
		return 0, 0
	}
	return s.distributions.EmptyDates()
}

// Result returns the scores of all cases that were joined.
func (s *Scoring) Result() (*score.Result, error) {
	all := &score.Result{}
	if s.distributions != nil {
		var pairs []score.Pair
		if s.Mean {
			for _, other := range s.Systems[0][1:] {
				pairs = append(pairs, s.distributions.Pairs(SystemNetwork, other.Name)...)
				// The CRPS of members and of other families has another ID.
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
	all.Dates, all.RegionDates = s.dateScores(), s.regionDates()
	return all, nil
}

// atEarlierLeads returns members at earlier leads.
func (c Case) atEarlierLeads(of func(c *Case) [][]float32) (out [][][]float32) {
	for _, e := range c.EarlierLeads {
		out = append(out, of(e))
	}
	return out
}

// selectMembers returns the fields of some members.
func selectMembers(c Case, of []int) [][]float32 {
	out := make([][]float32, len(of))
	for i, m := range of {
		out[i] = c.Members[m]
	}
	return out
}

// MeanStd returns mean and standard deviation over fields, with divisor len(fields) − ddof.
func MeanStd(fields [][]float32, ddof int) (mean, std []float32) {
	mean, std = make([]float32, len(fields[0])), make([]float32, len(fields[0]))
	ensemble.MeanStd(mean, std, fields, ddof)
	return mean, std
}

// distributionSystems returns the systems whose distributions, given by mean and spread or by members, are
// compared with analyses: the network first, if there is one.
func (s *Scoring) distributionSystems() (systems []score.System) {
	if s.Mean {
		network := score.System{Name: SystemNetwork, MembersUsed: s.Used, Provides: score.Mean | score.Spread, Family: s.Family}
		if s.Family != nil {
			network.Provides |= score.Parameters
		}
		network.Thresholds, network.Levels = s.publishedOptions()
		systems = append(systems, network)
		if len(network.Thresholds)+len(network.Levels) > 0 { // for comparison
			network.Name, network.Thresholds, network.Levels, network.PublishedOnly = SystemDistribution, nil, nil, true
			systems = append(systems, network)
		}
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
	for i := range systems { // each baseline is fitted to one lead
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
		switch {
		case b.Method.Predictors == baseline.NoPredictors:
			y.MembersUsed = 0
		case b.Method.Predictors == baseline.FullMomentPredictors:
			if !s.hasFull() {
				continue
			}
			y.MembersUsed = s.Full
		case s.Used < 2:
			continue // the method corrects members
		}
		s.used = append(s.used, b)
		systems = append(systems, y)
	}
	return systems
}

// distributionSamples returns what the distributionSystems forecast, and adds the analyses of earlier leads to the
// reference.
func (s *Scoring) distributionSamples(c Case, ref *score.Reference) (samples []score.Sample) {
	if s.Mean {
		distribution := score.Sample{Mean: c.Mean, Spread: c.Sigma, Parameters: c.Parameters}
		network := distribution
		thresholds, levels := s.publishedOptions()
		for i, t := range s.Published.Thresholds {
			if _, ok := matching(thresholds, t); ok {
				network.Exceedance = append(network.Exceedance, c.Published[i])
			}
		}
		for i, p := range s.Published.Levels {
			if slices.Contains(levels, p) {
				network.Quantiles = append(network.Quantiles, c.Published[len(s.Published.Thresholds)+i])
			}
		}
		samples = append(samples, network)
		if len(thresholds)+len(levels) > 0 {
			samples = append(samples, distribution)
		}
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
			from := raw
			if b.Method.Predictors == baseline.FullMomentPredictors {
				from.Mean, from.Std = MeanStd(c.Members, 1)
			}
			out := b.Fit.Forecast(from)
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
	return samples
}

// spreadSystems returns the systems whose spread is compared with the spread of all members.
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

// sumSpreads returns the contribution of one case to the scores of spreadSystems.
func (s *Scoring) sumSpreads(c Case) (score.Date, error) {
	_, few := MeanStd(selectMembers(c, c.Used), s.DDOF)
	_, full := MeanStd(c.Members, s.DDOF)
	known := few // the members from which the full spread is estimated
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

// CRPSByInit returns the contribution of each initialisation to the CRPS of the network's distribution in a region, or
// to the fair CRPS of its members.
func (s *Scoring) CRPSByInit(region string) map[ensemble.Init]score.WeightedSum {
	out := map[ensemble.Init]score.WeightedSum{}
	if s.distributions == nil {
		return out
	}
	for _, of := range [][2]string{{SystemNetwork, score.CRPSFamily.ID}, {SystemNetwork, score.CRPSGauss.ID}, {SystemMembers, score.CRPSFair.ID}} {
		if s.distributions.HasScore(of[0], of[1]) {
			for _, d := range s.distributions.WeightedSums(of[0], of[1], region) {
				out[d.Init] = d
			}
			break
		}
	}
	return out
}
