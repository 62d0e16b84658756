package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// suite replaces the conformance suite: it prints output of `go test`.
const suite = `#!/bin/sh
cat <<'END'
=== RUN   TestValues
=== RUN   TestValues/cuda-1
    values_test.go:31: emulated: no driver
=== RUN   TestValues/cuda-1/add
=== RUN   TestValues/cuda-1/add/5-D
=== RUN   TestValues/cuda-1/mul
    x_test.go:1: element 3 is 2, want 1
--- FAIL: TestValues (0.10s)
    --- FAIL: TestValues/cuda-1 (0.10s)
        --- PASS: TestValues/cuda-1/add (0.02s)
            --- PASS: TestValues/cuda-1/add/5-D (0.01s)
        --- FAIL: TestValues/cuda-1/mul (0.03s)
FAIL
END
exit 1
`

// TestBenchDeviceScript runs benchmarks/gpu.sh to its report, on the emulated device and without PyTorch: every
// part has an answer or a reason, and the report has all its sections.
func TestBenchDeviceScript(t *testing.T) {
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
	write("ensemble", fmt.Sprintf("#!/bin/sh\nexec '%s' \"$@\"\n", self), 0o755)
	write("conformance.test", suite, 0o755)
	for _, name := range []string{"gpu.sh", "gpu_pytorch.py", "pytorch.py"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "benchmarks", name))
		if err != nil {
			t.Fatal(err)
		}
		write(name, string(text), 0o755)
	}
	write("without/torch.py", "raise ImportError('not in this test')\n", 0o644)
	out := filepath.Join(dir, "gpu.json")
	cmd := exec.Command(filepath.Join(dir, "gpu.sh"), "--emulated", "--out", out)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(dir, "without"))
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
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
	// Every part of this program has an answer with these keys; the parts of PyTorch state why they have none.
	want := map[string]string{"info": "libraries", "info-again": "device", "peak": "bf16_gflops", "train": "train_ms", "train-again": "classes", "agree-f32": "relative_output_error",
		"agree-bf16": "relative_gradient_error", "agree-f16": "relative_output_error", "conformance": "failures", "predict": "predict_ms", "predict-again": "device_bytes", "levels": "conv_gflops",
		"memory": "ratio", "train-tf32": "loss", "train-f32": "loss", "train-f16": "loss", "learn": "within_spread", "narrow": "parameters"}
	for _, p := range got.Parts {
		if key, ours := want[p.Name]; ours {
			delete(want, p.Name)
			if len(p.Results) != 1 || p.Results[0][key] == nil || p.Results[0]["schema"] == nil {
				t.Errorf("part %s: %q missing in %v; why: %s", p.Name, key, p.Results, p.Why)
			}
			if p.Exit != 0 && p.Name != "conformance" {
				t.Errorf("part %s: exit %d: %s", p.Name, p.Exit, p.Why)
			}
			continue
		}
		if p.Why == "" {
			t.Errorf("part %s has neither an answer nor a reason: %v", p.Name, p.Results)
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
			t.Errorf("target %s is assessed on an emulated device", x.Name)
		}
	}
	if len(got.Targets) != 12 {
		t.Errorf("%d targets, want the 12 of the table", len(got.Targets))
	}
	if !strings.Contains(string(output), "not representative of a GPU") {
		t.Errorf("the table does not state that the device is emulated:\n%s", output)
	}
}

// TestBenchDeviceText: the text of a part has the network, its times and its kernels.
func TestBenchDeviceText(t *testing.T) {
	code, stdout, stderr := call(t, "bench", "device", "train", "--device", "ref", "--base", "1", "--stages", "1", "--batch", "1", "--channels", "2", "--field", "2x5x7", "--precision", "f32", "--steps", "1")
	if code != exit.OK {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	for _, want := range []string{"3-D U-Net of base 1, 2 channels, 2x5x7, batch 1, f32, on ref", " ms [", "contraction", "conv3d"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
}

// TestBenchDeviceUsage: invalid measurements are rejected before any file is opened.
func TestBenchDeviceUsage(t *testing.T) {
	for _, args := range []string{"", "trian", "train --precision fp8", "train --field 2x3", "train --batch -1", "train more", "learn --seeds 1", "memory --memory-fraction 1", "train --stages 6", "train --seconds -1", "peak --device tpu"} {
		code, stdout, stderr := call(t, append([]string{"bench", "device"}, strings.Fields(args)...)...)
		if code != exit.Usage || stdout != "" || !strings.Contains(stderr, "fix:") {
			t.Errorf("%q: exit %d, %q, %q", args, code, stdout, stderr)
		}
	}
}
