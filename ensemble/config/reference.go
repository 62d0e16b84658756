package config

import (
	"fmt"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// NoReference is the reference of networks that correct the members' mean by themselves.
const NoReference = "none"

// References are the baselines of docs/verification.md that a network can correct: those that
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
			Help: "Baseline of docs/verification.md that the network corrects: its shift is added to the mean of the baseline and its factor multiplies the standard deviation, so that an untrained network is the baseline. Both are input, too. none: the network starts from the members' mean."},
		{Path: "model.cross_fit.folds", Default: "5", Check: Between(2, 100), Example: "5",
			Help: "Blocks of training starts for cross-fitting: the reference of a training start is fitted without its block. Of years where there are as many calendar years, else of consecutive starts."},
		{Path: "model.cross_fit.gap", Default: formatDuration(DefaultGap), Check: AtLeast(0), Example: "10d",
			Help: "Time before and after the forecasts of a block within which the starts of other blocks are not fitted to either, as their errors resemble those of the block."},
	}
}

// Auxiliary are fields that do not change: orography, the land-sea mask.
type Auxiliary struct {
	Files     []Path   `key:"files"`
	Variables []string `key:"variables"`
}

// spatialInputKeys describe what a network is told of places.
func spatialInputKeys() []Key {
	return []Key{
		{Path: "model.embedding", Default: "0", Check: Between(0, 256), Example: "4",
			Help: "Learned fields that are input too, with a value of each for every point and level: what the network finds to be particular to a place. They have weight decay."},
		{Path: "data.auxiliary.files", Example: "[orography.grib2]",
			Help: "Files of fields that do not change, such as orography and the land-sea mask, on the grid of the forecasts or brought to it by data.grid. The model keeps the fields: prediction reads no file of them."},
		{Path: "data.auxiliary.variables", Example: "[z, lsm]",
			Help: "Variables of data.auxiliary.files that are input, by the short names that `ensemble inspect` prints; one field of each, standardised over the grid."},
	}
}

// checkSpatialInputs: auxiliary files and their variables belong together; networks that make one
// field, and those of stages, have inputs of their own.
func (c *TrainConfig) checkSpatialInputs() []*exit.Error {
	var faults []*exit.Error
	add := func(path, what, why, fix string) { faults = append(faults, c.fault(path, what, why, fix)) }
	a := c.Data.Auxiliary
	if (len(a.Files) == 0) != (len(a.Variables) == 0) {
		add("data.auxiliary.variables", "data.auxiliary has files or variables, and not both", "", "give data.auxiliary.files and data.auxiliary.variables, or neither")
	}
	for i, v := range a.Variables {
		if slices.Contains(a.Variables[:i], v) {
			add("data.auxiliary.variables", fmt.Sprintf("variable %s is listed twice", v), "", "list each variable once")
		}
	}
	if c.Model.Embedding > 0 && (c.Model.NetworkKind().SingleField || c.Model.Method != JointMethod) {
		add("model.embedding", "model.embedding is given to "+c.Model.Kind+" by "+string(c.Model.Method), "networks of one spread field, and those of stages, have maps of their own",
			"remove it, or set model.kind: "+unet3d.UNetKind.Name+" and model.method: "+string(JointMethod))
	}
	if k := c.Model.Kind; c.Model.NetworkKind().Baseline && c.Model.Method != JointMethod {
		add("model.kind", k+" is trained by "+string(c.Model.Method), "it is a baseline for networks that are trained at once", "set model.method: "+string(JointMethod))
	}
	return faults
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
	if c.Model.Head != DistributionHead {
		add("model.reference", "a reference is given for head "+string(c.Model.Head), "it is a distribution of the analysis", "set model.head: distribution, or model.reference: none")
	}
	if c.Model.Method != JointMethod {
		add("model.reference", "a reference is given for model.method "+string(c.Model.Method), "its stages correct the members' mean", "set model.method: "+string(JointMethod)+", or model.reference: none")
	}
	if c.Data.SpreadDDOF != 1 {
		add("data.spread_ddof", fmt.Sprintf("data.spread_ddof is %d and there is a reference", c.Data.SpreadDDOF), "baselines are fitted to spreads with divisor M - 1", "set data.spread_ddof: 1")
	}
	return faults
}
