package scoring

import (
	"context"
	"slices"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/postproc/score"
	"github.com/ensemble-weather/ensemble/postproc/significance"
)

// Evaluation configures [Evaluate]; the zero value scores the whole area only.
type Evaluation struct {
	Regions  []string // as of Selection
	Progress *progress.Reporter
	// Observe, if not nil, receives the departures of each forecast.
	Observe func(ensemble.Init, []model.Departure)
}

// Evaluate scores a model and its baselines on samples that it was not trained on, and returns the last one as a
// map example. All ranks predict; rank 0 collects and scores the complete fields of one initialisation after
// the other. Other ranks return nil.
//
// Errors: those of predictions and of reading samples; exit 64 for a region without points; ctx.Err().
func Evaluate(ctx context.Context, m *model.Model, test samples.Examples, o engine.Options, e Evaluation) (*score.Result, *MapExample, error) {
	show := e.Progress
	defer m.Close()
	k := &m.Task
	scorings := make([]*Scoring, len(k.TargetWeights)) // nil: the target is not scored
	var last *MapExample
	scored := 0
	for _, w := range k.TargetWeights {
		if w > 0 {
			scored++
		}
	}
	step := MapStep(m.Grid, len(test.Inits), scored)
	err := EachPrediction(ctx, m, "verify", test, o, show, func(i int, fc *ensemble.Forecast, out *model.Forecast, cases []*Case) error {
		if e.Observe != nil {
			e.Observe(fc.Init, out.Departures)
		}
		for at, c := range cases {
			if c == nil {
				continue
			}
			if scorings[at] == nil {
				j := targetOptions(m, at)
				j.Inits, j.Source, j.MapStep, j.Selection.Regions = test.Inits, score.FromTraining, step, e.Regions
				var err error
				if scorings[at], err = j.Begin(shapeOf(*c)); err != nil {
					return err
				}
			}
			sums, err := scorings[at].Sum(*c)
			if err != nil {
				return err
			}
			if err := scorings[at].Join(sums); err != nil {
				return err
			}
		}
		if i == len(test.Inits)-1 {
			last = newMapExample(m, fc, cases, step)
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	all := &score.Result{}
	task := show.Start("intervals of scores", int64(len(scorings)))
	defer task.Done()
	for i, s := range scorings {
		if s == nil {
			continue
		}
		task.Set(int64(i), "")
		if last != nil {
			last.AddPlaces(s)
		}
		r, err := s.Result()
		if err != nil {
			return nil, nil, err
		}
		all.Append(r)
	}
	task.Done()
	defer show.Start("test members", 0).Done()
	tested, err := testCoupling(uninterrupted(ctx, m), m, test, o, significance.Bootstrap{})
	if err != nil {
		return nil, nil, err
	}
	m.Coupling = tested
	if !m.Ranks.IsRoot() {
		return nil, nil, nil
	}
	all.Coupling = slices.Concat(m.Coupling, all.Coupling)
	return all, last, nil
}

// EvaluationOrders returns the orders in which Evaluate reads the test samples, one pass after the other; nil is by date.
func EvaluationOrders(m *model.Model, test samples.Examples) [][]int {
	if len(test.Inits) == 0 {
		return nil
	}
	orders := [][]int{nil}
	if !testsCoupling(m, test) {
		return orders
	}
	c := newCouplings(m.Grid, test.Inits, significance.Bootstrap{})
	for range c.options.MemberSubsets(len(m.Task.UsedMembers)) {
		orders = append(orders, c.readingOrder(test))
	}
	return orders
}

// uninterrupted returns a context without cancellation if ranks predict together: if one stopped, the others
// would wait forever.
func uninterrupted(ctx context.Context, m *model.Model) context.Context {
	if m.Ranks == nil {
		return ctx
	}
	return context.WithoutCancel(ctx)
}

// EachPrediction predicts all samples. All ranks that predict together call it. Rank 0 calls visit with each
// forecast, its prediction and its cases by target; cases of targets that are not scored are nil.
func EachPrediction(ctx context.Context, m *model.Model, name string, of samples.Examples, o engine.Options, show *progress.Reporter,
	visit func(i int, fc *ensemble.Forecast, out *model.Forecast, cases []*Case) error) error {
	task := show.Start(name, int64(len(of.Inits)))
	defer task.Done()
	next := of.Stream(ctx, nil)
	defer next.Close()
	for i := range of.Inits {
		fc, analyses, err := next.NextForecast()
		if err := m.Ranks.AgreeOnError(err); err != nil {
			return err
		}
		out, err := m.Predict(uninterrupted(ctx, m), o, fc, m.Task.UsedMembers)
		if err != nil {
			return err
		}
		cases, err := casesByTarget(m, fc, analyses, out)
		if err != nil {
			return err
		}
		if m.Ranks.IsRoot() {
			if err := visit(i, fc, out, cases); err != nil {
				return err
			}
		}
		task.Set(int64(i+1), "")
	}
	return nil
}

// casesByTarget returns the cases of a prediction by target; nil for targets that are not scored, and on other
// ranks than 0.
func casesByTarget(m *model.Model, fc *ensemble.Forecast, analyses []*ensemble.Analysis, out *model.Forecast) ([]*Case, error) {
	k, p, d := &m.Task, m.Grid.Size(), len(m.Task.Features.Axes.Levels)
	used, err := task.MemberPositions(fc, k.UsedMembers)
	if err != nil {
		return nil, err
	}
	cases := make([]*Case, len(k.TargetWeights))
	for v := range k.Targets {
		if !slices.Contains(k.TargetWeights[v*d:(v+1)*d], 1) {
			continue
		}
		// One field of each member, then those of an earlier lead if it is needed, and the analysis last.
		var part []float32
		t, x := k.TargetInForecast(fc, v)
		for mem := range fc.Members {
			for l := range fc.Axes.Levels {
				part = append(part, fc.Field(t, mem, x, l)...)
			}
		}
		fields := len(fc.Members)
		if early, _ := k.TargetAt(v); early != t {
			for _, mem := range used {
				for l := range fc.Axes.Levels {
					part = append(part, fc.Field(early, mem, x, l)...)
				}
			}
			fields += len(used)
		}
		first := fields // the analysis
		if analyses != nil {
			for _, level := range fc.Axes.Levels {
				obs, err := k.AnalysisField(analyses, fc.Init, v, level)
				if err != nil {
					return nil, err
				}
				part = append(part, obs...)
			}
			fields++
		}
		whole, err := team.GatherFields(m.Ranks, part, fields)
		if err != nil {
			return nil, err
		}
		if !m.Ranks.IsRoot() {
			continue
		}
		for l := range d {
			at := v*d + l
			if k.TargetWeights[at] == 0 {
				continue
			}
			of := func(i int) []float32 { return whole[(i*d+l)*p:][:p] }
			c := &Case{Init: fc.Init, Used: used}
			if out.Spread != nil {
				c.Spread = out.Spread[at*p : (at+1)*p]
			}
			if out.Members != nil {
				c.Calibrated = out.TargetMembers(at, len(k.TargetWeights), p)
			}
			for mem := range fc.Members {
				c.Members = append(c.Members, of(mem))
			}
			if out.Mean != nil {
				c.Mean, c.Sigma = out.Mean[at*p:(at+1)*p], out.Sigma[at*p:(at+1)*p]
				if out.Parameters != nil {
					c.Parameters = out.ParametersAt(at, p, model.FullField)
				}
			}
			for i := len(fc.Members); i < first; i++ {
				c.LastRead = append(c.LastRead, of(i))
			}
			if analyses != nil {
				c.Obs = of(first)
			}
			for other := at - len(k.TargetVariables())*d; other >= 0; other -= len(k.TargetVariables()) * d {
				c.EarlierLeads = append([]*Case{cases[other]}, c.EarlierLeads...)
			}
			cases[at] = c
		}
	}
	return cases, nil
}

// targetOptions returns the scoring options of one target of a model.
func targetOptions(m *model.Model, at int) TargetOptions {
	k, d := &m.Task, len(m.Task.Features.Axes.Levels)
	t := k.Targets[at/d]
	v, _ := ensemble.VariableNamed(t.Variable)
	j := TargetOptions{Target: score.Target{Variable: t.Variable, Level: k.Features.Axes.Levels[at%d].ForVariable(t.Variable), Lead: t.Lead, Unit: v.Unit},
		Grid: m.Grid, DDOF: k.Features.DDOF}
	if family := m.VariableFamily(t.Variable); m.IsNonNormal() && family != dist.Normal {
		j.Family = family
	}
	if len(m.Baselines) > at {
		j.Baselines = &m.Baselines[at]
	}
	j.Climate = m.Climate.Find(j.Target)
	if unit, own := m.Units[t.Variable]; own {
		j.Target.Unit = unit
	}
	return j
}
