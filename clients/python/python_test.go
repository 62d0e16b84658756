// Package python runs the tests of the Python package on outputs of this program.
package python

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/testdecoder"
)

// TestPackage: the tests of the Python package pass with the program as it is. Those of exported networks need PyTorch, which
// scripts/setup.sh does not install, and are skipped without it.
func TestPackage(t *testing.T) {
	python, err := filepath.Abs("../../build/venv/bin/python")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(python, "-c", "import pytest, xarray, netCDF4, pandas, safetensors").CombinedOutput(); err != nil {
		t.Skipf("skipped: no Python packages in build/venv (scripts/setup.sh test installs them): %v %s", err, out)
	}
	testdecoder.Path(t)
	program := filepath.Join(t.TempDir(), "ensemble")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", program, "../../cmd/ensemble").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	cmd := exec.Command(python, "-m", "pytest", "-q", "tests", "--program="+program)
	cmd.Env = append(os.Environ(), "PYTHONPATH=src", "PYTHONDONTWRITEBYTECODE=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("pytest: %v\n%s", err, out)
	}
}
