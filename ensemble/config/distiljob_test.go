package config

import (
	"strings"
	"testing"
)

// TestTrainingOfAStudent: what is given of the student is its own, the rest that of its teacher's training, but for how
// that was pruned, what it began with, how it was pre-trained and who taught it.
func TestTrainingOfAStudent(t *testing.T) {
	file := write(t, "effective.yaml", minimal+"model: {base: 8, dropout: 0.1, pretrained: /w.safetensors}\nprune: {method: magnitude, target: 0.9, scope: global, keep: [out]}\n"+
		"train: {epochs: 60, learning_rate: 0.003, networks: 3, seed: 7, pretrain: {epochs: 20, learning_rate: 0.01}}\nteacher: {runs: [/runs/older], weight: 0.9}\n")
	job, err := LoadDistil(Sources{Files: []string{write(t, "distil.yaml", "version: 1\nteachers: [runs/a, runs/b]\nepochs: 10\nnetworks: 1\nmodel: {base: 2, kind: unet2d}\n")}})
	if err != nil {
		t.Fatal(err)
	}
	tr, err := job.Training(file, []string{"/runs/a", "/runs/b, c"})
	if err != nil {
		t.Fatal(err)
	}
	if m := tr.Train.Train; m.Epochs != 10 || m.LearningRate != 0.003 || m.Networks != 1 || m.Seed != 7 || m.Pretrain != (Pretrain{}) {
		t.Errorf("training %+v", m)
	}
	if m := tr.Model; m.Base != 2 || m.Kind != "unet2d" || m.Dropout != 0.1 || m.Pretrained != "" {
		t.Errorf("model %+v", m)
	}
	if tr.Prune.Method != NoPruning || tr.Teacher.Weight != 0.5 || len(tr.Teacher.Runs) != 2 || tr.Teacher.Runs[1] != "/runs/b, c" {
		t.Errorf("%+v, taught by %+v", tr.Prune, tr.Teacher)
	}
}

func TestStudentsThatCannotBeTaught(t *testing.T) {
	for text, want := range map[string]string{
		"version: 1\nteachers: []\n":                  "teachers is an empty list",
		"version: 1\nteachers: [a]\nweight: 1.5\n":    "weight is 1.5",
		"version: 1\nteachers: [a]\nmodel: {wide: 3}": `unknown key "wide"`,
	} {
		if _, err := LoadDistil(Sources{Files: []string{write(t, "distil.yaml", text)}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	job, err := LoadDistil(Sources{Files: []string{write(t, "distil.yaml", "version: 1\nteachers: [a]\nmodel: {head: spread}\n")}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := job.Training(write(t, "effective.yaml", minimal), []string{"/a"}); err == nil || !strings.Contains(err.Error(), "a teacher is not supported by head spread") {
		t.Errorf("%v for a student without a distribution", err)
	}
}

func TestSharesOfParameters(t *testing.T) {
	for text, want := range map[string]string{
		"model: {share: {budget: 50%, groups: one}}\n":                             "",
		"model: {share: {budget: 0.5}}\n":                                          "missing unit",
		"model: {share: {budget: 0%}}\n":                                           "model.share.budget is 0",
		"model: {share: {groups: one}}\n":                                          "model.share.groups without parameter sharing",
		"model: {share: {budget: 50%}}\nprune: {method: magnitude, target: 0.5}\n": "parameter sharing with pruning",
		"model: {share: {budget: 50%}, pretrained: w.safetensors}\n":               "parameter sharing with model.pretrained",
		"model: {share: {budget: 50%}, method: three_stage}\n":                     "with method three_stage",
	} {
		c, err := LoadTrain(Sources{Files: []string{write(t, "train.yaml", minimal+text)}})
		if want == "" && (err != nil || c.Model.Share.Budget != 0.5 || c.Model.Share.Templates != 2) {
			t.Errorf("%s: %+v, %v", text, c, err)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// A pruning job may name a teacher for the training between its rounds.
func TestTeacherOfAPruningJob(t *testing.T) {
	job, err := LoadPrune(Sources{Files: []string{write(t, "prune.yaml", "version: 1\nrun_dir: runs/a\nepochs: 10\nprune: {structure: channel, target: 0.75}\nteacher: {runs: [runs/a], weight: 0.8}\n")}})
	if err != nil {
		t.Fatal(err)
	}
	tr, err := job.Training(write(t, "effective.yaml", minimal+"teacher: {runs: [/runs/older], weight: 0.3}\n"), "/w.safetensors", 15)
	if err != nil {
		t.Fatal(err)
	}
	if tr.Teacher.Weight != 0.8 || len(tr.Teacher.Runs) != 1 || !strings.HasSuffix(string(tr.Teacher.Runs[0]), "/runs/a") {
		t.Errorf("taught by %+v", tr.Teacher)
	}
}
