package predict

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/members"
	"github.com/ensemble-weather/ensemble/ensemble/run/promote"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/product"
)

// What a policy does where a network cannot be trusted.
const (
	ThenFallBack = "fall_back"
	ThenRefuse   = "refuse"
)

// trust is whether the network forecasts a start, and what speaks against it.
type trust struct {
	fallsBack bool
	doubts    []string
	input     *product.InputDrift // nil where it is not known
}

// lost says that the network failed.
func (t *trust) lost(err error) {
	t.fallsBack = true
	t.doubts = append(t.doubts, "the network failed: "+exit.OneLine(err))
}

// loadModel loads the model, what it knows of the training's input, and what stands in for its network.
//
// Errors: exit 64 if the policy falls back and the model has nothing to fall back on.
func (p *prediction) loadModel(dir string) (err error) {
	policy := p.o.Policy
	if p.model, err = model.Load(dir, p.ranks == nil); err != nil {
		if !p.survives(err) {
			return err
		}
		var broken error
		if p.model, _, broken = model.LoadReference(dir); broken != nil {
			return err
		}
		p.unopened = err
	}
	if p.model.Drift, err = p.model.LoadDrift(dir); err != nil {
		return err
	}
	if policy.Drift.OnDrift == ThenRefuse && p.model.Drift == nil {
		return &exit.Error{Code: exit.Usage, What: "drift.on_drift is refuse, and the model does not know the input of its training", At: dir,
			Why: "it was trained on too few starts", Fix: "train again, or leave drift.on_drift out"}
	}
	if policy.Drift.OnDrift == ThenFallBack && p.model.Drift == nil {
		p.standing = append(p.standing, "drift.on_drift is fall_back, and the model does not know the input of its training: nothing is noticed; train again")
	}
	p.hearAlarms()
	if !policy.FallsBack() {
		return nil
	}
	if p.rung = p.model.FallBacks(policy.FallBack); p.rung == "" {
		return &exit.Error{Code: exit.Usage, What: "the model has nothing to fall back on", At: "fall_back", Why: "it has none of " + strings.Join(policy.FallBack, ", ") + " for all its targets, in the form of its products",
			Fix: "name baselines that it was trained with, or raw; or set warn or refuse in place of fall_back"}
	}
	return nil
}

// agree lets ranks that predict together all do without the network if one of them cannot read it.
func (p *prediction) agree() error {
	if p.ranks == nil {
		return nil
	}
	_, err := team.Tell(p.ranks, team.Outcome[bool]{}, p.unopened)
	if err != nil && !p.survives(err) {
		return err
	}
	p.unopened = err
	return nil
}

// chosen is what is published of a start, by the network or by what stands in for it.
func (p *prediction) chosen(t *trust) *choice {
	if t.fallsBack {
		return p.choice.standingIn()
	}
	return p.choice
}

// hearAlarms has the file of alarms be read before the next start that is predicted, and not before each that follows.
func (p *prediction) hearAlarms() {
	p.alarmed = sync.OnceValues(func() (string, error) {
		sum, err := p.modelSum()
		if err != nil || p.o.Policy.Alarms.File == "" {
			return "", err
		}
		return promote.AlarmsOf(string(p.o.Policy.Alarms.File), sum)
	})
}

// survives says whether the policy goes on without the network after an error of it.
func (p *prediction) survives(err error) bool {
	return p.o.Policy.OnFailure == ThenFallBack && slices.Contains([]exit.Code{exit.Bug, exit.BadData, exit.NoDevice, exit.IO}, exit.CodeOf(err)) &&
		!errors.Is(err, context.Canceled)
}

// keepsMembers says whether the members of the targets are needed when the network's input is made: for products, or for what
// stands in for a network of members.
func (p *prediction) keepsMembers() bool {
	return p.choice.members || p.model.Spec.GivesMembers() && p.rung != ""
}

// withoutNetwork makes of the members of a start what fall-backs need. fc is what ranks that predict together have read; nil
// has one rank read them.
func (p *prediction) withoutNetwork(ctx context.Context, init ensemble.Init, fc *ensemble.Forecast) (a attempt, err error) {
	if p.ranks == nil {
		forecasts, warnings, err := p.in.Read(ctx, []ensemble.Init{init}, nil)
		if err != nil {
			return a, err
		}
		fc, a.warnings, p.model.Local = forecasts[0], warnings, &p.model.Task
	}
	a.started = &started{}
	realisations := p.in.Rations[init].Members
	used, err := model.Positions(fc, realisations)
	if err != nil {
		return a, err
	}
	if p.keepsMembers() {
		if a.raw, err = members.RawMembers(p.model, fc, realisations); err != nil {
			return a, err
		}
	}
	if a.stats, err = p.model.Local.StatisticsOf(fc, used); err != nil {
		return a, err
	}
	a.input, err = p.judge(fc)
	return a, err
}

// judge compares the fields of a start with those of the training, where the model knows them; of ranks that
// predict together the leading one does.
func (p *prediction) judge(fc *ensemble.Forecast) (all []model.Strangeness, err error) {
	d := p.model.Drift
	if d == nil {
		return nil, nil
	}
	used, err := model.Positions(fc, fc.Members)
	if err != nil {
		return nil, err
	}
	axes := p.in.Axes
	fields, err := samples.Summarise(d.Boxes, axes, fc, used, p.ranks)
	for i, s := range fields {
		depth := len(axes.Levels)
		k := ensemble.Key{Lead: axes.Leads[i/depth/len(axes.Variables)], Variable: axes.Variables[i/depth%len(axes.Variables)], Level: axes.Levels[i%depth]}
		if x, ok := d.Judge(fc.Init, k, s); ok {
			all = append(all, x)
		}
	}
	return all, err
}

