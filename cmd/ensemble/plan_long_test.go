//go:build long

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/testdata"
)

// TestLongPlannedMemory: the largest memory of a training is within 15 % of that which plan states.
func TestLongPlannedMemory(t *testing.T) {
	testdata.Dir(t, "gcm")
	programs := installed(t)
	t.Setenv("ENSEMBLE_DECODE", filepath.Join(programs, "ensemble-decode"))
	const config = "../../experiments/gcm/train.yaml"
	run := func(args ...string) (stdout []byte, peak int64) {
		t.Helper()
		cmd := exec.Command(filepath.Join(programs, "ensemble"), args...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return out, cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss * 1024
	}
	out, _ := run("plan", "-q", "--json", "-c", config)
	var planned struct {
		Local struct {
			Memory int64 `json:"memory_bytes"`
		} `json:"this_machine"`
	}
	if err := json.Unmarshal(out, &planned); err != nil {
		t.Fatal(err)
	}
	_, peak := run("train", "-q", "-c", config, "--run-dir", filepath.Join(t.TempDir(), "run"), "--set", "train.epochs=1", "--set", "train.networks=1", "--set", "train.warmup=0", "--set", "calibrate.distribution=none")
	ratio := float64(planned.Local.Memory) / float64(peak)
	t.Logf("planned %d MiB, measured %d MiB, ratio %.2f", planned.Local.Memory>>20, peak>>20, ratio)
	if ratio < 0.85 || ratio > 1.15 {
		t.Errorf("planned %d bytes, measured %d: ratio %.2f", planned.Local.Memory, peak, ratio)
	}
}
