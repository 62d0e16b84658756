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

// Actions of a policy if the network cannot be trusted.
const (
	ActionFallBack = "fallback"
	ActionRefuse   = "refuse"
)

// trustDecision is the decision whether the network forecasts an initialisation.
type trustDecision struct {
	useFallback bool                // use the fallback forecast
	reasons     []string            // reasons against the network
	input       *product.InputDrift // largest drift score; nil if unknown
}

// networkFailed records that the network failed.
func (t *trustDecision) networkFailed(err error) {
	t.useFallback = true
	t.reasons = append(t.reasons, "the network failed: "+exit.OneLine(err))
}

// driftScores compares the fields of an initialisation with those of training, if the model has a drift detector.
// On several ranks rank 0 compares.
func (in *openInput) driftScores(fc *ensemble.Forecast) (all []model.DriftScore, err error) {
	f := in.p.forecaster
	d := f.model.Drift
	if d == nil {
		return nil, nil
	}
	used, err := task.MemberPositions(fc, fc.Members)
	if err != nil {
		return nil, err
	}
	axes := in.selection.Axes
	fields, err := samples.Summarise(d.Boxes, axes, fc, used, f.ranks)
	for i, s := range fields {
		depth := len(axes.Levels)
		k := ensemble.Key{Lead: axes.Leads[i/depth/len(axes.Variables)], Variable: axes.Variables[i/depth%len(axes.Variables)], Level: axes.Levels[i%depth]}
		if x, ok := d.Score(fc.Init, k, s); ok {
			all = append(all, x)
		}
	}
	return all, err
}

// assess decides whether the network forecasts an initialisation. Ranks that predict it together agree.
//
// Errors: exit 65 for drift or alarms that the policy refuses.
func (in *openInput) assess(init ensemble.Init, input []model.DriftScore) (*trustDecision, error) {
	f := in.p.forecaster
	t := &trustDecision{useFallback: in.selection.Available[init].TooFew} // the warning was added before
	policy := f.policy
	addReason := func(then, why, fix string) error {
		if then == ActionRefuse {
			return &exit.Error{Code: exit.BadData, What: "the network cannot be trusted for this initialisation", At: "initialisation " + init.String(), Why: why, Fix: fix}
		}
		t.reasons = append(t.reasons, why)
		t.useFallback = t.useFallback || then == ActionFallBack
		return nil
	}
	err := func() error {
		if in.otherModel != "" && policy.OnModelMismatch == ActionFallBack {
			t.useFallback = true // the warning was added before
		}
		var why string
		if t.input, why = largestDrift(input, policy.Drift.Limit); why != "" {
			if err := addReason(policy.Drift.OnDrift, why, "check the input with `ensemble inspect --stats` and `ensemble check`; train again if it is correct, or set drift.on_drift: fallback"); err != nil {
				return err
			}
		}
		why, err := f.alarms()
		if err == nil && why != "" {
			err = addReason(policy.Alarms.OnAlarm, why, "train on newer initialisations, roll the model back, or set alarms.on_alarm: fallback")
		}
		return err
	}()
	if f.ranks == nil {
		return t, err
	}
	all, err := team.AllGatherOutcomes(f.ranks, team.Outcome[bool]{Result: t.useFallback}, err)
	if err != nil {
		return nil, err
	}
	t.useFallback = all[0].Result
	return t, nil
}

// assessDepartures decides whether a forecast of the network is too far from its ensemble. Ranks that predict it
// together have the same departures.
//
// Errors: exit 65 if the policy refuses it.
func (in *openInput) assessDepartures(init ensemble.Init, all []model.Departure, t *trustDecision) error {
	why := in.excess(all)
	if why == "" {
		return nil
	}
	if in.p.options.Policy.Bound.OnExcess == ActionFallBack {
		t.useFallback, t.reasons = true, append(t.reasons, "the network's forecast is too far from its ensemble: "+why)
		return nil
	}
	return &exit.Error{Code: exit.BadData, What: "the network's forecast is too far from its ensemble", At: "initialisation " + init.String(), Why: why,
		Fix: "check the input with `ensemble inspect --stats` and `ensemble check`; publish a fallback forecast with bound.on_excess: fallback; or train again"}
}