// trust weighs what speaks against the network on a start, the same on all ranks that predict it together.
//
// Errors: exit 65 for input beyond the limit, and for alarms, that the policy refuses.
func (p *prediction) trust(init ensemble.Init, input []model.Strangeness) (*trust, error) {
	t := &trust{fallsBack: p.in.Rations[init].Few} // its warning is there
	policy := p.o.Policy
	doubt := func(then, why, fix string) error {
		if then == ThenRefuse {
			return &exit.Error{Code: exit.BadData, What: "the network is not to be trusted with this start", At: "start " + init.String(), Why: why, Fix: fix}
		}
		t.doubts = append(t.doubts, why)
		t.fallsBack = t.fallsBack || then == ThenFallBack
		return nil
	}
	err := func() error {
		if p.foreign != "" && policy.OtherModel == ThenFallBack {
			t.fallsBack = true // the warning is there
		}
		var why string
		if t.input, why = strangest(input, policy.Drift.Limit); why != "" {
			if err := doubt(policy.Drift.OnDrift, why, "look at the input with `ensemble inspect --stats` and `ensemble check`; train again where it is right, or set drift.on_drift: fall_back"); err != nil {
				return err
			}
		}
		why, err := p.alarmed()
		if err == nil && why != "" {
			err = doubt(policy.Alarms.OnAlarm, why, "train again on newer starts, roll the model back, or set alarms.on_alarm: fall_back")
		}
		return err
	}()
	if p.ranks == nil {
		return t, err
	}
	all, err := team.Tell(p.ranks, team.Outcome[bool]{Result: t.fallsBack}, err)
	if err != nil {
		return nil, err
	}
	t.fallsBack = all[0].Result
	return t, nil
}

// strangest finds the field that is least like those of the training; why says that it is beyond a limit. A limit of 0
// stands for the default.
func strangest(input []model.Strangeness, limit float64) (d *product.InputDrift, why string) {
	limit = cmp.Or(limit, defaultDriftLimit)
	var beyond []string
	slices.SortFunc(input, func(a, b model.Strangeness) int { // as they come, chance decides
		x, _ := a.Largest()
		y, _ := b.Largest()
		return cmp.Or(cmp.Compare(y, x), strings.Compare(a.Name(), b.Name()))
	})
	for i, x := range input {
		size, what := x.Largest()
		if i == 0 {
			d = &product.InputDrift{Distance: math.Round(100*size) / 100, Of: what + " of " + x.Name()}
		}
		if size > limit {
			d.Beyond++
			beyond = append(beyond, fmt.Sprintf("%s of %s is %.1f standard deviations off", what, x.Name(), size))
		}
	}
	if beyond == nil {
		return d, ""
	}
	return d, fmt.Sprintf("the input is unlike that of the training: %d of %d fields are beyond %g: %s", len(beyond), len(input), limit, strings.Join(beyond[:min(3, len(beyond))], ", "))
}

// defaultDriftLimit is that of the configuration, for library calls.
const defaultDriftLimit = 6

// forecast forecasts a start by the network, or where that is not trusted or failed by the fall-back. bad is why the network is
// not open; nil where it is.
func (p *prediction) forecast(ctx context.Context, init ensemble.Init, s *started, t *trust, bad error) (*model.Forecast, error) {
	if bad != nil {
		t.lost(bad)
	}
	if !t.fallsBack {
		out, err := p.model.Infer(ctx, init, s.stats)
		if err == nil || !p.survives(err) {
			return out, setup.NamedMemory(err, setup.FlagMemory, setup.FlagWorkspace)
		}
		t.lost(err)
	}
	return p.fallBack(init, s.stats, s.raw)
}

// fallBack forecasts a start by the fall-back; of ranks that predict together the leading one does.
func (p *prediction) fallBack(init ensemble.Init, stats []model.Statistics, raw []float32) (*model.Forecast, error) {
	members := len(p.in.Rations[init].Members)
	if p.ranks != nil {
		var mean, std []float32
		for _, s := range stats {
			mean, std = append(mean, s.Mean...), append(std, s.Std...)
		}
		targets := len(p.model.Task.Targets)
		mean, err := team.Join(p.ranks, mean, targets)
		if err != nil {
			return nil, err
		}
		if std, err = team.Join(p.ranks, std, targets); err != nil || !p.ranks.Leads() {
			return nil, err
		}
		n := p.model.Grid.Size()
		stats = nil
		for at := range p.model.Task.Score {
			stats = append(stats, model.Statistics{Mean: mean[at*n : (at+1)*n], Std: std[at*n : (at+1)*n]})
		}
	}
	return p.model.FallBack(p.rung, init, stats, members, raw)
}

// distrust writes into a product what speaks against the network, and what forecasts in its place.
func (p *prediction) distrust(q *product.Product, pub *product.Publication, t *trust) {
	pub.Drift = t.input
	pub.Warnings = append(pub.Warnings, t.doubts...)
	if p.foreign != "" {
		pub.Warnings = append(pub.Warnings, p.foreign)
	}
	if !t.fallsBack {
		return
	}
	q.FallBack, pub.Degraded = p.rung, true
	q.Source = fmt.Sprintf("ensemble %s, %s on %d members, in place of network %s", p.model.Version, p.rung, len(q.Members), p.model.Spec.Kind)
	if q.Stations != nil {
		q.Stations.FallBack = p.rung
	}
	pub.Warnings = append(pub.Warnings, p.rung+" forecasts in place of the network")
}
