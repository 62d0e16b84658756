package train_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples/samplestest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// pipelined lists overrides of a training in a pipeline with four micro-batches of one sample.
func pipelined(stages int, schedule string) []string {
	return []string{"train.batch_size=4", fmt.Sprint("train.pipeline.stages=", stages), "train.pipeline.schedule=" + schedule}
}

// accumulated lists overrides of a training that takes the same steps on one rank.
var accumulated = []string{"train.batch_size=1", "train.accumulate=4"}

// far is the largest difference between losses of a pipeline and of one rank, relative to the loss. Fusions differ at cuts, and
// weights of micro-batches are rounded to float32: some 1e-7 in a gradient, of which steps of Adam enlarge the small ones.
const far = 2e-6

// compareLosses compares the losses of two runs.
func compareLosses(t *testing.T, what any, got, want []float64) {
	t.Helper()
	if len(got) != len(want) || len(want) < 4 {
		t.Fatalf("%v: %d steps, want %d", what, len(got), len(want))
	}
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= far*math.Abs(want[i])) {
			t.Fatalf("%v, step %d: loss %v, on one rank %v", what, i+1, got[i], want[i])
		}
	}
}

// checkPipelines compares trainings in pipelines, of a number of stages and a schedule each, with the training of one rank that
// accumulates the micro-batches. It returns their digests.
func checkPipelines(t *testing.T, set []string, pipelines ...[]string) (digests []string) {
	t.Helper()
	f, dirs := demotest.Files(t), t.TempDir()
	run := func(more []string) string {
		dir := filepath.Join(dirs, fmt.Sprint(more))
		if _, err := train.Run(t.Context(), train.Options{Config: demotest.Config(t, f, slices.Concat([]string{"train.networks=1", "train.epochs=2"}, set, more)...), RunDir: dir, Version: "test"}); err != nil {
			t.Fatalf("%v: %v", more, err)
		}
		return dir
	}
	want := runtest.Losses(t, run(accumulated))
	for _, p := range pipelines {
		dir := run(p)
		compareLosses(t, p, runtest.Losses(t, dir), want)
		checkIdle(t, dir)
		digests = append(digests, runtest.Digest(t, dir))
	}
	return digests
}

// checkIdle checks the idle share of epoch events.
func checkIdle(t *testing.T, dir string) {
	t.Helper()
	for _, e := range runtest.Epochs(t, dir) {
		idle, ok := e.Number("pipeline_idle")
		steps, _ := e.Number("pipeline_s")
		passes, _ := e.Number("passes_s")
		if !ok || !(idle > 0 && idle < 1) || math.Abs(passes-(1-idle)*steps) > 1e-6*steps {
			t.Errorf("epoch %d: idle share %v of %v s with passes of %v s", e.Epoch, idle, steps, passes)
		}
	}
}

// In a pipeline a training takes the steps of a single rank that accumulates the micro-batches: with dropout, clipping, norms over
// all stages (lamb), averaged weights, missing points and a last batch that is not full. GPipe and 1F1B add in the same order, so
// their weights have the same bits.
func TestTrainInPipelines(t *testing.T) {
	digests := checkPipelines(t, []string{"model.dropout=0.2", "train.ema=0.5", "train.optimizer=lamb", "train.clip=0.05"},
		pipelined(4, "gpipe"), append(pipelined(4, "1f1b"), "train.pipeline.recompute=true"), pipelined(2, "chimera"))
	if digests[0] != digests[1] {
		t.Error("gpipe, and 1f1b that computes forward passes again, end with other weights")
	}
}

// A group of ranks with a mesh computes a stage together.
func TestTrainInPipelinesOfMeshes(t *testing.T) {
	checkPipelines(t, []string{"model.dropout=0.2", "train.optimizer=lamb", "train.clip=0.05", "train.ema=0.5"}, append(pipelined(2, "1f1b"), "train.mesh=lat:2"), append(pipelined(2, "chimera"), "train.mesh=lon:3"))
}

