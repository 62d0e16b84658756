package config

import (
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Settings that pre-training on members does not support are refused with the nearest ones that work.
func TestPretrainRefusals(t *testing.T) {
	const on = "train.pretrain.epochs=20"
	for _, c := range []struct {
		set []string
		fix string // "": accepted
	}{
		{[]string{on}, ""},
		{[]string{on, "train.pretrain.learning_rate=0.003"}, ""},
		{[]string{on, "data.members.use=9", "data.members.full=10"}, ""},
		{[]string{on, "data.members.use=10", "data.members.full=10"}, "data.members.use: 9 or less"},
		{[]string{on, "data.members.use=[0, 1, 2]"}, "give their number"},
		{[]string{on, "model.head=spread", "train.loss.kind=mse"}, "model.head: distribution"},
		{[]string{on, "model.method=three_stage"}, "model.method: joint"},
		{[]string{on, "model.reference=emos"}, "model.reference: none"},
		{[]string{on, "teacher.runs=[runs/a]"}, "remove teacher"},
		{[]string{on, "prune.method=magnitude", "prune.target=0.5"}, "prune.method: none"},
		{[]string{on, "train.schedule=plateau"}, "train.schedule: cosine"},
		{[]string{on, "train.schedule=constant"}, ""},
		{[]string{"train.pretrain.learning_rate=0.003"}, "remove learning_rate"},
		{[]string{"train.pretrain.epochs=-1"}, "0 to"},
	} {
		_, err := LoadTrain(Sources{Files: []string{write(t, "x.yaml", good)}, Set: c.set})
		if c.fix == "" && err != nil || c.fix != "" && (exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), c.fix)) {
			t.Errorf("%v: error %v, want fix %q", c.set, err, c.fix)
		}
	}
}

// The pre-training has its own epochs and, if given, learning rate, and never ends early. Both keys change results, so that
// they are part of the identity of a run and cannot change on resuming.
func TestPretrainSettings(t *testing.T) {
	load := func(set ...string) *TrainConfig {
		t.Helper()
		c, err := LoadTrain(Sources{Files: []string{write(t, "x.yaml", good)}, Set: append([]string{"train.epochs=7", "train.early_stop.patience=3"}, set...)})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	plain, short, fast := load(), load("train.pretrain.epochs=20"), load("train.pretrain.epochs=20", "train.pretrain.learning_rate=0.01")
	for _, c := range []struct {
		of   *TrainConfig
		rate float64
	}{{short, 0.001}, {fast, 0.01}} {
		if p := c.of.Train.Train.ForPretraining(); p.Epochs != 20 || p.LearningRate != c.rate || p.EarlyStop.Patience != 0 {
			t.Errorf("pre-training %+v", p)
		}
		if own := c.of.Train.Train; own.Epochs != 7 || own.LearningRate != 0.001 || own.EarlyStop.Patience != 3 {
			t.Errorf("fine-tuning %+v", own)
		}
	}
	if plain.Identity() == short.Identity() || short.Identity() == fast.Identity() || plain.ResumeIdentity() == short.ResumeIdentity() || short.ResumeIdentity() == fast.ResumeIdentity() {
		t.Error("a key of train.pretrain does not change the identity")
	}
}
