package config

import (
	"cmp"
	"fmt"

	"github.com/ensemble-weather/ensemble/ensemble/config/schema"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Pretrain is the section train.pretrain: epochs before those of train.epochs in which a member of the full ensemble takes the
// place of the analysis. The zero value is no pre-training.
type Pretrain struct {
	Epochs       int     `key:"epochs"`
	LearningRate float64 `key:"learning_rate"` // 0: train.learning_rate
}

// IsEnabled reports whether networks are pre-trained.
func (p Pretrain) IsEnabled() bool { return p.Epochs > 0 }

// ForPretraining returns the training settings of the pre-training, which takes all its epochs.
func (t Training) ForPretraining() Training {
	t.Epochs = t.Pretrain.Epochs
	t.LearningRate = cmp.Or(t.Pretrain.LearningRate, t.LearningRate)
	t.EarlyStop.Patience = 0
	return t
}

// pretrainKeys are the rows of Pretrain.
func pretrainKeys() []schema.Key {
	return []schema.Key{
		{Path: "train.pretrain.epochs", Default: "0", Check: Between(0, 1e6), Example: "20",
			Help: "Epochs of pre-training before those of train.epochs: each sample draws a member of the full ensemble in place of the analysis, and its input members from the others. Then the network is fine-tuned on analyses. For archives with few initialisations. See docs/training.md."},
		{Path: "train.pretrain.learning_rate", Check: Above(0), Example: "0.003",
			Help: "Learning rate of the pre-training, with the schedule and warm-up of the training. Default: train.learning_rate."},
	}
}

// checkPretrain checks that other settings support pre-training.
func (c *TrainConfig) checkPretrain() []*exit.Error {
	var faults []*exit.Error
	add := func(path, what, why, fix string) { faults = append(faults, c.Fault(path, what, why, fix)) }
	const path, rate, or = "train.pretrain.epochs", "train.pretrain.learning_rate", ", or train.pretrain.epochs: 0"
	t, members := c.Train.Train, c.Data.Members
	if !t.Pretrain.IsEnabled() {
		if c.text(rate) != "" {
			add(rate, rate+" without pre-training", path+" is 0", "set "+path+", for example to 20, or remove learning_rate")
		}
		return faults
	}
	if members.Full > 0 {
		if err := CheckPretrainMembers(members.Use.N(), members.Full); err != nil {
			faults = append(faults, c.Fault("data.members.use", err.What, err.Why, err.Fix))
		}
	}
	for _, x := range []struct {
		refused        bool
		path, why, fix string
	}{
		{members.Use.List != nil, "data.members.use", "input members are drawn from those that do not verify", "give their number"},
		{c.Model.Head == SpreadHead, "model.head", "its target is the spread of the full ensemble, not an analysis that a member could replace", "set model.head: " + string(DistributionHead)},
		{c.Model.Method == StagesMethod, "model.method", "its bias stage would learn that there is no bias", "set model.method: " + string(JointMethod)},
		{c.Model.Reference != NoReference, "model.reference", "the baseline is fitted to analyses, so that its correction of bias is an error for members", "set model.reference: " + NoReference},
		{len(c.Teacher.Runs) > 0, "teacher.runs", "a teacher predicts analyses, not members", "remove teacher"},
		{c.Prune.Method != NoPruning, "prune.method", "weights would be removed by what members need, and again in fine-tuning", "set prune.method: " + NoPruning + " and prune the finished run with `ensemble prune`"},
		{t.Schedule == "plateau", "train.schedule", "its rate follows the validation loss on analyses, which the pre-training does not lower", "set train.schedule: cosine"},
	} {
		if x.refused {
			add(x.path, x.path+" with train.pretrain", x.why, x.fix+or)
		}
	}
	return faults
}

// CheckPretrainMembers checks that a full ensemble of full members has one that verifies besides the used input members.
//
// Errors: exit 64.
func CheckPretrainMembers(used, full int) *exit.Error {
	if full > used {
		return nil
	}
	return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("pre-training with %d input members of a full ensemble of %d", used, full), At: "data.members.use",
		Why: "one member takes the place of the analysis, and the input members are others", Fix: fmt.Sprintf("set data.members.use: %d or less, add the files of more members, or set train.pretrain.epochs: 0", full-1)}
}
