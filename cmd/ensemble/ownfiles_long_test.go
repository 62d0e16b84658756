//go:build long

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// ownFilesScript is what a person types for the three files of testdata/pages/own.py. No line of the configuration is
// written by hand.
const ownFilesScript = `ensemble init --target 2t --target tp forecasts.nc temperature.nc rain.nc > train.yaml
ensemble train -q -c train.yaml --run-dir runs/first
ensemble predict -q --run-dir runs/first --input forecasts.nc --out products
ensemble verify -q --forecast "products/*/*.nc" --analysis temperature.nc rain.nc --members forecasts.nc --out scores
ensemble report runs/first
`

// TestLongOwnFiles: from three files as xarray saves them (own names, degC, scalar and missing coordinates, a lead picked
// out, daily rain) to scores and a report with at most five commands and five lines of YAML by hand.
func TestLongOwnFiles(t *testing.T) {
	programs, dir := installed(t), t.TempDir()
	python(t, "testdata/pages/own.py", dir, "60")
	t.Setenv("ENSEMBLE_DECODE", "")
	cmd := exec.Command("bash", "-e", "-c", ownFilesScript)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"), "ENSEMBLE_TRAIN_EPOCHS=4")
	began := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	took := time.Since(began)
	for _, want := range []string{"2t 2m +24h", "tp surface +24h", "raw3", "In short", "CRPS of network"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in the output:\n%s", want, out)
		}
	}
	for _, path := range []string{"runs/first/report/index.html", "scores/scores.json"} {
		if _, err := os.Stat(filepath.Join(dir, path)); err != nil {
			t.Error(err)
		}
	}
	config, err := os.ReadFile(filepath.Join(dir, "train.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("lines by hand: 0 (%d written by init); commands: %d; %.1f s\n", strings.Count(string(config), "\n"), strings.Count(ownFilesScript, "\n"), took.Seconds())
}
