package train

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/quality"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/mllog"
	"github.com/ensemble-weather/ensemble/internal/mllog/mllogtest"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// The log of a timed training follows the rules; its clock stops at the first validation loss below the
// target. A log covers one process from its start.
func TestTimedTraining(t *testing.T) {
	f := demotest.Files(t)
	dir := t.TempDir()
	c := demotest.Config(t, f, "train.networks=1", "train.epochs=3")
	log := filepath.Join(dir, "never.txt")
	o := Options{Config: c, RunDir: filepath.Join(dir, "a"), Version: "test", Timing: quality.Options{Log: log, Benchmark: "ensemble_test", Target: 1e-3}}
	if _, err := Run(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	if was, err := quality.Read(log); err != nil || was.Reached || !(was.Seconds > 0) || !(was.Processor > 0) || was.Epochs != 3 || was.Steps != 12 {
		t.Errorf("%+v, %v", was, err)
	}
	all, err := rundir.ReadEvents(o.RunDir)
	if err != nil {
		t.Fatal(err)
	}
	var losses []float64
	for _, e := range all {
		if v, ok := e.Number("validation_loss"); ok {
			losses = append(losses, v)
		}
	}
	events := eventsOf(t, log)
	var logged []float64
	for _, e := range events {
		if e.Key == mllog.EvalAccuracy {
			logged = append(logged, e.Value.(float64))
		}
	}
	if len(losses) != 3 || len(logged) != 3 || logged[1] != losses[1] || !(losses[1] < losses[0]) {
		t.Fatalf("losses %v, logged %v", losses, logged)
	}
	mllogtest.Check(t, log)

	// The same training, to a quality that its second epoch reaches.
	o.RunDir, o.Timing.Log, o.Timing.Target = filepath.Join(dir, "b"), filepath.Join(dir, "reached.txt"), losses[1]
	if _, err := Run(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	was, err := quality.Read(o.Timing.Log)
	if last := eventsOf(t, o.Timing.Log); err != nil || !was.Reached || was.Epochs != 2 || was.Loss != losses[1] || last[len(last)-1].Key != mllog.RunStop || strings.Count(read(t, o.Timing.Log), mllog.EvalAccuracy) != 2 {
		t.Errorf("%+v, %v\n%s", was, err, read(t, o.Timing.Log))
	}
	mllogtest.Check(t, o.Timing.Log)

	// A status that the losses do not show is refused, in both directions.
	for path, swap := range map[string][2]string{log: {mllog.Aborted, mllog.Success}, o.Timing.Log: {mllog.Success, mllog.Aborted}} {
		text := read(t, path)
		edited := filepath.Join(dir, "edited.txt")
		if err := os.WriteFile(edited, []byte(strings.Replace(text, `"status":"`+swap[0], `"status":"`+swap[1], 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := quality.Read(edited); exit.CodeOf(err) != exit.BadData || read(t, edited) == text {
			t.Errorf("an edited status %q: %v", swap[1], err)
		}
	}

	// A log that is there, and a run that is finished, are refused; a log without an end is no time.
	if _, err := Run(context.Background(), o); exit.CodeOf(err) != exit.CannotWrite {
		t.Errorf("a log that is there: %v", err)
	}
	o.Timing.Log = filepath.Join(dir, "late.txt")
	if _, err := Run(context.Background(), o); exit.CodeOf(err) != exit.CannotWrite || !strings.Contains(err.Error(), "finished") {
		t.Errorf("a finished run: %v", err)
	}
	if _, err := os.Stat(o.Timing.Log); err == nil {
		t.Error("a run that was refused left a log")
	}
	if err := os.WriteFile(log, []byte(strings.Replace(read(t, log), mllog.RunStop, "eval_stop", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := quality.Read(log); exit.CodeOf(err) != exit.BadData {
		t.Errorf("a log without an end: %v", err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func eventsOf(t *testing.T, path string) []mllog.Event {
	t.Helper()
	events, err := mllog.Read(strings.NewReader(read(t, path)))
	if err != nil {
		t.Fatal(err)
	}
	return events
}
