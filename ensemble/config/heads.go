package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config/schema"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// headKeys are the rows of the predicted distribution and of its threshold-weighted loss.
func headKeys() []schema.Key {
	return []schema.Key{
		{Path: "model.family", Default: string(NormalFamily), Check: OneOf(dist.HeadNames(nil)...), Example: "censored_shifted_gamma",
			Help: "Distribution family of head distribution (docs/networks.md). " + strings.Join(dist.HeadNames(isPositive), ", ") + " have no values below 0, for wind speed or precipitation."},
		{Path: "model.degree", Default: "12", Check: Between(1, 50), Example: "8",
			Help: "Degree of the Bernstein quantile function."},
		{Path: "model.bins", Default: "20", Check: Between(2, 200), Example: "40",
			Help: "Number of bins of the histogram. Bin edges are quantiles of analysis minus ensemble mean in the training data."},
		{Path: "train.loss.threshold", Example: "[\"tp>5 mm\", \"10si<1\"]",
			Help: "Events, as probabilities of predict.yaml: the threshold-weighted CRPS with weight 1 for values of the event, else 0, is added to the loss of the variable."},
		{Path: "train.loss.threshold_weight", Default: "1", Check: Above(0), Example: "4",
			Help: "Weight of each threshold-weighted CRPS in the loss, relative to the CRPS."},
	}
}

// isPositive reports whether the values of a family are never negative.
func isPositive(r dist.Row) bool { return r.AnyFamily().Positive }

// hasMassAtZero reports whether the published distribution of a variable that ends at 0 can have a probability of
// exactly 0: a family of positive values by itself, others as they are censored.
func hasMassAtZero(r dist.Row) bool {
	f := r.AnyFamily()
	if !f.Positive {
		return true
	}
	some := make([]float64, len(f.Parameters)) // parameters for which families with a point mass at 0 have one
	for i := range some {
		some[i] = 1
	}
	return f.CDF(some, 0) > 0
}

// hasThresholdedCRPS reports whether a family has a closed form of the threshold-weighted CRPS.
func hasThresholdedCRPS(r dist.Row) bool { return r.AnyFamily().Excess.Family != nil }

// sizeKeys maps the size parameters of distribution families to their keys.
var sizeKeys = map[dist.Size]string{dist.Degree: "model.degree", dist.Bins: "model.bins"}

// checkHead checks that family, loss and head are compatible.
func (c *TrainConfig) checkHead() []*exit.Error {
	var faults []*exit.Error
	add := func(path, what, why, fix string) { faults = append(faults, c.Fault(path, what, why, fix)) }
	m, loss := c.Model, c.Train.Train.Loss
	if m.Head != DistributionHead && m.Family != NormalFamily {
		add("model.family", "model.family is not used by head "+string(m.Head), "only head distribution has a family", "remove it, or set model.head: distribution")
		return faults
	}
	if m.NetworkKind().SingleField && m.Family != NormalFamily {
		add("model.family", m.Kind+" does not predict family "+string(m.Family), "it predicts one spread field", "set model.kind: "+unet3d.UNetKind.Name+", or leave model.family out")
	}
	if m.Method == StagesMethod && m.Family != NormalFamily {
		add("model.family", "method "+string(StagesMethod)+" does not support family "+string(m.Family), "its stages predict mean and standard deviation, family "+string(NormalFamily),
			"set model.method: "+string(JointMethod)+", or leave model.family out")
	}
	row := m.Family.Row()
	for _, t := range c.Data.Targets {
		if v, _ := ensemble.VariableNamed(t.Variable); v.Period == "sum" && !hasMassAtZero(row) {
			add("model.family", fmt.Sprintf("model.family %s gives %s no probability of 0", m.Family, t.Variable), "sums over an interval are often exactly 0, of dry days for example",
				"set model.family: "+strings.Join(dist.HeadNames(func(r dist.Row) bool { return isPositive(r) && hasMassAtZero(r) }), ", "))
		}
	}
	for size, path := range sizeKeys {
		i := slices.IndexFunc(headKeys(), func(k schema.Key) bool { return k.Path == path })
		// Defaults are allowed: an effective configuration, which lists them all, must load again.
		if row.Size != size && c.text(path) != headKeys()[i].Default {
			family := dist.HeadNames(func(r dist.Row) bool { return r.Size == size })[0]
			add(path, path+" is not used by family "+string(m.Family), "only "+family+" has it", "remove it, or set model.family: "+family)
		}
	}
	rule := dist.Rule(loss.Kind)
	if takes := dist.HeadNames(func(r dist.Row) bool { return r.HasRule(rule) }); m.Head == DistributionHead && len(takes) > 0 && !row.HasRule(rule) {
		fix := "set train.loss.kind: " + string(row.Rules[0])
		if len(takes) == 1 {
			fix += ", or model.family: " + takes[0]
		}
		add("train.loss.kind", fmt.Sprintf("loss %s does not support family %s", loss.Kind, m.Family), "", fix)
	}
	return append(faults, c.checkThresholds()...)
}

// checkThresholds checks that threshold events concern targets, and that the family has a closed
// form of the threshold-weighted CRPS.
func (c *TrainConfig) checkThresholds() []*exit.Error {
	var faults []*exit.Error
	add := func(what, why, fix string) { faults = append(faults, c.Fault("train.loss.threshold", what, why, fix)) }
	m, loss := c.Model, c.Train.Train.Loss
	if len(loss.Threshold) == 0 {
		if c.text("train.loss.threshold_weight") != "1" {
			faults = append(faults, c.Fault("train.loss.threshold_weight", "train.loss.threshold_weight without train.loss.threshold", "", "remove it, or set train.loss.threshold"))
		}
		return faults
	}
	if !hasThresholdedCRPS(m.Family.Row()) || m.Head != DistributionHead || m.Method == StagesMethod || loss.Kind == CrossEntropyLoss {
		add(fmt.Sprintf("train.loss.threshold is not supported by family %s, head %s, method %s", m.Family, m.Head, m.Method), "its threshold-weighted CRPS has no closed form",
			"remove it, or set model.head: distribution, model.method: "+string(JointMethod)+" and model.family: "+strings.Join(dist.HeadNames(hasThresholdedCRPS), ", "))
	}
	for _, q := range loss.Threshold {
		if q.HasLevel {
			add(fmt.Sprintf("%s: the event has a level", q), "the loss has events at all levels of a target", "write "+q.Variable+" without a level")
		}
		if !slices.ContainsFunc(c.Data.Targets, func(t Target) bool { return ensemble.ShortName(t.Variable) == q.Variable }) {
			add(fmt.Sprintf("%s: %s is not a target", q, q.Variable), "want a variable of data.targets", "use a target, or remove the event")
		}
	}
	return faults
}
