//go:build long

package jobs

import (
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
)

// A mesh determines the bits of a training in stages, for any sequence of numbers of processes.
func TestLongStagesOnAnyProcesses(t *testing.T) {
	set := []string{"model.method=three_stage", "model.bias.base=2", "model.bias.folds=2", "model.bias.local=3",
		"data.split.fractions.train=0.8", "data.split.fractions.validation=0.05", "train.loss.spread=0"}
	traintest.CheckProcessCounts(t, []traintest.ProcessCounts{
		{Mesh: "lat:2", Processes: [][]int{{2, 1}, {1, 2}}, Overrides: set},
		{Mesh: "data:2 lon:2", Processes: [][]int{{3, 1, 4}}, Overrides: append(set, "train.shard_optimizer=true", "train.ema=0.5")},
	})
}

// TestLongStagesResume: the bits of TestStagesWholeJob, on one rank and stopped among corrections
// as well, those of its first and of its second epoch.
func TestLongStagesResume(t *testing.T) {
	traintest.CheckResume(t, runtest.StagedTraining(t, demotest.Files(t), "data.members.minimum=2"), 3, 20, 18, 8)
}