// checkFallback checks that a fallback forecast is within the bound too.
//
// Errors: exit 65 if it is not.
func (in *openInput) checkFallback(init ensemble.Init, all []model.Departure) error {
	why := in.excess(all)
	if why == "" {
		return nil
	}
	return &exit.Error{Code: exit.BadData, What: "the fallback forecast is too far from its ensemble", At: fmt.Sprintf("initialisation %s, %s", init, in.p.forecaster.fallback), Why: why,
		Fix: "use the members themselves: fallback: [raw]; or check the input with `ensemble inspect --stats` and `ensemble check`"}
}

// maxExcesses is the number of departures that a message describes.
const maxExcesses = 3

// excess describes the departures beyond bound.limit; "" if there are none.
func (in *openInput) excess(all []model.Departure) string {
	limit := cmp.Or(in.p.options.Policy.Bound.Limit, model.DefaultReach)
	beyond := model.Beyond(all, limit)
	if len(beyond) == 0 {
		return ""
	}
	var texts []string
	for _, d := range beyond[:min(maxExcesses, len(beyond))] {
		texts = append(texts, in.p.forecaster.model.Describe(d))
	}
	return fmt.Sprintf("%d of %d fields are beyond %g times the largest distance of training: %s", len(beyond), len(all), limit, strings.Join(texts, "; "))
}

// largestDrift finds the field with the largest drift score, in standard deviations of the training. why
// describes the fields beyond the limit; "" if none are. A limit of 0 is the default.
func largestDrift(input []model.DriftScore, limit float64) (d *product.InputDrift, why string) {
	limit = cmp.Or(limit, defaultDriftLimit)
	var beyond []string
	slices.SortFunc(input, func(a, b model.DriftScore) int { // their order depends on timing
		x, _ := a.Largest()
		y, _ := b.Largest()
		return cmp.Or(cmp.Compare(y, x), strings.Compare(a.Name(), b.Name()))
	})
	for i, x := range input {
		size, what := x.Largest()
		if i == 0 {
			d = &product.InputDrift{Distance: math.Round(100*size) / 100, Field: what + " of " + x.Name()}
		}
		if size > limit {
			d.BeyondLimit++
			v, _ := ensemble.VariableNamed(x.Variable)
			beyond = append(beyond, x.Describe(x.Words(), cmp.Or(v.Unit, "units")))
		}
	}
	if beyond == nil {
		return d, ""
	}
	return d, fmt.Sprintf("input drift: %d of %d fields deviate from those of training by more than %g: %s", len(beyond), len(input), limit, strings.Join(beyond[:min(3, len(beyond))], ", "))
}

// defaultDriftLimit is the default of drift.limit, in standard deviations of the training.
const defaultDriftLimit = 6

// recordTrust records the drift score, the largest departures, the reasons against the network and the fallback in a product.
func (in *openInput) recordTrust(q *product.Product, pub *product.Publication, t *trustDecision, departures []model.Departure) {
	f := in.p.forecaster
	pub.Drift = t.input
	for _, d := range model.LargestOfKinds(departures) {
		pub.Departures = append(pub.Departures, product.Departure{Field: d.Field, Distance: d.Distance(), Reach: d.Reach, Ratio: d.Ratio})
	}
	pub.Warnings = append(pub.Warnings, t.reasons...)
	if in.otherModel != "" {
		pub.Warnings = append(pub.Warnings, in.otherModel)
	}
	if !t.useFallback {
		return
	}
	q.Fallback, pub.Degraded = f.fallback, true
	q.Source = fmt.Sprintf("ensemble %s, %s on %d members, in place of network %s", f.model.Version, f.fallback, len(q.Members), f.model.Spec.Kind)
	if q.AtStations != nil {
		q.AtStations.Fallback = f.fallback
	}
	pub.Warnings = append(pub.Warnings, f.fallback+" replaces the network's forecast")
}
