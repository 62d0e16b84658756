package config

import (
	"cmp"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble/config/schema"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// BiasModel is the section model.bias: the network of the first of three stages, which corrects the
// mean.
type BiasModel struct {
	Base   int     `key:"base"`
	Stages int     `key:"stages"`
	Local  int     `key:"local"`
	Smooth float64 `key:"smooth"`
	Folds  int     `key:"folds"`
}

// Stage overrides training settings in one stage; 0: the value of the section train.
type Stage struct {
	Epochs       int     `key:"epochs"`
	LearningRate float64 `key:"learning_rate"`
	Patience     int     `key:"patience"`
}

// Stages is the section train.stages of the method three_stage.
type Stages struct {
	Bias   Stage       `key:"bias"`
	Spread SpreadStage `key:"spread"`
	Sigma  Stage       `key:"sigma"`
}

// SpreadStage is the stage that predicts the spread of the full ensemble.
type SpreadStage struct {
	Stage
	Loss Loss `key:"loss"`
}

// ForStage returns the training settings of a stage.
func (t Training) ForStage(s Stage) Training {
	t.Epochs = cmp.Or(s.Epochs, t.Epochs)
	t.LearningRate = cmp.Or(s.LearningRate, t.LearningRate)
	t.EarlyStop.Patience = cmp.Or(s.Patience, t.EarlyStop.Patience)
	return t
}

// biasKeys are the rows of model.method and BiasModel.
func biasKeys() []schema.Key {
	return []schema.Key{
		{Path: "model.method", Default: string(JointMethod), Check: OneOf(JointMethod, StagesMethod), Example: string(StagesMethod),
			Help: "Training method. joint: one network predicts mean, spread and the spread of the full ensemble together. three_stage: one network corrects the mean, a second predicts the spread of the full ensemble, and is then fine-tuned to the spread around the corrected mean."},
		{Path: "model.bias.base", Default: "32", Check: Between(1, 1024), Example: "32",
			Help: "Channels of the first resolution of the bias correction network, with three_stage."},
		{Path: "model.bias.stages", Default: "1", Check: Between(0, 3), Example: "2",
			Help: "Number of times the bias correction network halves the resolution."},
		{Path: "model.bias.local", Default: "1", Check: OneOf("0", "1", "3"), Example: "3",
			Help: "Window size in grid points of the locally connected layer after the bias correction network, which has separate weights at each grid point; 0: no such layer."},
		{Path: "model.bias.smooth", Default: "10", Check: AtLeast(0), Example: "10",
			Help: "Weight of the smoothness penalty in the loss: the mean difference between weights of the locally connected layer at neighbouring points."},
		{Path: "model.bias.folds", Default: "5", Check: Between(2, 100), Example: "5",
			Help: "Number of blocks of consecutive years for cross-fitting: the spread of each block is fitted around the mean of a network trained without it. One further network is trained on all years, for predictions."},
	}
}

// stageKeys are the rows of Stages.
func stageKeys() []schema.Key {
	var keys []schema.Key
	for _, s := range []struct{ name, what string }{
		{"bias", "that corrects the mean"}, {"spread", "that predicts the spread of the full ensemble"}, {"sigma", "that predicts the spread around the corrected mean"},
	} {
		keys = append(keys,
			schema.Key{Path: "train.stages." + s.name + ".epochs", Check: Between(1, 1e6), Example: "40", Help: "Epochs of the stage " + s.what + ". Default: train.epochs."},
			schema.Key{Path: "train.stages." + s.name + ".learning_rate", Check: Above(0), Example: "0.0005", Help: "Learning rate of the stage " + s.what + ". Default: train.learning_rate."},
			schema.Key{Path: "train.stages." + s.name + ".patience", Check: AtLeast(1), Example: "6", Help: "Patience of the stage " + s.what + ", in epochs. Default: train.early_stop.patience."})
	}
	return append(keys, schema.Key{Path: "train.stages.spread.loss", Default: string(MSELoss), Check: OneOf(SpreadLosses...), Example: "ms_ssim",
		Help: "Loss of the stage that predicts the spread of the full ensemble."})
}

// checkStages checks the requirements of three_stage, and that other methods set no stages.
func (c *TrainConfig) checkStages() []*exit.Error {
	var faults []*exit.Error
	add := func(path, what, why, fix string) { faults = append(faults, c.Fault(path, what, why, fix)) }
	if c.Model.Method != StagesMethod {
		for _, k := range slices.Concat(biasKeys(), stageKeys()) {
			// Defaults are allowed: an effective configuration, which lists them all, must load again.
			if k.Path != "model.method" && c.text(k.Path) != k.Default {
				add(k.Path, k.Path+" without method "+string(StagesMethod), "model.method is "+string(c.Model.Method), "remove it, or set model.method: "+string(StagesMethod))
			}
		}
		return faults
	}
	if c.Train.Train.Loss.Spread > 0 {
		add("train.loss.spread", "train.loss.spread is not used by method "+string(StagesMethod), "the spread has its own stage; model.method is "+string(c.Model.Method),
			"remove it, or set model.method: "+string(JointMethod))
	}
	if c.Model.Head != DistributionHead {
		add("model.head", "method "+string(StagesMethod)+" does not support head "+string(c.Model.Head), "its last stage predicts the distribution of the analysis",
			"set model.head: distribution, or model.method: "+string(JointMethod))
	}
	if c.Model.Pretrained != "" {
		add("model.pretrained", "model.pretrained with method "+string(StagesMethod), "its networks differ, but a file has the weights of one",
			"remove it, or set model.method: "+string(JointMethod))
	}
	return faults
}
