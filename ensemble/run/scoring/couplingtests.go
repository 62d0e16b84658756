package scoring

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/members"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
	couplingtest "github.com/ensemble-weather/ensemble/postproc/coupling"
	"github.com/ensemble-weather/ensemble/postproc/ecc"
	"github.com/ensemble-weather/ensemble/postproc/score"
	"github.com/ensemble-weather/ensemble/postproc/significance"
)

// Limits of the coupling tests. Every system that provides members is tested for coupling where it is scored:
// baselines by their forecasts, the network by running it again on subsets of its members. Points and dates
// of the tests are evenly spaced, so that tests cost little compared with scoring. Members of products are
// tested as they are, on all dates.
const (
	CouplingPoints = 4096
	couplingDates  = 32
)

// SystemMembers names the members sampled from the network's distribution, or output by the network.
const SystemMembers = "network_members"

// couplingDate is the contribution of one initialisation to the tests of a system. Leaks is negative if no
// perturbation was tried.
type couplingDate struct {
	System string
	Leaks  int // pairs of members where a perturbation of one changes the other
	couplingtest.Date
}

// couplingTests are the coupling tests of one target.
type couplingTests struct {
	places   []int // indices of the tested points
	options  couplingtest.Options
	inits    []ensemble.Init // tested, ascending
	joinable bool            // all initialisations are tested, for sums that are joined with others
	dates    map[string][]couplingDate
	order    []string // order of systems in results
}

// newCouplings returns tests for initialisations on a grid, ascending.
func newCouplings(g *ensemble.Grid, inits []ensemble.Init, b significance.Bootstrap) *couplingTests {
	c := &couplingTests{places: SparsePoints(g, CouplingPoints), inits: evenlySpaced(inits, couplingDates), dates: map[string][]couplingDate{}}
	weights := g.Weights()
	c.options.Bootstrap = b
	for _, p := range c.places {
		c.options.Weights = append(c.options.Weights, weights[p])
	}
	return c
}

// SparsePoints returns at most most points of a grid: every nth row and column.
func SparsePoints(g *ensemble.Grid, most int) []int {
	step := 1
	count := func(n int) int { return (n + step - 1) / step }
	for count(g.NX)*count(g.NY) > most {
		step++
	}
	var out []int
	for j := 0; j < g.NY; j += step {
		for i := 0; i < g.NX; i += step {
			out = append(out, j*g.NX+i)
		}
	}
	return out
}

// evenlySpaced returns at most the given number of items, evenly spaced, including the first.
func evenlySpaced[T any](all []T, most int) []T {
	if len(all) <= most {
		return all
	}
	out := make([]T, most)
	for i := range out {
		out[i] = all[i*len(all)/most]
	}
	return out
}

// isTested reports whether an initialisation is tested. first marks the one that is used for the test of leaks.
func (c *couplingTests) isTested(init ensemble.Init) (tested, first bool) {
	i := slices.Index(c.inits, init)
	return i >= 0 || c.joinable, i == 0
}

// sample takes the tested points of fields.
func (c *couplingTests) sample(fields [][]float32) [][]float32 {
	out := make([][]float32, len(fields))
	for i, f := range fields {
		out[i] = ensemble.Take(f, c.places)
	}
	return out
}

// sum tests one case: published members, for which members of other input are unavailable, and baselines.
func (c *couplingTests) sum(s *Scoring, x Case) (all []couplingDate, err error) {
	tested, first := c.isTested(x.Init)
	obs := ensemble.Take(x.Obs, c.places)
	if len(x.Calibrated) > 1 && s.Source == score.FromProducts {
		all = append(all, couplingDate{SystemMembers, -1, c.options.SumDate(couplingtest.Outputs{All: c.sample(x.Calibrated)}, obs)})
	}
	if !tested || s.Used < 2 {
		return all, nil
	}
	few := selectMembers(x, x.Used)
	for _, b := range s.used {
		if b.Method.Family != nil {
			continue
		}
		method := func(members [][]float32) ([][]float32, error) {
			raw := baseline.Raw{Valid: x.Init.Valid(s.Target.Lead).Time, Members: members}
			raw.Mean, raw.Std = MeanStd(members, 1)
			return b.Fit.Forecast(raw), nil
		}
		out, err := c.options.Calibrate(len(few), func(of []int) ([][]float32, error) {
			in := make([][]float32, len(of))
			for i, m := range of {
				in[i] = few[m]
			}
			y, err := method(in)
			return c.sample(y), err
		})
		if err != nil {
			return nil, err
		}
		d := couplingDate{b.Method.ID, -1, c.options.SumDate(out, obs)}
		if first {
			leaks, err := couplingtest.Jacobian(method, few, 1)
			if err != nil {
				return nil, err
			}
			d.Leaks = len(leaks)
		}
		all = append(all, d)
	}
	return all, nil
}