// Data ranks have different micro-batches, also with a mesh for their fields: a batch has two of one sample on each of two ranks.
// Dropout draws the numbers of one rank that accumulates all four. (More schedules: TestLongPipelines.)
func TestTrainInPipelinesOfDataRanks(t *testing.T) {
	checkPipelines(t, []string{"model.dropout=0.2", "train.optimizer=lamb", "train.clip=0.05", "train.ema=0.5"},
		append(pipelined(2, "chimera"), "train.mesh=data:2"), append(pipelined(2, "1f1b"), "train.mesh=lat:2 data:2"))
}

// Several stages share the filters of recurrent cells: their gradients are summed, and one rank updates them for all.
func TestTrainTemporalNetworksInPipelines(t *testing.T) {
	checkPipelines(t, runtest.TwoLeads("model.kind=conv_gru"), pipelined(4, "chimera"))
	checkPipelines(t, runtest.TwoLeads("model.kind=unet_2plus1d", "train.precision=bf16"), pipelined(2, "1f1b"))
}

// A pipeline leaves the same bits on any number of processes, also if it is stopped and resumed on another number; with several
// batches in a step. (More pipelines: TestLongPipelines.)
func TestPipelinesOnAnyProcesses(t *testing.T) {
	traintest.CheckProcessCounts(t, []traintest.ProcessCounts{
		{Mesh: "lat:2", Processes: [][]int{{3, 1}}, Overrides: pipelined(2, "1f1b")},
		{Mesh: "data:2", Processes: [][]int{{3, 1}}, Overrides: append(pipelined(2, "chimera"), "train.accumulate=2", "train.ema=0.5")}})
}

// A checkpoint of a pipeline continues on other stages, and on one rank without a pipeline, and the reverse. (More pairs: TestLongPipelines.)
func TestPipelinesResumeOnOtherStages(t *testing.T) {
	checkOtherStages(t, [][2][]string{{pipelined(4, "1f1b"), pipelined(2, "chimera")}, {append(pipelined(2, "1f1b"), "train.mesh=data:2"), nil}, {nil, append(pipelined(2, "chimera"), "train.mesh=data:2")}})
}

// checkOtherStages stops a training with the first overrides of each pair and continues it with the second.
func checkOtherStages(t *testing.T, pairs [][2][]string) {
	f, dirs := demotest.Files(t), t.TempDir()
	run := func(dir string, stop int, set ...string) error {
		asked := 0
		_, err := train.Run(t.Context(), train.Options{Config: demotest.Config(t, f, append([]string{"train.networks=1", "train.epochs=2", "train.ema=0.5", "model.dropout=0"}, set...)...), RunDir: filepath.Join(dirs, dir), Version: "test", Resume: "auto",
			Stop: func() error {
				if asked++; asked == stop {
					return &exit.Error{Code: exit.SaveAndStop, What: "stop requested"}
				}
				return nil
			}})
		return err
	}
	if err := run("whole", 0); err != nil {
		t.Fatal(err)
	}
	want := runtest.Losses(t, filepath.Join(dirs, "whole"))
	for i, legs := range pairs {
		dir := fmt.Sprint(i)
		if err := run(dir, 4, legs[0]...); exit.CodeOf(err) != exit.SaveAndStop {
			t.Fatalf("%v: %v", legs, err)
		}
		if err := run(dir, 0, legs[1]...); err != nil {
			t.Fatalf("%v: %v", legs, err)
		}
		compareLosses(t, legs, runtest.Losses(t, filepath.Join(dirs, dir)), want)
		m, err := rundir.ReadManifest(filepath.Join(dirs, dir))
		if err != nil {
			t.Fatal(err)
		}
		if compared, _ := m.Details["ranks"].(map[string]any); legs[1] != nil && !strings.HasPrefix(fmt.Sprint(compared["mesh"]), "pipeline ") {
			t.Errorf("the manifest records the mesh %v", compared["mesh"])
		}
	}
}

