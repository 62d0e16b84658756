package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// explainArgs explains a small network with the demo's configuration, without data.
func explainArgs(more ...string) []string {
	return append([]string{"engine", "explain", "-c", "../../ensemble/run/demo/demo.yaml", "--set", "model.base=2", "--crop", "16x24",
		"--threads", "1", "--peak-gflops", "100", "--peak-gbs", "10"}, more...)
}

func TestEnginePasses(t *testing.T) {
	code, stdout, _ := call(t, "engine", "passes")
	if code != exit.OK || !strings.Contains(stdout, "add-gradients") || !strings.Contains(stdout, "same bits") {
		t.Errorf("exit %d, %q", code, stdout)
	}
	var answer struct {
		Schema string
		Passes []struct{ Name string }
	}
	code, stdout, _ = call(t, "engine", "passes", "--json")
	if err := json.Unmarshal([]byte(stdout), &answer); err != nil || code != exit.OK || answer.Schema != "ensemble.engine-passes/1" || answer.Passes[0].Name != "check-shapes" {
		t.Errorf("exit %d, %v, %q", code, err, stdout)
	}
}

// TestEngineWithout: explain shows which passes are off, and every command refuses unknown and required passes before any work.
func TestEngineWithout(t *testing.T) {
	var answer struct {
		Without []string
		Stages  []struct{ Pass string }
	}
	code, stdout, stderr := call(t, explainArgs("--json", "--only", "fuse,choose-layouts")...)
	if code == exit.NoDevice {
		t.Skip("skipped: no device: ", stderr)
	}
	if err := json.Unmarshal([]byte(stdout), &answer); err != nil || code != exit.OK {
		t.Fatalf("exit %d, %v, %s", code, err, stderr)
	}
	names := map[string]bool{}
	for _, s := range answer.Stages {
		names[s.Pass] = true
	}
	if !names["fuse"] || !names["choose-layouts"] || names["fuse-chains"] || !names["plan-memory"] || !slices.Contains(answer.Without, "fuse-chains") || slices.Contains(answer.Without, "fuse") {
		t.Errorf("stages %v, without %v", answer.Stages, answer.Without)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{explainArgs("--without", "fuse-norm"), "did you mean `fuse-norms`? passes that can be left out: find-zero-blocks"},
		{explainArgs("--without", "schedule"), `compiler pass "schedule" cannot be left out`},
		{explainArgs("--without", "fuse", "--only", "fuse"), "--without and --only together"},
		{explainArgs("--without", "choose-layouts", "--set", "train.precision=bf16"), "16-bit precision without compiler pass choose-layouts"},
		{explainArgs("--without", "fuse", "--pass", "fuse"), "is left out"},
		{[]string{"bench", "--only", "fuze"}, "did you mean `fuse`?"},
		{[]string{"train", "-c", "../../ensemble/run/demo/demo.yaml", "--run-dir", t.TempDir(), "--without", "remove-dead"}, `compiler pass "remove-dead" cannot be left out`},
	} {
		if code, _, stderr := call(t, c.args...); code != exit.Usage || !strings.Contains(strings.Join(strings.Fields(stderr), " "), c.want) {
			t.Errorf("%v: exit %d, %q, want %q", c.args, code, stderr, c.want)
		}
	}
}

func TestEngineExplain(t *testing.T) {
	page, program := filepath.Join(t.TempDir(), "plan.html"), filepath.Join(t.TempDir(), "step.json")
	code, stdout, stderr := call(t, explainArgs("--json", "--html", page, "--dump-after", "add-gradients", "--program-graph", program)...)
	if code == exit.NoDevice {
		t.Skip("skipped: no device: ", stderr)
	}
	var answer struct {
		Outputs []string
		Graph   string
		Stages  []struct{ Pass string }
		Peaks   struct {
			FLOPs float64 `json:"flops_per_s"`
		}
	}
	if err := json.Unmarshal([]byte(stdout), &answer); err != nil || code != exit.OK {
		t.Fatalf("exit %d, %v, %s", code, err, stderr)
	}
	if len(answer.Outputs) != 3 || answer.Outputs[0] != page || answer.Outputs[2] != program || answer.Outputs[1] != strings.TrimSuffix(page, ".html")+".dot" || !strings.Contains(answer.Graph, "\nloss = ") || answer.Stages[1].Pass != "check-shapes" || answer.Peaks.FLOPs != 100e9 {
		t.Errorf("outputs %v, graph of %d bytes, peak %g", answer.Outputs, len(answer.Graph), answer.Peaks.FLOPs)
	}
	for _, path := range answer.Outputs {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
	var step struct{ Nodes, Links []any }
	if text, err := os.ReadFile(program); err != nil {
		t.Error(err)
	} else if err := json.Unmarshal(text, &step); err != nil || len(step.Nodes) < 100 || len(step.Links) < len(step.Nodes) {
		t.Errorf("program graph of %d vertices and %d edges, error %v", len(step.Nodes), len(step.Links), err)
	}
	code, stdout, stderr = call(t, explainArgs("--mode", "predict", "--pass", "choose-mode")...)
	if code != exit.OK || !strings.Contains(stdout, "−1 dropout") {
		t.Errorf("exit %d, %s%s", code, stdout, stderr)
	}
}

func TestEngineExplainErrors(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"engine", "explain"}, "missing --config"},
		{[]string{"engine", "explian"}, "did you mean `ensemble engine explain`?"},
		{explainArgs("--mode", "predct"), "did you mean `predict`?"},
		{explainArgs("--pass", "fuze"), "did you mean `fuse`?"},
		{explainArgs("--crop", "0x5"), "--crop"},
		{explainArgs("--memory", "much"), "--memory"},
		{explainArgs("--workspace", "much"), `invalid value "much" for --workspace`},
		{explainArgs("--workspace", "64"), "fix: give a size with its unit"},
		{explainArgs("--workspace", "1B"), "fix: give --workspace "},
		{explainArgs("--set", "train.workspace=1B"), "fix: set train.workspace: "},
		{explainArgs("--set", "train.workspace=64MiB", "--workspace", "1B"), "fix: give --workspace "},
		{explainArgs("--mode", "predict", "--workspace", "1B"), "fix: give --workspace "},
		{explainArgs("--threads", "5000"), "train.threads"},
		{explainArgs("--peak-gbs", "-1"), "a negative peak rate"},
		{explainArgs("extra"), "unexpected argument"},
	} {
		code, _, stderr := call(t, c.args...)
		if strings.Contains(stderr, "backend cpu is not part of this program") {
			continue // what is found when compiling needs a device
		}
		if code != exit.Usage || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: exit %d, %s; want 64 and %q", c.args, code, stderr, c.want)
		}
	}
}
