package run

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/mllog"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// A training that is timed logs by the rules, its clock stops at the first validation loss that is low enough, and only
// there; a log is of one process from its beginning.
func TestTimedTraining(t *testing.T) {
	f := smallData(t)
	dir := t.TempDir()
	c := quick(t, f, "train.networks=1", "train.epochs=3")
	log := filepath.Join(dir, "never.txt")
	o := TrainOptions{Config: c, RunDir: filepath.Join(dir, "a"), Version: "test", Timed: Timed{Log: log, Benchmark: "ensemble_test", Target: 1e-3}}
	if _, err := Train(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	if was, err := readTiming(log); err != nil || was.reached || !(was.seconds > 0) || !(was.processor > 0) || was.epochs != 3 || was.steps != 12 {
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
	official(t, log)

	// The same training, to a quality that its second epoch reaches.
	o.RunDir, o.Timed.Log, o.Timed.Target = filepath.Join(dir, "b"), filepath.Join(dir, "reached.txt"), losses[1]
	if _, err := Train(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	was, err := readTiming(o.Timed.Log)
	if last := eventsOf(t, o.Timed.Log); err != nil || !was.reached || was.epochs != 2 || was.loss != losses[1] || last[len(last)-1].Key != mllog.RunStop || strings.Count(read(t, o.Timed.Log), mllog.EvalAccuracy) != 2 {
		t.Errorf("%+v, %v\n%s", was, err, read(t, o.Timed.Log))
	}

	// A log that is there, and a run that is finished, are refused; a log that was touched is no time.
	if _, err := Train(context.Background(), o); exit.CodeOf(err) != exit.CannotWrite {
		t.Errorf("a log that is there: %v", err)
	}
	o.Timed.Log = filepath.Join(dir, "late.txt")
	if _, err := Train(context.Background(), o); exit.CodeOf(err) != exit.CannotWrite || !strings.Contains(err.Error(), "finished") {
		t.Errorf("a finished run: %v", err)
	}
	if _, err := os.Stat(o.Timed.Log); err == nil {
		t.Error("a run that was refused left a log")
	}
	if err := os.WriteFile(log, []byte(strings.Replace(read(t, log), `"aborted"`, `"success"`, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := readTiming(log); exit.CodeOf(err) != exit.BadData {
		t.Errorf("a log that claims success: %v", err)
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

// official judges a log by the rules that MLCommons publishes, where their checker is here: all of those for
// HPC 3.0, but that the benchmark is one of theirs.
func official(t *testing.T, log string) {
	t.Helper()
	python := os.Getenv("ENSEMBLE_TEST_PYTHON")
	if python == "" {
		python = filepath.Join("..", "..", "build", "venv", "bin", "python3")
	}
	if exec.Command(python, "-c", "import mlperf_logging, yaml").Run() != nil {
		t.Log("skipped: no checker of MLCommons (mlperf-logging): the rules of package mllog judge alone")
		return
	}
	const script = `
import sys
import mlperf_logging.compliance_checker.mlp_compliance as m
own = m.enqueue_config
m.enqueue_config = lambda c: None if c.startswith("hpc_3.0.0/open_ensemble") else own(c)
c = m.ComplianceChecker("hpc", "3.0.0", quiet=True, werror=True)
c.check_file(sys.argv[1], "hpc_3.0.0/common.yaml")
faults = [*c.overwritable.values(), *c.not_overwritable]
print(len(faults), [f for f in faults if "submission_benchmark" not in f])
`
	out, err := exec.Command(python, "-c", script, log).Output()
	if err != nil || strings.TrimSpace(string(out)) != "1 []" {
		t.Errorf("the checker of MLCommons: %v, %s", err, out)
	}
}
