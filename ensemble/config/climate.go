package config

import (
	"github.com/ensemble-weather/ensemble/ensemble/config/schema"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Sources of the climate.
const (
	NoClimate       = "none"
	ClimateAnalyses = "analyses"
	ClimateMembers  = "members"
)

// Climate is the section climate: the quantiles of a climatological distribution with which the
// extreme forecast index (EFI) compares forecasts.
type Climate struct {
	Source  string  `key:"source"`
	File    Path    `key:"file"`
	Steps   int     `key:"steps"`
	Windows int     `key:"windows"`
	Days    float64 `key:"days"`
}

// climateKeys are the rows of Climate, and of the weight that needs one.
func climateKeys() []schema.Key {
	return []schema.Key{
		{Path: "climate.source", Default: NoClimate, Check: OneOf(NoClimate, ClimateAnalyses, ClimateMembers), Example: ClimateMembers, MayChangeOnResume: true,
			Help: "Source of the climate quantiles that are saved with the model, for the extreme forecast index and scores of extremes. members: all members of the training and validation data, the model climate. analyses: the analyses of these. none: no climate is saved."},
		{Path: "climate.file", Example: "runs/a/model/climate.safetensors", MayChangeOnResume: true,
			Help: "File with the climate quantiles of another run, instead of a new climate."},
		{Path: "climate.steps", Default: "100", Check: OneOf("20", "100"), Example: "20", MayChangeOnResume: true,
			Help: "Number of quantile intervals between probabilities 0 and 1. The shift of tails (SOT) needs 100; 20 need a fifth of the memory."},
		{Path: "climate.windows", Default: "12", Check: Between(1, 366), Example: "1", MayChangeOnResume: true,
			Help: "Number of seasonal windows, evenly spaced over the year, with their own quantiles; 1: one climate for all dates."},
		{Path: "climate.days", Default: "60", Check: Between(1, 366), Example: "31", MayChangeOnResume: true,
			Help: "Length of a window in days; with one window all dates are used."},
		{Path: "train.loss.extreme", Default: "0", Check: AtLeast(0), Example: "2",
			Help: "Extra weight w of extremes in the loss: points are weighted by 1 + w |EFI|, with the extreme forecast index of all members relative to the climate."},
	}
}

// checkClimate checks that the climate has exactly one source, and that losses that need it have
// one.
func (c *TrainConfig) checkClimate() []*exit.Error {
	var faults []*exit.Error
	if c.Climate.Source == ClimateAnalyses && len(c.Data.Analyses) == 0 && c.Data.Store == "" {
		faults = append(faults, c.Fault("climate.source", "climate.source is analyses without data.analyses", "data.analyses is empty", "add data.analyses, or set climate.source: members"))
	}
	if c.Train.Train.Loss.Extreme > 0 && c.Climate.Source == NoClimate && c.Climate.File == "" {
		faults = append(faults, c.Fault("train.loss.extreme", "train.loss.extreme without a climate", "climate.source is none and climate.file is not set",
			"set climate.source: members, or climate.file"))
	}
	if kind := c.Train.Train.Loss.Kind; c.Train.Train.Loss.Extreme > 0 && (kind == SSIMLoss || kind == MSSSIMLoss) {
		faults = append(faults, c.Fault("train.loss.extreme", "train.loss.extreme with a loss over windows", "train.loss.kind is "+string(kind), "remove it, or set another train.loss.kind"))
	}
	if c.Climate.Source != NoClimate && c.Climate.File != "" {
		faults = append(faults, c.Fault("climate.file", "two sources of the climate: climate.file and climate.source", "climate.source is "+c.Climate.Source, "remove climate.file, or climate.source"))
	}
	return faults
}
