package predict

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/product"
)

// What a policy does where a network cannot be trusted.
const (
	ThenFallBack = "fall_back"
	ThenRefuse   = "refuse"
)

// trust is whether the network forecasts an init, and what speaks against it.
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

// driftOf compares the fields of an init with those of the training, where the model knows them; of ranks that
// predict together the leading one does.
func (in *opened) driftOf(fc *ensemble.Forecast) (all []model.Strangeness, err error) {
	f := in.p.forecaster
	d := f.model.Drift
	if d == nil {
		return nil, nil
	}
	used, err := task.Positions(fc, fc.Members)
	if err != nil {
		return nil, err
	}
	axes := in.sel.Axes
	fields, err := samples.Summarise(d.Boxes, axes, fc, used, f.ranks)
	for i, s := range fields {
		depth := len(axes.Levels)
		k := ensemble.Key{Lead: axes.Leads[i/depth/len(axes.Variables)], Variable: axes.Variables[i/depth%len(axes.Variables)], Level: axes.Levels[i%depth]}
		if x, ok := d.Judge(fc.Init, k, s); ok {
			all = append(all, x)
		}
	}
	return all, err
}

// trusted weighs what speaks against the network on an init, the same on all ranks that predict it together.
//
// Errors: exit 65 for input beyond the limit, and for alarms, that the policy refuses.
func (in *opened) trusted(init ensemble.Init, input []model.Strangeness) (*trust, error) {
	f := in.p.forecaster
	t := &trust{fallsBack: in.sel.Available[init].Few} // its warning is there
	policy := f.policy
	doubt := func(then, why, fix string) error {
		if then == ThenRefuse {
			return &exit.Error{Code: exit.BadData, What: "the network is not to be trusted with this start", At: "start " + init.String(), Why: why, Fix: fix}
		}
		t.doubts = append(t.doubts, why)
		t.fallsBack = t.fallsBack || then == ThenFallBack
		return nil
	}
	err := func() error {
		if in.foreign != "" && policy.OtherModel == ThenFallBack {
			t.fallsBack = true // the warning is there
		}
		var why string
		if t.input, why = strangest(input, policy.Drift.Limit); why != "" {
			if err := doubt(policy.Drift.OnDrift, why, "look at the input with `ensemble inspect --stats` and `ensemble check`; train again where it is right, or set drift.on_drift: fall_back"); err != nil {
				return err
			}
		}
		why, err := f.alarmed()
		if err == nil && why != "" {
			err = doubt(policy.Alarms.OnAlarm, why, "train again on newer starts, roll the model back, or set alarms.on_alarm: fall_back")
		}
		return err
	}()
	if f.ranks == nil {
		return t, err
	}
	all, err := team.Tell(f.ranks, team.Outcome[bool]{Result: t.fallsBack}, err)
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

// distrust writes into a product what speaks against the network, and what forecasts in its place.
func (in *opened) distrust(q *product.Product, pub *product.Publication, t *trust) {
	f := in.p.forecaster
	pub.Drift = t.input
	pub.Warnings = append(pub.Warnings, t.doubts...)
	if in.foreign != "" {
		pub.Warnings = append(pub.Warnings, in.foreign)
	}
	if !t.fallsBack {
		return
	}
	q.FallBack, pub.Degraded = f.fallback, true
	q.Source = fmt.Sprintf("ensemble %s, %s on %d members, in place of network %s", f.model.Version, f.fallback, len(q.Members), f.model.Spec.Kind)
	if q.Stations != nil {
		q.Stations.FallBack = f.fallback
	}
	pub.Warnings = append(pub.Warnings, f.fallback+" forecasts in place of the network")
}