// Pipelines that suit neither ranks nor network are refused by all ranks together before a run directory exists.
func TestPipelinesAreRefused(t *testing.T) {
	f := demotest.Files(t)
	for _, c := range []struct {
		ranks     int // 0: as many as stages
		set       []string
		what, fix string
	}{
		{0, append(pipelined(2, "1f1b"), "train.mesh=channel:2"), `the mesh "channel:2" with train.pipeline`, "such as lat:2"},
		{0, append(pipelined(2, "1f1b"), "train.mesh=data:3"), "batches of 4 samples with 1 micro-batch of 3 data ranks", "train.batch_size: 3"},
		{0, append(pipelined(2, "1f1b"), "train.mesh=data:2", "train.batch_size=6", "train.pipeline.micro_batches=2"), "batches of 6 samples with 2 micro-batches of 2 data ranks", "train.batch_size: 8"},
		{3, append(pipelined(2, "1f1b"), "train.mesh=data:2"), "a pipeline of 2 stages of 2 ranks each on 3 ranks", "start 4 processes"},
		{0, append(pipelined(2, "1f1b"), "train.mesh=level:3"), "3 ranks along level", "level:2"},
		{3, append(pipelined(2, "1f1b"), "train.mesh=lat:2"), "a pipeline of 2 stages of 2 ranks each on 3 ranks", "start 4 processes"},
		{3, pipelined(2, "1f1b"), "a pipeline of 2 stages on 3 ranks", "start 2 processes, or add --set train.pipeline.stages=3"},
		{0, pipelined(3, "chimera"), "no Chimera schedule of 3 stages", "use 2 or 4 stages"},
		{0, append(pipelined(4, "chimera"), "train.pipeline.pairs=3"), "3 pairs of pipes", "use 2 pairs"},
		{0, append(pipelined(4, "chimera"), "train.batch_size=6"), "6 micro-batches", "use 4 or 8 micro-batches"},
		{0, pipelined(60, "1f1b"), "layers into 60 stages", "stages or fewer"},
		{0, append(pipelined(2, "1f1b"), "model.kind=unet2d", "model.head=spread", "train.loss.kind=l1", "train.loss.spread=0"), "model.kind: unet2d with train.pipeline", "set model.kind: unet3d"},
	} {
		runDir := filepath.Join(t.TempDir(), "run")
		o := train.Options{RunDir: runDir, Version: "test", Config: demotest.Config(t, f, append(c.set, "train.networks=1")...)}
		var err error
		if c.ranks > 0 {
			err = traintest.TrainOnRanks(c.ranks, func(int) train.Options { return o })
		} else {
			_, err = train.Run(t.Context(), o)
		}
		var e *exit.Error
		if !errors.As(err, &e) || e.Code != exit.Usage || !strings.Contains(e.What, c.what) || !strings.Contains(e.Fix, c.fix) || e.At == "" {
			t.Errorf("%v: %v, want %q and %q", c.set, err, c.what, c.fix)
		}
		if _, err := os.Stat(runDir); err == nil {
			t.Errorf("%v: a run directory was made", c.set)
		}
	}
}

// All ranks of a pipeline use all samples, and together read each from the store once; those of the others come from their memory.
func TestPipelineReadsStoreOnce(t *testing.T) {
	set := append(runtest.ShortTraining, "train.networks=1", "data.store="+samplestest.PrepareStore(t, demotest.Config(t, demotest.Files(t)), "f32"))
	_, alone := trainCounted(t, 1, append(slices.Clone(set), accumulated...))
	_, counts := trainCounted(t, 2, append(slices.Clone(set), pipelined(2, "1f1b")...))
	const files, peers = "file_system_reads", "peers_reads"
	if got, want := counts["all"][files], alone["all"][files]; got != want || want == 0 || counts["all"][peers] < want {
		t.Errorf("%v reads of files, on one rank %v; %v from other ranks", got, want, counts["all"][peers])
	}
}
