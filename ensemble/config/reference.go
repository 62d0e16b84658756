package config

import (
	"fmt"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/config/schema"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/unet3d"
)

// NoReference is the value of model.reference for networks that correct the ensemble mean.
const NoReference = "none"

// References lists the baselines (docs/verification.md) that a network can correct: those with a
// normal distribution.
var References = []string{"emos", "emos_grid", "samos", "emos_point", "climatology"}

// CrossFit is the section model.cross_fit: cross-fitting of the reference, so that it is out of
// sample for the training data.
type CrossFit struct {
	Folds int           `key:"folds"`
	Gap   time.Duration `key:"gap"`
}

// DefaultGap is the default of model.cross_fit.gap.
const DefaultGap = 5 * 24 * time.Hour

// referenceKeys are the rows of model.reference and CrossFit.
func referenceKeys() []schema.Key {
	return []schema.Key{
		{Path: "model.reference", Default: NoReference, Check: OneOf(append([]string{NoReference}, References...)...), Example: "emos_grid",
			Help: "Baseline that the network corrects (docs/verification.md): the network predicts a shift of its mean and a factor of its standard deviation, so that an untrained network equals the baseline. Both are also inputs. none: the network corrects the ensemble mean."},
		{Path: "model.cross_fit.folds", Default: "5", Check: Between(2, 100), Example: "5",
			Help: "Number of blocks for cross-fitting: the reference of a training initialisation is fitted without its block. Blocks are calendar years if there are enough, else consecutive initialisations."},
		{Path: "model.cross_fit.gap", Default: formatDuration(DefaultGap), Check: AtLeast(0), Example: "10d",
			Help: "Time before and after a block that is excluded from fitting too, because its errors correlate with those of the block."},
	}
}

// Auxiliary is the section data.auxiliary: static fields such as orography and the land-sea mask.
type Auxiliary struct {
	Files     []Path   `key:"files"`
	Variables []string `key:"variables"`
}

// spatialInputKeys are the rows of inputs that describe locations: static fields and embeddings.
func spatialInputKeys() []schema.Key {
	return []schema.Key{
		{Path: "model.embedding", Default: "0", Check: Between(0, 256), Example: "4",
			Help: "Number of learned input fields (embeddings) with a value for each grid point and level, for local properties. They have weight decay."},
		{Path: "data.auxiliary.files", Example: "[orography.grib2]",
			Help: "Files of static fields, such as orography and the land-sea mask, on the grid of the forecasts or interpolated by data.grid. The fields are saved with the model; prediction needs no files."},
		{Path: "data.auxiliary.variables", Example: "[z, lsm]",
			Help: "Variables of data.auxiliary.files that are inputs, by the short names that `ensemble inspect` prints; one field each, standardised over the grid."},
	}
}

// checkSpatialInputs checks that static fields have files and variables, and that the kind and method of
// the network support embeddings.
func (c *TrainConfig) checkSpatialInputs() []*exit.Error {
	var faults []*exit.Error
	add := func(path, what, why, fix string) { faults = append(faults, c.Fault(path, what, why, fix)) }
	a := c.Data.Auxiliary
	if (len(a.Files) == 0) != (len(a.Variables) == 0) {
		add("data.auxiliary.variables", "data.auxiliary needs both files and variables", "", "set data.auxiliary.files and data.auxiliary.variables, or neither")
	}
	for i, v := range a.Variables {
		if slices.Contains(a.Variables[:i], v) {
			add("data.auxiliary.variables", fmt.Sprintf("variable %s is listed twice", v), "", "list each variable once")
		}
	}
	if c.Model.Embedding > 0 && (c.Model.NetworkKind().SingleField || c.Model.Method != JointMethod) {
		add("model.embedding", "model.embedding is not supported by "+c.Model.Kind+" with method "+string(c.Model.Method), "networks of one spread field, and stages, have their own learned maps",
			"remove it, or set model.kind: "+unet3d.UNetKind.Name+" and model.method: "+string(JointMethod))
	}
	if k := c.Model.Kind; c.Model.NetworkKind().Baseline && c.Model.Method != JointMethod {
		add("model.kind", k+" does not support method "+string(c.Model.Method), "it is a baseline for jointly trained networks", "set model.method: "+string(JointMethod))
	}
	return faults
}

// checkReference checks that head, method and spread divisor are compatible with a reference.
func (c *TrainConfig) checkReference() []*exit.Error {
	var faults []*exit.Error
	add := func(path, what, why, fix string) { faults = append(faults, c.Fault(path, what, why, fix)) }
	if c.Model.Reference == NoReference {
		for _, k := range referenceKeys()[1:] {
			if c.text(k.Path) != k.Default {
				add(k.Path, k.Path+" without a reference", "model.reference is "+NoReference, "remove it, or set model.reference")
			}
		}
		return faults
	}
	if c.Model.Head != DistributionHead {
		add("model.reference", "model.reference is not supported by head "+string(c.Model.Head), "it is a distribution of the analysis", "set model.head: distribution, or model.reference: none")
	}
	if c.Model.Method != JointMethod {
		add("model.reference", "model.reference is not supported by model.method "+string(c.Model.Method), "its stages correct the ensemble mean", "set model.method: "+string(JointMethod)+", or model.reference: none")
	}
	if c.Data.SpreadDDOF != 1 {
		add("data.spread_ddof", fmt.Sprintf("data.spread_ddof is %d, want 1 with a reference", c.Data.SpreadDDOF), "baselines are fitted to spreads with divisor M - 1", "set data.spread_ddof: 1")
	}
	return faults
}
