package scoring

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/postproc/gain"
	"github.com/ensemble-weather/ensemble/postproc/score"
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
	// Early are the members that the network saw at the last lead that it read, if that is before the target's.
	Early [][]float32
	// Earlier are the cases of the same start, variable and level at earlier target leads.
	Earlier []*Case
}

// Judgement is the scoring of one target.
type Judgement struct {
	Target    score.Target
	Grid      *ensemble.Grid
	DDOF      int
	Baselines *task.Baselines // nil: none
	Climate   *score.Climate
	Bootstrap score.Bootstrap
	Choice    Choice
	Inits     []ensemble.Init // of all cases, ascending
	Of        string          // whose cases they are, as score.Coupling has it
	Keep      bool            // what dates add, to be saved
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
	return Shape{c.Mean != nil, c.Spread != nil, c.Obs != nil, len(c.Used), len(c.Members), len(c.Calibrated), len(c.Earlier)}
}

// Scoring scores one target, case by case. Distributions are judged against the
// analyses, spreads against the full ensemble's; all systems on the same dates and
// points.
type Scoring struct {
	Judgement
	Shape
	distributions, spreads *score.Accumulator // nil for what cannot be judged
	Systems                [2][]score.System  // of both
	used                   []task.Baseline    // among the systems of distributions
	options                score.Options      // of distributions
	weights                []float64
	weightsName            string
	gains                  []datedGain // of the dates, if the gain can be split
	couplings              *couplings  // of systems that make members
	Kept                   []DateSums  // with judgement.keep
}

// DateSums are what one case adds to the distributions and the spreads of a scoring, and
// to the split of the network's gain.
type DateSums struct {
	Distribution, Spread *score.Date
	Gain                 *datedGain
	Coupled              []coupledDate
}

// datedGain is what one start adds to the split of a gain, over the whole area, over the regions
// and where the extreme forecast index is largest.
type datedGain struct {
	Init   ensemble.Init
	Sums   []gain.Sums
	CRPS   float64 // of the network, mean over points without weights
	Points int
}

