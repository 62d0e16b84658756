package config

import (
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// exchangeableFeatures is the default of data.features without control.
var exchangeableFeatures = []string{string(ensemble.UsedMean), string(ensemble.UsedSpread)}

// featureNames lists the names of data.features.
func featureNames() []string {
	out := make([]string, len(ensemble.AggregateKinds))
	for i, k := range ensemble.AggregateKinds {
		out[i] = string(k.Name)
	}
	return out
}

// featuresHelp is the help of data.features, generated from ensemble.AggregateKinds.
func featuresHelp() string {
	parts := make([]string, len(ensemble.AggregateKinds))
	for i, k := range ensemble.AggregateKinds {
		parts[i] = string(k.Name) + ": " + k.Doc
	}
	return "Input features of each variable and lead. " + strings.Join(parts, "; ") + ". The published networks have spread and first. With data.members.control: none the default is [" +
		strings.Join(exchangeableFeatures, ", ") + "]."
}

// setDefaultFeatures replaces the default of data.features where no member is special.
func (c *TrainConfig) setDefaultFeatures() {
	const key = "data.features"
	if c.Data.Members.Control == ensemble.NoControl && c.Origin(key).Where == "" {
		c.values[key], c.Data.Features = exchangeableFeatures, slices.Clone(exchangeableFeatures)
	}
}

// refusesFirst reports whether a feature depends on which member is the first although no member is special.
func (c *TrainConfig) refusesFirst(feature string) bool {
	return c.Data.Members.Control == ensemble.NoControl && ensemble.Aggregate(feature).UsesFirst()
}

// checkExchangeable checks that no input depends on which member is the first, where no member is special.
func (c *TrainConfig) checkExchangeable() []*exit.Error {
	const why = "data.members.control is none: the members are equal draws, and none of them is special"
	var faults []*exit.Error
	if bad := slices.DeleteFunc(slices.Clone(c.Data.Features), func(f string) bool { return !c.refusesFirst(f) }); len(bad) > 0 {
		faults = append(faults, c.Fault("data.features", strings.Join(bad, " and ")+" of data.features depend"+map[bool]string{true: "s"}[len(bad) == 1]+" on which member is the first", why,
			"set data.features: ["+strings.Join(exchangeableFeatures, ", ")+"], or data.members.control: "+ensemble.IncludeControl))
	}
	if i := slices.IndexFunc(c.Model.NetworkKind().RequiredStatistics, c.refusesFirst); i >= 0 {
		faults = append(faults, c.Fault("model.kind", c.Model.Kind+" needs feature "+c.Model.NetworkKind().RequiredStatistics[i]+", which depends on which member is the first", why,
			"set another model.kind, or data.members.control: "+ensemble.IncludeControl))
	}
	return faults
}
