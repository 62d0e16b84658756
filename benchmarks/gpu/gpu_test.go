package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/measure"
)

// asProgram has the test's own binary behave as one of the programs that gpu.sh runs.
const asProgram = "ENSEMBLE_GPU_TEST_AS"

func TestMain(m *testing.M) {
	switch os.Getenv(asProgram) {
	case "gpu":
		os.Exit(int(execute(context.Background(), os.Args[1:], os.Stdout, os.Stderr)))
	case "conformance": // what `go test` prints
		fmt.Print("=== RUN   TestValues\n=== RUN   TestValues/cuda-1\n    values_test.go:31: emulated: no driver\n" +
			"=== RUN   TestValues/cuda-1/add\n=== RUN   TestValues/cuda-1/add/5-D\n=== RUN   TestValues/cuda-1/mul\n    x_test.go:1: element 3 is 2, want 1\n" +
			"--- FAIL: TestValues (0.10s)\n    --- FAIL: TestValues/cuda-1 (0.10s)\n        --- PASS: TestValues/cuda-1/add (0.02s)\n            --- PASS: TestValues/cuda-1/add/5-D (0.01s)\n" +
			"        --- FAIL: TestValues/cuda-1/mul (0.03s)\nFAIL\n")
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// TestScript runs benchmarks/gpu.sh from its begin to its report, on the emulated device
// and without PyTorch: every part gives an answer or a reason, and the report its shape.
func TestScript(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, as := range map[string]string{"ensemble-gpu": "gpu", "conformance.test": "conformance"} {
		write(name, fmt.Sprintf("#!/bin/sh\nexport %s=%s\nexec '%s' \"$@\"\n", asProgram, as, self), 0o755)
	}
	for _, name := range []string{"gpu.sh", "gpu_pytorch.py", "pytorch.py"} {
		text, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		write(name, string(text), 0o755)
	}
	write("without/torch.py", "raise ImportError('not in this test')\n", 0o644)
	out := filepath.Join(dir, "gpu.json")
	cmd := exec.Command(filepath.Join(dir, "gpu.sh"), "--emulated", "--out", out)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(dir, "without"))
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Schema   string
		Emulated bool
		Run      map[string]string
		Parts    []struct {
			Name, Why string
			Exit      int
			Results   []map[string]any
		}
		Targets []struct {
			Name string
			Met  *bool
			Got  *float64
		}
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if got.Schema != "ensemble.gpu/1" || !got.Emulated || got.Run["emulated"] != "1" || got.Run["seconds"] == "" {
		t.Errorf("schema %q, emulated %v, run %v", got.Schema, got.Emulated, got.Run)
	}
	// Every part of ours has an answer with these keys; without PyTorch its parts say why.
	want := map[string]string{"info": "libraries", "info-again": "device", "peak": "bf16_gflops", "train": "train_ms", "train-again": "classes", "agree-f32": "relative_output_error",
		"agree-bf16": "relative_gradient_error", "agree-f16": "relative_output_error", "conformance": "failures", "predict": "predict_ms", "predict-again": "device_bytes", "levels": "conv_gflops",
		"memory": "ratio", "train-tf32": "loss", "train-f32": "loss", "train-f16": "loss", "learn": "within_spread", "narrow": "parameters"}
	for _, p := range got.Parts {
		if key, ours := want[p.Name]; ours {
			delete(want, p.Name)
			if len(p.Results) != 1 || p.Results[0][key] == nil {
				t.Errorf("part %s: %q missing in %v; why: %s", p.Name, key, p.Results, p.Why)
			}
			if p.Exit != 0 && p.Name != "conformance" {
				t.Errorf("part %s: exit %d: %s", p.Name, p.Exit, p.Why)
			}
			continue
		}
		if p.Why == "" {
			t.Errorf("part %s has no reason why it gave nothing: %v", p.Name, p.Results)
		}
		if p.Name == "peer-info" && (p.Exit != int(exit.NoDevice) || !strings.Contains(p.Why, "not in this test")) {
			t.Errorf("peer-info: exit %d, %s", p.Exit, p.Why)
		}
	}
	if len(want) > 0 {
		t.Errorf("no parts %v", want)
	}
	for _, x := range got.Targets {
		if x.Met != nil {
			t.Errorf("target %s: an emulated device meets or misses nothing", x.Name)
		}
	}
	if len(got.Targets) != 12 {
		t.Errorf("%d targets, want the 12 of the table", len(got.Targets))
	}
	if !bytes.Contains(said, []byte("these figures say nothing of a GPU")) {
		t.Errorf("the table does not say that it is emulated:\n%s", said)
	}
}

// TestVerdict reads the output of a suite: parents are not counted, and a failure comes with
// what the test printed.
func TestVerdict(t *testing.T) {
	v := &verdict{}
	v.read(strings.NewReader("=== RUN   A\n=== RUN   A/b\n    x.go:1: is 2, want 1\n=== RUN   A/c\n--- FAIL: A (0.2s)\n    --- FAIL: A/b (0.1s)\n    --- SKIP: A/c (0.1s)\n"))
	if v.Started != 2 || v.Passed != 0 || v.Failed != 1 || v.Skipped != 1 || len(v.Skips) != 1 || len(v.Failures) != 1 || v.Failures[0] != (broken{"A/b", "x.go:1: is 2, want 1"}) {
		t.Errorf("%+v", v)
	}
	v = &verdict{}
	v.read(strings.NewReader("=== RUN   A\n=== RUN   A/b\nfatal error: out of memory\n"))
	if v.Started != 1 || v.Running != "A/b" || v.Why != "fatal error: out of memory" || len(v.Said) != 1 {
		t.Errorf("a crash: %+v", v)
	}
}

// TestPatterns deals every operation to one process.
func TestPatterns(t *testing.T) {
	c := config{run: "^A$", processes: 3}
	seen := map[string]int{}
	for _, p := range c.patterns() {
		names, ok := strings.CutPrefix(strings.TrimSuffix(p, ")$"), "^A$/^(")
		if !ok {
			t.Fatal(p)
		}
		for _, n := range strings.Split(names, "|") {
			seen[n]++
		}
	}
	for _, o := range op.Table {
		if seen[o.Name] != 1 {
			t.Errorf("%s is in %d processes", o.Name, seen[o.Name])
		}
	}
	a, b := &verdict{Passed: 2, Complete: true, Slowest: []slow{{"x", 1}}}, &verdict{Failed: 1, Why: "it ends", Running: "y", Slowest: []slow{{"y", 2}}}
	a.join(b)
	if a.Passed != 2 || a.Failed != 1 || a.Complete || a.Why != "it ends" || a.Slowest[0].Test != "y" {
		t.Errorf("%+v", a)
	}
}

// TestTargets judges invented figures: the peer's fastest form that works counts, of several rounds
// the median, and a target without a figure is neither met nor missed.
func TestTargets(t *testing.T) {
	ms := func(x float64) *measure.Times { return &measure.Times{Median: x, N: 5} }
	within, complete, exact, none := true, true, 2e-5, 0
	lines := []line{
		{Case: casePublished, Precision: "bf16", Batch: 2, Train: ms(20), Bytes: 5e9, Conv: 300e3},
		{Case: casePublished, Precision: "bf16", Batch: 2, Train: ms(24), Bytes: 5e9, Conv: 310e3},
		{Case: casePublished, Peer: "pytorch", Form: "slow", Precision: "bf16", Batch: 2, Train: ms(60), Bytes: 1e9},
		{Case: casePublished, Peer: "pytorch", Form: "fast", Precision: "bf16", Batch: 2, Train: ms(33), Bytes: 10e9},
		{Case: casePublished, Peer: "pytorch", Form: "tf32", Precision: "tf32", Batch: 2, Train: ms(1), Bytes: 10e9},
		{Case: casePublished, Peer: "pytorch", Form: "wrong", Precision: "bf16", Batch: 2, Train: ms(2), Error: "not finite: loss"},
		{Case: "peak", Peer: "pytorch", BF16: 700e3},
		{Case: "agree", Precision: "f32", Output: &exact},
		{Case: "learn", Precision: "bf16", Within: &within, Spread: 2, Difference: -1},
		{Case: "conformance", part: "conformance", Complete: &complete, Passed: 9, Emulated: true},
		{Case: "sanitizer", Errors: &none},
		{Case: "memory", Share: 0.5, Ratio: 1.1},
	}
	rs := ratios(lines)
	if len(rs) != 2 || rs[0].Form != "fast" || rs[0].Ours != 11 || rs[0].Peer != 16.5 || rs[0].Ratio != 1.5 || rs[1].Ratio != 2 {
		t.Errorf("ratios %+v", rs)
	}
	type want struct {
		met bool
		got float64
	}
	wants := map[string]want{
		"training step, 2×352×704, batch 2":                 {true, 1.5},
		"memory of a training step, 2×352×704, batch 2":     {true, 0.5},
		"convolutions over the matrix product's rate, bf16": {false, 310. / 700},
		"output beside the reference, f32":                  {false, 2e-5},
		"200 steps reach the processor's loss":              {true, 0.5},
		"conformance suite":                                 {false, 0}, // nothing failed, but nothing ran on a device
		"compute-sanitizer":                                 {true, 0},
		"a sample of twice the memory":                      {true, 1.1},
	}
	for _, x := range targets(lines, rs) {
		w, measured := wants[x.Name]
		switch {
		case !measured && (x.Met != nil || x.Why == ""):
			t.Errorf("%s was not measured: %+v", x.Name, x)
		case measured && (x.Met == nil || *x.Met != w.met || *x.Got != w.got):
			t.Errorf("%s: met %v, got %v, want %+v", x.Name, x.Met, x.Got, w)
		}
		delete(wants, x.Name)
	}
	if len(wants) > 0 {
		t.Errorf("no targets %v", wants)
	}
}

// TestUsage refuses what cannot be measured before anything is opened.
func TestUsage(t *testing.T) {
	for _, args := range []string{"", "nothing", "train --precision fp8", "train --field 2x3", "train --batch 0", "train more", "learn --seeds 1", "memory --share 1", "memory --share 0", "train --stages 6", "train --seconds 0"} {
		var out, log strings.Builder
		if code := execute(context.Background(), strings.Fields(args), &out, &log); code != exit.Usage || out.Len() > 0 || !strings.Contains(log.String(), "fix:") {
			t.Errorf("%q: exit %d, %q, %q", args, code, out.String(), log.String())
		}
	}
}

// TestField reads sizes of fields, and no others.
func TestField(t *testing.T) {
	var f field
	if err := f.UnmarshalText([]byte("11x361x720")); err != nil || f != (field{11, 361, 720}) {
		t.Error(f, err)
	}
	if text, err := f.MarshalText(); string(text) != "11x361x720" || err != nil {
		t.Error(string(text), err)
	}
	for _, bad := range []string{"", "2x3", "2x3x4x5", "2x3x4y", "axbxc"} {
		if f.UnmarshalText([]byte(bad)) == nil {
			t.Errorf("%q is a field", bad)
		}
	}
}