// Begin starts the scoring of cases of a shape.
func (j Judgement) Begin(f Shape) (*Scoring, error) {
	s := &Scoring{Judgement: j, Shape: f}
	s.weights, s.weightsName = j.Choice.weights(j.Grid)
	area := score.Grid{Weights: s.weights, Name: s.weightsName, NX: j.Grid.NX, Periodic: j.Grid.Periodic()}
	if j.Grid.Kind == ensemble.Points {
		area.NX = 0 // neighbours in the list are not neighbours on the ground
	}
	chosen, err := j.Choice.options(j.Target.Variable, j.Grid)
	if err != nil {
		return nil, err
	}
	if f.Obs {
		s.couplings = newCouplings(j.Grid, j.Inits, j.Bootstrap)
		s.couplings.every = j.Keep
		s.Systems[0] = s.distributionSystems()
		s.options = s.ofClimate(chosen)
		o := &s.options
		if o.Scores == nil {
			o.Scores = score.Default
			if o.Climate > 0 {
				o.Scores = slices.Concat(o.Scores, score.OfClimate)
			}
			if f.Earlier > 0 {
				o.Scores = slices.Concat(o.Scores, score.OfLeads)
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
		if d.Coupled, err = s.couplings.sum(s, c); err != nil {
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
	if s.splits() {
		g := gain.Case{Init: c.Init, Members: c.Members, Obs: c.Obs, Mean: c.Mean, Spread: c.Sigma}
		if s.Family != nil {
			par := make([]float64, len(c.Parameters))
			g.Score = func(p int) float64 {
				return s.Family.CRPS(nil, model.ParameterFields(c.Parameters).At(par, p), float64(c.Obs[p]))
			}
			g.Expected = func(p int) float64 {
				if s.Family.HalfDistance == nil {
					return 0
				}
				return s.Family.HalfDistance(model.ParameterFields(c.Parameters).At(par, p))
			}
		}
		sums, err := s.Baselines.Gain.Score(&g, gain.Options{Weights: s.weights, Areas: s.areas(ref)})
		if err != nil {
			return d, err
		}
		d.Gain = &datedGain{Init: c.Init, Sums: sums}
		d.Gain.CRPS, d.Gain.Points = unweightedCRPS(&g)
	}
	return d, nil
}

// splits says whether the network's gain over all members can be split.
func (s *Scoring) splits() bool {
	return s.Mean && s.Obs && s.Baselines != nil && s.Baselines.Gain != nil && s.Baselines.Gain.Members == s.Full
}

func (s *Scoring) Join(d DateSums) error {
	if s.Keep {
		s.Kept = append(s.Kept, d)
	}
	if d.Gain != nil {
		s.gains = append(s.gains, *d.Gain)
	}
	if d.Distribution != nil {
		s.couplings.joinStart(d.Distribution.Init, d.Coupled)
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
						if own != theirs && own != score.CRPSPlain.ID && s.distributions.Has(SystemNetwork, own) && s.distributions.Has(other.Name, theirs) {
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
		if all.Coupling, err = s.couplings.result(s.Target, s.Of); err != nil {
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
	if len(s.gains) > 0 {
		if err := s.splitGains(all); err != nil {
			return nil, err
		}
	}
	all.Dates = s.dates()
	return all, nil
}

// earlier gives members at the leads before.
func (c Case) earlier(of func(c *Case) [][]float32) (out [][][]float32) {
	for _, e := range c.Earlier {
		out = append(out, of(e))
	}
	return out
}

// subset gives the fields of some members.
func subset(c Case, of []int) [][]float32 {
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
		network := score.System{Name: SystemNetwork, MembersUsed: s.Used, Gives: score.Mean | score.Spread, Family: s.Family}
		if s.Family != nil {
			network.Gives |= score.Parameters
		}
		systems = append(systems, network)
	}
	if s.Calibrated > 0 {
		systems = append(systems, score.System{Name: SystemMembers, MembersUsed: s.Calibrated, Gives: score.Members})
	}
	if s.Used > 1 {
		systems = append(systems, score.System{Name: SystemRaw(s.Used), MembersUsed: s.Used, Gives: score.Members})
	}
	if s.Full > s.Used {
		systems = append(systems, score.System{Name: SystemRaw(s.Full), MembersUsed: s.Full, Gives: score.Members})
	}
	for i := range systems { // baselines are fitted to one lead
		if s.Earlier > 0 && systems[i].Gives == score.Members {
			systems[i].Gives |= score.Leads
		}
	}
	if s.Baselines == nil {
		return systems
	}
	for _, b := range s.Baselines.Fits {
		y := score.System{Name: b.Method.ID, MembersUsed: s.Used}
		switch b.Method.Family {
		case nil:
			y.Gives = score.Members
		case dist.Normal:
			y.Gives = score.Mean | score.Spread
		default:
			y.Gives, y.Family = score.Parameters, b.Method.Family
		}
		if b.Method.Looks == baseline.AtNothing {
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
		samples = append(samples, score.Sample{Members: c.Calibrated, Earlier: c.earlier(func(c *Case) [][]float32 { return c.Calibrated })})
	}
	few := subset(c, c.Used)
	if s.Used > 1 {
		samples = append(samples, score.Sample{Members: few, Earlier: c.earlier(func(c *Case) [][]float32 { return subset(*c, c.Used) })})
	}
	if s.Full > s.Used {
		samples = append(samples, score.Sample{Members: c.Members, Earlier: c.earlier(func(c *Case) [][]float32 { return c.Members })})
	}
	for _, e := range c.Earlier {
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
		{Name: SystemNetwork, MembersUsed: s.Used, Gives: score.Spread},
		{Name: SystemRaw(s.Used), MembersUsed: s.Used, Gives: score.Spread},
	}
	if s.Baselines != nil && s.Baselines.Affine.B != 0 {
		systems = append(systems, score.System{Name: SystemAffine, MembersUsed: s.Used, Gives: score.Spread})
	}
	return systems
}

// sumSpreads sums one date of the systems of spreadSystems.
func (s *Scoring) sumSpreads(c Case) (score.Date, error) {
	_, few := MeanStd(subset(c, c.Used), s.DDOF)
	_, full := MeanStd(c.Members, s.DDOF)
	known := few // of which the full spread is estimated
	if c.Early != nil {
		_, known = MeanStd(c.Early, s.DDOF)
	}
	samples := []score.Sample{{Spread: c.Spread}, {Spread: few}}
	if len(s.Systems[1]) == 3 {
		affine := make([]float32, len(few))
		s.Baselines.Affine.Predict(affine, known)
		samples = append(samples, score.Sample{Spread: affine})
	}
	return s.spreads.Sum(c.Init, score.Reference{Obs: full, FullSpread: full}, samples)
}

// CRPSByStart is what each start adds to the CRPS of the network's distribution, or of the members that it gives, which is the fair one.
func (s *Scoring) CRPSByStart() map[ensemble.Init]score.Dated {
	out := map[ensemble.Init]score.Dated{}
	if s.distributions == nil {
		return out
	}
	for _, of := range [][2]string{{SystemNetwork, score.CRPSFamily.ID}, {SystemNetwork, score.CRPSGauss.ID}, {SystemMembers, score.CRPSFair.ID}} {
		if s.distributions.Has(of[0], of[1]) {
			for _, d := range s.distributions.Dated(of[0], of[1]) {
				out[d.Init] = d
			}
			break
		}
	}
	return out
}
