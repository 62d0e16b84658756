package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// headKeys describe the distribution that comes out, and its loss.
func headKeys() []Key {
	return []Key{
		{Path: "model.family", Default: string(NormalFamily), Check: OneOf(dist.HeadNames(nil)...), Example: "censored_shifted_gamma",
			Help: "Distribution whose parameters head distribution gives (docs/networks.md). " + strings.Join(dist.HeadNames(isPositive), ", ") + " have no values below 0: for wind speed, precipitation and the like."},
		{Path: "model.degree", Default: "12", Check: Between(1, 50), Example: "8",
			Help: "Degree of the Bernstein quantile function."},
		{Path: "model.bins", Default: "20", Check: Between(2, 200), Example: "40",
			Help: "Bins of the histogram. Their edges are quantiles of the differences of the analyses from the members' mean in training."},
		{Path: "train.loss.threshold", Example: "[\"tp>5 mm\", \"10si<1\"]",
			Help: "Events, as in probabilities of predict.yaml: the CRPS weighted with 1 where values are of the event, else 0, is added to the loss of that variable."},
		{Path: "train.loss.threshold_weight", Default: "1", Check: Above(0), Example: "4",
			Help: "Weight of each of those scores beside the CRPS."},
	}
}

// isPositive tells whether a family has no values below 0.
func isPositive(r dist.Row) bool { return r.AnyFamily().Positive }

// hasThresholdedCRPS tells whether the CRPS of a family above a threshold has a closed form.
func hasThresholdedCRPS(r dist.Row) bool { return r.AnyFamily().Excess.Family != nil }

// sizeKeys are the keys of the sizes of families.
var sizeKeys = map[dist.Size]string{dist.Degree: "model.degree", dist.Bins: "model.bins"}

// checkHead: the family, its loss and the head belong together.
func (c *TrainConfig) checkHead() []*exit.Error {
	var faults []*exit.Error
	add := func(path, what, why, fix string) { faults = append(faults, c.fault(path, what, why, fix)) }
	m, loss := c.Model, c.Train.Train.Loss
	if m.Head != DistributionHead && m.Family != NormalFamily {
		add("model.family", "model.family is given to head "+string(m.Head), "only head distribution gives one", "remove it, or set model.head: distribution")
		return faults
	}
	if m.NetworkKind().SingleField && m.Family != NormalFamily {
		add("model.family", m.Kind+" gives no parameters of "+string(m.Family), "it makes one spread field", "set model.kind: "+unet3d.UNetKind.Name+", or leave model.family out")
	}
	if m.Method == StagesMethod && m.Family != NormalFamily {
		add("model.family", "three stages are trained for family "+string(m.Family), "they are those of mean and standard deviation: "+string(NormalFamily),
			"set model.method: "+string(JointMethod)+", or leave model.family out")
	}
	row := m.Family.Row()
	for size, path := range sizeKeys {
		i := slices.IndexFunc(headKeys(), func(k Key) bool { return k.Path == path })
		// Defaults may be given: an effective configuration, which has them all, is trained again.
		if row.Size != size && c.text(path) != headKeys()[i].Default {
			family := dist.HeadNames(func(r dist.Row) bool { return r.Size == size })[0]
			add(path, path+" is given to family "+string(m.Family), "only "+family+" has it", "remove it, or set model.family: "+family)
		}
	}
	rule := dist.Rule(loss.Kind)
	if takes := dist.HeadNames(func(r dist.Row) bool { return r.HasRule(rule) }); m.Head == DistributionHead && len(takes) > 0 && !row.HasRule(rule) {
		fix := "set train.loss.kind: " + string(row.Rules[0])
		if len(takes) == 1 {
			fix += ", or model.family: " + takes[0]
		}
		add("train.loss.kind", fmt.Sprintf("family %s is trained with %s", m.Family, loss.Kind), "it is not scored so", fix)
	}
	return append(faults, c.checkThresholds()...)
}

// checkThresholds: they are of targets, and of scores that can be taken apart there.
func (c *TrainConfig) checkThresholds() []*exit.Error {
	var faults []*exit.Error
	add := func(what, why, fix string) { faults = append(faults, c.fault("train.loss.threshold", what, why, fix)) }
	m, loss := c.Model, c.Train.Train.Loss
	if len(loss.Threshold) == 0 {
		if c.text("train.loss.threshold_weight") != "1" {
			faults = append(faults, c.fault("train.loss.threshold_weight", "train.loss.threshold_weight is given and there is no threshold", "", "remove it, or give train.loss.threshold"))
		}
		return faults
	}
	if !hasThresholdedCRPS(m.Family.Row()) || m.Head != DistributionHead || m.Method == StagesMethod || loss.Kind == CrossEntropyLoss {
		add(fmt.Sprintf("train.loss.threshold is given to family %s, head %s, method %s", m.Family, m.Head, m.Method), "its score above a threshold has no closed form here",
			"remove it, or set model.head: distribution, model.method: "+string(JointMethod)+" and model.family: "+strings.Join(dist.HeadNames(hasThresholdedCRPS), ", "))
	}
	for _, q := range loss.Threshold {
		if !slices.ContainsFunc(c.Data.Targets, func(t Target) bool { return ensemble.ShortName(t.Variable) == q.Variable }) {
			add(fmt.Sprintf("%s: %s is no target", q, q.Variable), "the targets are those of data.targets", "name a target, or remove it")
		}
	}
	return faults
}
