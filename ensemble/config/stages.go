package config

import (
	"cmp"
	"slices"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// BiasModel is the network of the first of three stages, which corrects the mean.
type BiasModel struct {
	Base   int     `key:"base"`
	Stages int     `key:"stages"`
	Local  int     `key:"local"`
	Smooth float64 `key:"smooth"`
	Folds  int     `key:"folds"`
}

// Stage is what one of the stages has of its own; 0 stands for the value of train.
type Stage struct {
	Epochs       int     `key:"epochs"`
	LearningRate float64 `key:"learning_rate"`
	Patience     int     `key:"patience"`
}

// Stages are those of the method three_stage.
type Stages struct {
	Bias   Stage       `key:"bias"`
	Spread SpreadStage `key:"spread"`
	Sigma  Stage       `key:"sigma"`
}

// SpreadStage is the stage that learns the spread of the full ensemble.
type SpreadStage struct {
	Stage
	Loss Loss `key:"loss"`
}

// ForStage is the training of a stage.
func (t Training) ForStage(s Stage) Training {
	t.Epochs = cmp.Or(s.Epochs, t.Epochs)
	t.LearningRate = cmp.Or(s.LearningRate, t.LearningRate)
	t.EarlyStop.Patience = cmp.Or(s.Patience, t.EarlyStop.Patience)
	return t
}

// biasKeys describe model.bias.
func biasKeys() []Key {
	return []Key{
		{Path: "model.method", Default: string(JointMethod), Check: OneOf(JointMethod, StagesMethod), Example: string(StagesMethod),
			Help: "joint: one network learns the mean, its spread and that of the full ensemble at once. three_stage: a network corrects the mean, one learns the spread of the full ensemble, and that one goes on to the spread around the corrected mean."},
		{Path: "model.bias.base", Default: "32", Check: Between(1, 1024), Example: "32",
			Help: "Channels of the first stage of the network that corrects the mean, with three_stage."},
		{Path: "model.bias.stages", Default: "1", Check: Between(0, 3), Example: "2",
			Help: "How often that network halves the resolution."},
		{Path: "model.bias.local", Default: "1", Check: OneOf("0", "1", "3"), Example: "3",
			Help: "Side of the windows of the locally connected layer behind that network, which has weights of its own at every grid point; 0 has none."},
		{Path: "model.bias.smooth", Default: "10", Check: AtLeast(0), Example: "10",
			Help: "Weight in the loss of the mean difference between weights of that layer at neighbouring points."},
		{Path: "model.bias.folds", Default: "5", Check: Between(2, 100), Example: "5",
			Help: "Blocks of consecutive years for cross-fitting: the spread of each is fitted around means of a network that did not see its years. As many networks are trained for it, and the one of all years, with which predictions are made."},
	}
}

// stageKeys describe train.stages.
func stageKeys() []Key {
	var keys []Key
	for _, s := range []struct{ name, what string }{
		{"bias", "that corrects the mean"}, {"spread", "that learns the spread of the full ensemble"}, {"sigma", "that learns the spread around the corrected mean"},
	} {
		keys = append(keys,
			Key{Path: "train.stages." + s.name + ".epochs", Check: Between(1, 1e6), Example: "40", Help: "train.epochs of the stage " + s.what + ", if another."},
			Key{Path: "train.stages." + s.name + ".learning_rate", Check: Above(0), Example: "0.0005", Help: "train.learning_rate of that stage, if another."},
			Key{Path: "train.stages." + s.name + ".patience", Check: AtLeast(1), Example: "6", Help: "train.early_stop.patience of that stage, if another."})
	}
	return append(keys, Key{Path: "train.stages.spread.loss", Default: string(MSELoss), Check: OneOf(SpreadLosses...), Example: "ms_ssim",
		Help: "Distance to the full ensemble's spread that the second of three stages lowers."})
}

// checkStages: the method needs what its stages compare with, and others have no stages.
func (c *TrainConfig) checkStages() []*exit.Error {
	var faults []*exit.Error
	add := func(path, what, why, fix string) { faults = append(faults, c.fault(path, what, why, fix)) }
	if c.Model.Method != StagesMethod {
		for _, k := range slices.Concat(biasKeys(), stageKeys()) {
			// Defaults may be given: an effective configuration, which has them all, is trained again.
			if k.Path != "model.method" && c.text(k.Path) != k.Default {
				add(k.Path, k.Path+" is given and there are no stages", "model.method is "+string(c.Model.Method), "remove it, or set model.method: "+string(StagesMethod))
			}
		}
		return faults
	}
	if c.Train.Train.Loss.Spread > 0 {
		add("train.loss.spread", "train.loss.spread is given and the spread has a stage of its own", "model.method is "+string(c.Model.Method),
			"remove it, or set model.method: "+string(JointMethod))
	}
	if c.Model.Head != DistributionHead {
		add("model.head", "three stages are trained for head "+string(c.Model.Head), "the last of them gives the distribution of the analysis",
			"set model.head: distribution, or model.method: "+string(JointMethod))
	}
	if c.Model.Pretrained != "" {
		add("model.start", "model.start is given and there are three stages", "their networks differ, and one file has the weights of one",
			"remove it, or set model.method: "+string(JointMethod))
	}
	return faults
}
