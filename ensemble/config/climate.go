package config

import "github.com/ensemble-weather/ensemble/internal/exit"

// Values of Climate.Source.
const (
	NoClimate       = "none"
	ClimateAnalyses = "analyses"
	ClimateMembers  = "members"
)

// Climate says what extreme forecast indices compare forecasts with.
type Climate struct {
	Source  string  `key:"of"`
	File    Path    `key:"file"`
	Steps   int     `key:"steps"`
	Windows int     `key:"windows"`
	Days    float64 `key:"days"`
}

// climateKeys describe climate.
func climateKeys() []Key {
	return []Key{
		{Path: "climate.of", Default: NoClimate, Check: OneOf(NoClimate, ClimateAnalyses, ClimateMembers), Example: ClimateMembers, MayChangeOnResume: true,
			Help: "Climate whose quantiles are kept with the model, for extreme forecast indices and scores where they are largest: of all members of the training and validation starts (as the forecast model's own climate), or of their analyses. none keeps none."},
		{Path: "climate.file", Example: "runs/a/model/climate.safetensors", MayChangeOnResume: true,
			Help: "Quantiles of a climate that another training made, in place of climate.of."},
		{Path: "climate.steps", Default: "100", Check: OneOf("20", "100"), Example: "20", MayChangeOnResume: true,
			Help: "Steps between the quantiles of 0 and 1. The shift of tails needs 100; 20 take a fifth of the room."},
		{Path: "climate.windows", Default: "12", Check: Between(1, 366), Example: "1", MayChangeOnResume: true,
			Help: "Windows of the year that have quantiles of their own, evenly spaced; 1 has one for all dates."},
		{Path: "climate.days", Default: "60", Check: Between(1, 366), Example: "31", MayChangeOnResume: true,
			Help: "Length of a window in days; with one window every date counts."},
		{Path: "train.loss.extreme", Default: "0", Check: AtLeast(0), Example: "2",
			Help: "Weight of unusual forecasts: points count 1 + train.loss.extreme times the size of the extreme forecast index of all members against the climate."},
	}
}

// checkClimate: a climate is made of something, or read, not both.
func (c *TrainConfig) checkClimate() []*exit.Error {
	var faults []*exit.Error
	if c.Climate.Source == ClimateAnalyses && len(c.Data.Analyses) == 0 && c.Data.Store == "" {
		faults = append(faults, c.fault("climate.of", "climate.of is analyses and there are none", "data.analyses is empty", "add data.analyses, or set climate.of: members"))
	}
	if c.Train.Train.Loss.Extreme > 0 && c.Climate.Source == NoClimate && c.Climate.File == "" {
		faults = append(faults, c.fault("train.loss.extreme", "unusual forecasts have a weight, and there is no climate", "climate.of is none and there is no climate.file",
			"set climate.of: members, or name a climate.file"))
	}
	if kind := c.Train.Train.Loss.Kind; c.Train.Train.Loss.Extreme > 0 && (kind == SSIMLoss || kind == MSSSIMLoss) {
		faults = append(faults, c.fault("train.loss.extreme", "train.loss.extreme is given to a loss of windows", "train.loss.kind is "+string(kind), "remove it, or set another train.loss.kind"))
	}
	if c.Climate.Source != NoClimate && c.Climate.File != "" {
		faults = append(faults, c.fault("climate.file", "a climate is to be read, and to be made", "climate.of is "+c.Climate.Source, "remove climate.file, or climate.of"))
	}
	return faults
}
