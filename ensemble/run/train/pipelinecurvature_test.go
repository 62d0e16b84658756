package train_test

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// kfacInPipelines are overrides of a training by K-FAC, on one rank and in pipelines, with factors in every third step.
var kfacInPipelines = append(slices.Clone(kfacTraining), "model.dropout=0", "train.batch_size=4", "train.clip=0.05", "train.ema=0.5")

// nearRank compares the losses of a run with those of one rank whose batch has all samples. Sums over micro-batches round in
// another order, which inverses enlarge.
func nearRank(t *testing.T, what any, got, want []float64) {
	t.Helper()
	if len(got) != len(want) || len(want) < 9 {
		t.Fatalf("%v: %d steps, want %d", what, len(got), len(want))
	}
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= 2e-5*math.Abs(want[i])) {
			t.Fatalf("%v, step %d: loss %v, on one rank %v", what, i+1, got[i], want[i])
		}
	}
}

// In a pipeline K-FAC takes the steps of one rank whose batch has all samples: the factors of all micro-batches, of all layers. If
// inverses are used later, these steps do not depend on where they are computed: in idle times of a pipeline, or by one rank. GPipe
// and 1F1B have the same bits. (More pipelines: TestLongPipelines.)
func TestKFACInPipelines(t *testing.T) {
	checkKFACInPipelines(t, []kfacPipelines{
		{nil, [][]string{append(pipelined(2, "1f1b"), "train.mesh=data:2")}},
		{[]string{"train.kfac.delay=2"}, [][]string{pipelined(2, "1f1b"), pipelined(2, "gpipe"), append(pipelined(4, "chimera"), "train.pipeline.recompute=true")}},
	})
}

// kfacPipelines are overrides of a training, and of pipelines that take its steps. The first two of three differ in the schedule only.
type kfacPipelines struct {
	set       []string
	pipelines [][]string
}

// checkKFACInPipelines compares each training with those in its pipelines.
func checkKFACInPipelines(t *testing.T, cases []kfacPipelines) {
	f, dirs := demotest.Files(t), t.TempDir()
	run := func(set ...string) string {
		dir := filepath.Join(dirs, fmt.Sprint(set))
		if _, err := train.Run(t.Context(), train.Options{Config: demotest.Config(t, f, append(slices.Clone(kfacInPipelines), set...)...), RunDir: dir, Version: "test"}); err != nil {
			t.Fatalf("%v: %v", set, err)
		}
		return dir
	}
	for _, c := range cases {
		want, digests := runtest.Losses(t, run(c.set...)), []string{}
		for _, p := range c.pipelines {
			dir := run(append(p, c.set...)...)
			nearRank(t, p, runtest.Losses(t, dir), want)
			digests = append(digests, runtest.Digest(t, dir))
			checkFilled(t, dir, c.set != nil)
		}
		if len(digests) == 3 && digests[0] != digests[1] {
			t.Error("1f1b and gpipe end with other weights")
		}
	}
}

// checkFilled checks that inversions ran in idle times if they may, else between steps.
func checkFilled(t *testing.T, dir string, mayFill bool) {
	t.Helper()
	filled, exposed := 0., 0.
	for _, e := range runtest.Epochs(t, dir) {
		f, ok := e.Number("filled_s")
		x, both := e.Number("exposed_s")
		share, all := e.Number("pipeline_filled")
		steps, _ := e.Number("pipeline_s")
		idle, _ := e.Number("pipeline_idle")
		if !ok || !both || !all || math.Abs(share*steps-f) > 1e-9*steps || !(share < idle) {
			t.Errorf("epoch %d: %v s of inversions in steps of %v s, share %v of idle %v", e.Epoch, f, steps, share, idle)
		}
		filled, exposed = filled+f, exposed+x
	}
	if (filled > 0) != mayFill || !(exposed > 0) {
		t.Errorf("%v s of inversions in idle times, %v s between steps", filled, exposed)
	}
}

// K-FAC in a pipeline leaves the same bits on any number of processes, also if it is stopped while inverses are not in use yet and
// resumed on another number. (More pipelines: TestLongPipelines.)
func TestKFACInPipelinesOnAnyProcesses(t *testing.T) {
	traintest.CheckProcessCounts(t, []traintest.ProcessCounts{{Mesh: "lat:2", Processes: [][]int{{3, 1}}, Overrides: slices.Concat(kfacOnProcesses, pipelined(2, "chimera"))}})
}

// kfacOnProcesses are overrides of trainings whose inverses are used later.
var kfacOnProcesses = append(slices.Clone(kfacInPipelines), "train.epochs=2", "train.kfac.delay=2", "train.kfac.adaptive=true")

// A checkpoint with factors of a pipeline continues on other stages, and on one rank, and the reverse.
func TestKFACResumesOnOtherStages(t *testing.T) {
	f, dirs := demotest.Files(t), t.TempDir()
	run := func(dir string, stop int, set ...string) error {
		asked := 0
		_, err := train.Run(t.Context(), train.Options{Config: demotest.Config(t, f, slices.Concat(kfacInPipelines, []string{"train.kfac.delay=2"}, set)...), RunDir: filepath.Join(dirs, dir), Version: "test", Resume: "auto",
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
	for i, legs := range [][2][]string{{pipelined(4, "1f1b"), pipelined(2, "chimera")}, {append(pipelined(2, "1f1b"), "train.mesh=lat:2"), nil}, {nil, pipelined(4, "gpipe")}} {
		dir, stop := fmt.Sprint(i), 5+i // after factors, before their inverses are used, after that
		if err := run(dir, stop, legs[0]...); exit.CodeOf(err) != exit.SaveAndStop {
			t.Fatalf("%v: %v", legs, err)
		}
		if err := run(dir, 0, legs[1]...); err != nil {
			t.Fatalf("%v: %v", legs, err)
		}
		nearRank(t, legs, runtest.Losses(t, filepath.Join(dirs, dir)), want)
	}
}