// check compares contributions with what is tested and with those that were joined.
func (c *couplingTests) check(dates []couplingDate) error {
	for _, d := range dates {
		if d.Members < 2 || len(d.Error) != len(c.places) || len(d.Sizes) == 0 {
			return fmt.Errorf("%s: a coupling test of %d members at %d points, want at least 2 at %d", d.System, d.Members, len(d.Error), len(c.places))
		}
		if joined := c.dates[d.System]; joined != nil && !joined[0].IsLike(d.Date) {
			return fmt.Errorf("%s: a coupling test of %d members, earlier dates have %d", d.System, d.Members, joined[0].Members)
		}
	}
	return nil
}

// joinStart adds the contribution of an initialisation: published members always, other systems if it is tested.
func (c *couplingTests) joinStart(init ensemble.Init, dates []couplingDate) {
	if !slices.Contains(c.inits, init) {
		dates = slices.DeleteFunc(slices.Clone(dates), func(d couplingDate) bool { return d.System != SystemMembers })
	}
	c.join(dates)
}

// join adds contributions in the order of dates.
func (c *couplingTests) join(dates []couplingDate) {
	for _, d := range dates {
		if c.dates[d.System] == nil {
			c.order = append(c.order, d.System)
		}
		c.dates[d.System] = append(c.dates[d.System], d)
	}
}

// result returns the tests of all systems for a target.
func (c *couplingTests) result(t score.Target, of string) (all []score.Coupling, err error) {
	for _, system := range c.order {
		dates := c.dates[system]
		if len(dates) < 2 {
			continue
		}
		own := make([]couplingtest.Date, len(dates))
		for i, d := range dates {
			own[i] = d.Date
		}
		o := c.options
		o.Bootstrap.BlockLength = min(o.Bootstrap.BlockLength, len(dates))
		table, err := couplingtest.NewTable(dates[0].Leaks, own, o)
		if err != nil {
			return nil, err
		}
		for _, r := range table {
			all = append(all, score.Coupling{Test: r.ID, InputMembers: r.Members, Text: r.String(), System: system,
				Variable: t.Variable, Level: t.Level.String(), Lead: t.Lead.String(), LeadH: t.Lead.Hours(),
				Value: score.Number(r.Value), CILow: score.Number(r.Low), CIHigh: score.Number(r.High), Expected: score.Number(r.Expected), Decided: r.Decided, Passed: r.Passed,
				Members: dates[0].Members, N: len(dates), DatesFrom: of})
		}
	}
	return all, nil
}

// testCoupling tests the members of a trained network on initialisations that it was not trained on: the
// members that it outputs, or the sample of its distribution that `predict` would publish by default. All
// ranks call it; rank 0 gets the result.
//
// Memory: CouplingPoints values of each member, target and initialisation.
// Cost: up to five predictions for each of couplingDates initialisations, and two per member of the first
// one.
func testCoupling(ctx context.Context, m *model.Model, test samples.Examples, o engine.Options, b significance.Bootstrap) ([]score.Coupling, error) {
	k := &m.Task
	if !testsCoupling(m, test) {
		return nil, nil
	}
	if m.Ranks != nil {
		ctx = context.WithoutCancel(ctx) // all ranks must take part
	}
	c := newCouplings(m.Grid, test.Inits, b)
	order := c.readingOrder(test)
	outputs := make([][]couplingtest.Outputs, len(k.TargetWeights)) // [target][date]
	for at := range outputs {
		outputs[at] = make([]couplingtest.Outputs, len(order))
	}
	leaks := make([]int, len(k.TargetWeights))
	obs := make([][][]float32, len(k.TargetWeights))
	// One subset after the other, as a network that reads members is compiled for each number.
	for _, part := range c.options.MemberSubsets(len(k.UsedMembers)) {
		if err := testPart(ctx, m, o, test, order, part, func(i int, fc *ensemble.Forecast, analyses []*ensemble.Analysis, made [][][]float32) error {
			for at, fields := range made {
				part.Store(&outputs[at][i], c.sample(fields))
			}
			if len(part.Members) < len(k.UsedMembers) {
				return nil
			}
			if i == 0 {
				if err := countLeaks(ctx, m, o, fc, made, leaks); err != nil {
					return err
				}
			}
			return addObservations(m, obs, fc.Init, analyses, c)
		}); err != nil {
			return nil, err
		}
	}
	if !m.Ranks.IsRoot() {
		return nil, nil
	}
	var all []score.Coupling
	for at := range k.TargetWeights {
		if k.TargetWeights[at] == 0 {
			continue
		}
		t := &couplingTests{places: c.places, options: c.options, dates: map[string][]couplingDate{}}
		for i, out := range outputs[at] {
			d := couplingDate{SystemMembers, -1, c.options.SumDate(out, obs[at][i])}
			if i == 0 {
				d.Leaks = leaks[at]
			}
			t.join([]couplingDate{d})
		}
		rows, err := t.result(targetOptions(m, at).Target, score.FromTraining)
		if err != nil {
			return nil, err
		}
		all = append(all, rows...)
	}
	return all, nil
}

