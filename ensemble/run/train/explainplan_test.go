package train

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/explain"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// TestExplainTrainerPlan checks that explain describes the trainer's plan, kernel by kernel with work
// division, layout, workspace and memory offset, for all settings of memory, workspace, precision and
// threads.
func TestExplainTrainerPlan(t *testing.T) {
	f := demotest.Files(t)
	plans := map[string][]string{}
	for _, set := range [][]string{
		nil,
		{"train.workspace=4MiB"},
		{"train.memory=18MiB"},
		{"train.precision=bf16"},
		{"train.threads=2"},
		{"model.head=spread", "train.loss.kind=ms_ssim", "model.periodic=true"},
	} {
		c := demotest.Config(t, f, append([]string{"model.base=16", "train.batch_size=3"}, set...)...)
		got, want := plannedText(t, explain.Options{Config: c}), trainerPlan(t, c, setup.Timings{})
		if got != want {
			t.Errorf("%q: %s", set, runtest.FirstDifference(got, want))
		}
		plans[want] = append(plans[want], strings.Join(set, " "))
	}
	for _, sets := range plans {
		if len(sets) > 1 {
			t.Errorf("the plans of %q are the same, so this test cannot tell them apart", sets)
		}
	}
}

// TestExplainTimings checks that explain chooses kernels from the same table of timings as the trainer.
func TestExplainTimings(t *testing.T) {
	c := runtest.FiftySteps(t)
	measured, reversed := setup.Timings{Dir: t.TempDir()}, setup.Timings{Dir: t.TempDir()}
	first := trainerPlan(t, c, measured)
	if got := plannedText(t, explain.Options{Config: c, Timings: measured}); got != first {
		t.Errorf("with the trainer's table: %s", runtest.FirstDifference(got, first))
	}
	reverseTimings(t, measured, reversed, c.Train.Train.Threads)
	want := trainerPlan(t, c, reversed)
	if want == first {
		t.Error("the other table gives the same plan, so this test cannot tell them apart")
	}
	if got := plannedText(t, explain.Options{Config: c, Timings: reversed}); got != want {
		t.Errorf("with the other table: %s", runtest.FirstDifference(got, want))
	}
	own := setup.Timings{Dir: t.TempDir()}
	plannedText(t, explain.Options{Config: c, Timings: own})
	if own.Open(2).String() == "" {
		t.Error("what was measured is not kept")
	}
}

// trainerPlan returns the first plan that a training of the configuration compiles.
func trainerPlan(t *testing.T, c *config.TrainConfig, timings setup.Timings) string {
	t.Helper()
	files := func(key string, patterns []config.Path) []string {
		names, err := input.ConfigFiles(key, patterns)
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	d, err := samples.ReadData(context.Background(), c, files("data.forecasts", c.Data.Forecasts), files("data.analyses", c.Data.Analyses), nil)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := prepare(context.Background(), Options{Config: c, Timings: timings}, &trainingRun{}, d)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.end()
	if err := tr.begin(); exit.CodeOf(err) == exit.NoDevice {
		t.Skip("skipped: no device: ", err)
	} else if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := tr.current.train.Plan.Explain(&text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// reverseTimings writes a table with the slowest cuts of another as the fastest.
func reverseTimings(t *testing.T, from, to setup.Timings, threads int) {
	t.Helper()
	table, other := from.Open(threads), to.Open(threads)
	for _, line := range strings.Split(table.String(), "\n") {
		i := strings.LastIndex(line, ": ")
		if i < 0 || strings.HasPrefix(line, " ") {
			continue
		}
		e, ok := table.Lookup(line[:i])
		if !ok {
			t.Fatalf("no entry %q", line[:i])
		}
		for k := range e.Candidates {
			e.Candidates[k].CPU = time.Duration(1+len(e.Candidates)-k) * time.Second
		}
		slices.Reverse(e.Candidates)
		e.Choice = e.Candidates[0].Name
		other.Record(line[:i], e)
	}
	to.Save(other)
}

// plannedText is the plan of a training as explain writes it, without measured peaks.
func plannedText(t *testing.T, o explain.Options) string {
	t.Helper()
	o.Peaks = engine.Peaks{FLOPs: 1, Bytes: 1} // not measured
	r, err := explain.Run(context.Background(), o)
	if exit.CodeOf(err) == exit.NoDevice {
		t.Skip("skipped: no device: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.Peaks = engine.Peaks{}
	var text strings.Builder
	if err := r.PlanSections().WriteText(&text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}
