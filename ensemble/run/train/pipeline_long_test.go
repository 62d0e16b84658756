//go:build long

package train_test

import (
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
)

// TestLongPipelines trains in pipelines of further stages, schedules and meshes than the tests of which it has the names.
func TestLongPipelines(t *testing.T) {
	t.Run("data ranks", func(t *testing.T) {
		digests := checkPipelines(t, []string{"model.dropout=0.2", "train.optimizer=lamb", "train.clip=0.05", "train.ema=0.5"},
			append(pipelined(2, "gpipe"), "train.mesh=data:2"), append(pipelined(2, "1f1b"), "train.mesh=data:2"))
		if digests[0] != digests[1] {
			t.Error("gpipe and 1f1b end with other weights")
		}
	})
	t.Run("any processes", func(t *testing.T) {
		traintest.CheckProcessCounts(t, []traintest.ProcessCounts{{Processes: [][]int{{3, 1}}, Overrides: append(pipelined(4, "chimera"), "train.accumulate=2", "train.ema=0.5")},
			{Mesh: "data:2", Processes: [][]int{{3, 1}}, Overrides: pipelined(2, "chimera")}})
	})
	t.Run("other stages", func(t *testing.T) {
		checkOtherStages(t, [][2][]string{{pipelined(2, "gpipe"), nil}, {nil, pipelined(2, "1f1b")}})
	})
	t.Run("K-FAC", func(t *testing.T) {
		checkKFACInPipelines(t, []kfacPipelines{
			{nil, [][]string{append(pipelined(4, "chimera"), "train.pipeline.recompute=true")}},
			{[]string{"train.kfac.delay=2"}, [][]string{pipelined(4, "chimera")}},
			{[]string{"train.kfac.delay=3", "train.kfac.adaptive=true", "train.kfac.rule=sgd"}, [][]string{append(pipelined(2, "gpipe"), "train.mesh=lat:2")}},
		})
	})
	t.Run("K-FAC on any processes", func(t *testing.T) {
		traintest.CheckProcessCounts(t, []traintest.ProcessCounts{{Processes: [][]int{{3, 1}}, Overrides: slices.Concat(kfacOnProcesses, pipelined(4, "chimera"))},
			{Mesh: "lat:2", Processes: [][]int{{1, 3}}, Overrides: slices.Concat(kfacOnProcesses, pipelined(2, "1f1b"))}})
	})
}