// testsCoupling reports whether the members of a model can be tested on samples.
func testsCoupling(m *model.Model, test samples.Examples) bool {
	return hasMembers(m) && test.Analysed && len(m.Task.UsedMembers) >= 2 && len(test.Inits) >= 2
}

// readingOrder returns the positions of the tested initialisations among those of samples.
func (c *couplingTests) readingOrder(test samples.Examples) []int {
	order := make([]int, len(c.inits))
	for i, init := range c.inits {
		order[i] = slices.Index(test.Inits, init)
	}
	return order
}

// testPart makes members from a subset of the input members of some initialisations.
func testPart(ctx context.Context, m *model.Model, o engine.Options, test samples.Examples, order []int, part couplingtest.MemberSubset,
	take func(i int, fc *ensemble.Forecast, analyses []*ensemble.Analysis, made [][][]float32) error) error {
	members := make([]ensemble.Member, len(part.Members))
	for i, x := range part.Members {
		members[i] = m.Task.UsedMembers[x]
	}
	next := test.Stream(ctx, order)
	defer next.Close()
	for i := range order {
		fc, analyses, err := next.NextForecast()
		if err := m.Ranks.AgreeOnError(err); err != nil {
			return err
		}
		made, err := calibratedMembers(ctx, m, o, fc, members)
		if err != nil {
			return err
		}
		if err := take(i, fc, analyses, made); err != nil {
			return err
		}
	}
	return nil
}

// hasMembers reports whether the model's predictions have members.
func hasMembers(m *model.Model) bool {
	return m.Spec.Head.Distribution != nil || m.Spec.PredictsMembers()
}

// addObservations appends the analyses of the targets at the tested points, on rank 0.
func addObservations(m *model.Model, obs [][][]float32, init ensemble.Init, analyses []*ensemble.Analysis, c *couplingTests) error {
	k := &m.Task
	n := m.Grid.Size()
	for v := range k.Targets {
		var part []float32
		for _, l := range m.LocalTask().Features.Axes.Levels {
			field, err := k.AnalysisField(analyses, init, v, l)
			if err != nil {
				return err
			}
			part = append(part, field...)
		}
		whole, err := team.GatherFields(m.Ranks, part, 1)
		if err != nil {
			return err
		}
		for l := range k.Features.Axes.Levels {
			if at := v*len(k.Features.Axes.Levels) + l; whole != nil && k.TargetWeights[at] > 0 {
				obs[at] = append(obs[at], ensemble.Take(whole[l*n:(l+1)*n], c.places))
			}
		}
	}
	return nil
}

// calibratedMembers returns the members that the model makes from some members of a forecast, by target; nil
// for targets that are not scored, and on other ranks than 0.
//
// Shape: [target][member][point].
func calibratedMembers(ctx context.Context, m *model.Model, o engine.Options, fc *ensemble.Forecast, realisations []ensemble.Member) ([][][]float32, error) {
	k, n := &m.Task, m.Grid.Size()
	out, err := m.Predict(ctx, o, fc, realisations)
	if err != nil {
		return nil, err
	}
	raw, err := members.RawMembers(m, fc, realisations)
	if err != nil || !m.Ranks.IsRoot() {
		return nil, err
	}
	all := make([][][]float32, len(k.TargetWeights))
	for at := range all {
		if k.TargetWeights[at] == 0 {
			continue
		}
		if out.Members != nil {
			all[at] = out.TargetMembers(at, len(k.TargetWeights), n)
			continue
		}
		fields := make([][]float32, len(realisations))
		for i := range fields {
			fields[i] = raw[(i*len(k.TargetWeights)+at)*n:][:n]
		}
		if all[at], err = (&members.Coupling{}).Couple(ecc.Draws{}, fields, m.Family, out.ParametersAt(at, n, model.FullField)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// countLeaks counts the pairs of members for which a perturbation of one member's target fields changes the
// other. before are the members without perturbation.
func countLeaks(ctx context.Context, m *model.Model, o engine.Options, fc *ensemble.Forecast, before [][][]float32, leaks []int) error {
	k := m.LocalTask()
	used, err := task.MemberPositions(fc, k.UsedMembers)
	if err != nil {
		return err
	}
	changed := *fc // samples are read by others too
	changed.Values = slices.Clone(fc.Values)
	for j, member := range used {
		shift := func(by float32) {
			for v := range k.Targets {
				t, x := k.TargetAt(v)
				for l := range k.Features.Axes.Levels {
					to, from := changed.Field(t, member, x, l), fc.Field(t, member, x, l)
					for p := range to {
						to[p] = from[p] + by*float32(k.ErrorScale[v*len(k.Features.Axes.Levels)+l])
					}
				}
			}
		}
		shift(1)
		after, err := calibratedMembers(ctx, m, o, &changed, k.UsedMembers)
		shift(0)
		if err != nil {
			return err
		}
		for at := range after {
			for i := range after[at] {
				if i != j && !slices.EqualFunc(after[at][i], before[at][i], func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }) {
					leaks[at]++
				}
			}
		}
	}
	return nil
}
