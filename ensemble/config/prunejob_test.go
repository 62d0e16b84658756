package config

import (
	"math"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// TestTrainingOfAPruningJob: rounds become a schedule of the training, at whose steps as much is left as the
// cubic curve from the round before the first has; how the network was pruned and pre-trained before does not matter.
func TestTrainingOfAPruningJob(t *testing.T) {
	file := write(t, "effective.yaml", minimal+"prune: {method: rigl, target: 0.9, drop_fraction: 0.2}\ntrain: {epochs: 60, batch_size: 4, accumulate: 2, learning_rate: 0.003, pretrain: {epochs: 20, learning_rate: 0.01}}\n")
	for _, c := range []struct {
		rounds, every int
		initial, to   float64 // share of the epochs
	}{
		{4, 20, 0.75 * (1 - 27./64), 3. / 4},
		{2, 20, 0.75 * 7 / 8, 1. / 2},
		{1, 1, 0, 1. / 20}, // of 20 steps the second
	} {
		job, err := LoadPrune(Sources{Files: []string{write(t, "prune.yaml", "version: 1\nrun_dir: runs/a\nepochs: 10\nprune: {structure: channel, target: 0.75}\n")},
			Set: []string{"rounds=" + string(rune('0'+c.rounds))}})
		if err != nil {
			t.Fatal(err)
		}
		tr, err := job.Training(file, "/w.safetensors", 15) // 4 batches, 2 steps an epoch
		if err != nil {
			t.Fatal(err)
		}
		p, epochs := tr.Prune, 10*c.rounds
		if p.Method != MagnitudePruning || p.Structure != ChannelStructure || p.Every != c.every || math.Abs(p.Initial-c.initial) > 1e-12 ||
			p.From.Fraction(epochs) != 0 || math.Abs(p.To.Fraction(epochs)-c.to) > 1e-12 {
			t.Errorf("%d rounds: %+v, want every %d from %g until %g", c.rounds, p, c.every, c.initial, c.to)
		}
		if m := tr.Train.Train; m.Epochs != epochs || m.LearningRate != 0.001 || m.EarlyStop.Patience != 0 || m.Pretrain != (Pretrain{}) || tr.Model.Pretrained != "/w.safetensors" {
			t.Errorf("%d rounds: training %+v, start %s", c.rounds, m, tr.Model.Pretrained)
		}
	}
}

func TestPruningJobFaults(t *testing.T) {
	for text, want := range map[string]string{
		"prune: {target: 0.5, from: 3%}":                                                 "prune.from is not used by `ensemble prune`",
		"prune: {method: rigl, target: 0.5}":                                             "prune.method is rigl, want one of obs, magnitude, random, movement",
		"prune: {method: obs, target: 0.5}":                                              "prune.method: obs with structure element",
		"epochs: 0\nprune: {target: 0.5, structure: channel}":                            "structure channel without training",
		"epochs: 0\nprune: {target: 0.5, method: movement}":                              "prune.method: movement with epochs: 0",
		"epochs: 0\nrounds: 2\nprune: {target: 0.5}":                                     "rounds without training",
		"epochs: 0\nprune: {target: 1}":                                                  "prune.target is 1",
		"epochs: 3\nprune: {method: obs, target: 0.5, structure: block}":                 "prune.method: obs does not train",
		"calibration: {inits: 3}\nprune: {target: 0.5}":                                  "calibration.inits is not used by prune.method: magnitude",
		"calibration: {damping: 0}\nprune: {method: obs, target: 0.5, structure: block}": "calibration.damping is 0",
		"rounds: 0\nprune: {target: 0.5}":                                                "rounds is 0",
		"learning_rate: 0\nprune: {target: 0.5}":                                         "learning_rate is 0",
		"prune: {target: 0.5}\nbefore: [runs/b]":                                         "unknown key",
		"prune: {target: 0.5, structure: chanel}":                                        "want one of",
	} {
		_, err := LoadPrune(Sources{Files: []string{write(t, "prune.yaml", "version: 1\nrun_dir: runs/a\n"+text+"\n")}})
		if exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
