package config

import (
	"fmt"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// NoReference is the reference of networks that correct the members' mean by themselves.
const NoReference = "none"

// References are the baselines of docs/baselines.md that a network can correct: those that
// give a normal distribution.
var References = []string{"emos", "emos_grid", "samos", "emos_point", "climatology"}

// CrossFit says how the reference of training starts is kept from seeing their outcome.
type CrossFit struct {
	Folds int           `key:"folds"`
	Gap   time.Duration `key:"gap"`
}

// DefaultGap is the gap between the blocks of cross-fitting unless it is told.
const DefaultGap = 5 * 24 * time.Hour

// referenceKeys describe model.reference and how it is fitted.
func referenceKeys() []Key {
	return []Key{
		{Path: "model.reference", Default: NoReference, Check: OneOf(append([]string{NoReference}, References...)...), Example: "emos_grid",
			Help: "Baseline of docs/baselines.md that the network corrects: its shift is added to the mean of the baseline and its factor multiplies the standard deviation, so that an untrained network is the baseline. Both are input, too. none: the network starts from the members' mean."},
		{Path: "model.cross_fit.folds", Default: "5", Check: Between(2, 100), Example: "5",
			Help: "Blocks of training starts for cross-fitting: the reference of a training start is fitted without its block. Of years where there are as many calendar years, else of consecutive starts."},
		{Path: "model.cross_fit.gap", Default: formatDuration(DefaultGap), Check: AtLeast(0), Example: "10d",
			Help: "Time before and after the forecasts of a block within which the starts of other blocks are not fitted to either, as their errors resemble those of the block."},
	}
}

// checkReference: a reference needs a distribution that it is corrected to, and moments as
// baselines have them.
func (c *TrainConfig) checkReference() []*exit.Error {
	var faults []*exit.Error
	add := func(path, what, why, fix string) { faults = append(faults, c.fault(path, what, why, fix)) }
	if c.Model.Reference == NoReference {
		for _, k := range referenceKeys()[1:] {
			if c.text(k.Path) != k.Default {
				add(k.Path, k.Path+" is given and there is no reference", "model.reference is "+NoReference, "remove it, or set model.reference")
			}
		}
		return faults
	}
	if c.Model.Head != "distribution" {
		add("model.reference", "a reference is given for head "+c.Model.Head, "it is a distribution of the analysis", "set model.head: distribution, or model.reference: none")
	}
	if c.Model.Method != JointMethod {
		add("model.reference", "a reference is given for model.method "+c.Model.Method, "its stages correct the members' mean", "set model.method: "+JointMethod+", or model.reference: none")
	}
	if c.Data.SpreadDDOF != 1 {
		add("data.spread_ddof", fmt.Sprintf("data.spread_ddof is %d and there is a reference", c.Data.SpreadDDOF), "baselines are fitted to spreads with divisor M - 1", "set data.spread_ddof: 1")
	}
	return faults
}
