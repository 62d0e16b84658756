// Package python runs the tests of the Python package on outputs of this program.
package python

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/testdata"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
)

// TestPackage: the tests of the Python package pass with the program as it is. Those of exported networks need PyTorch, which
// scripts/setup.sh does not install, and are skipped without it.
func TestPackage(t *testing.T) {
	python := testdata.Python(t, "pytest", "xarray", "netCDF4", "pandas", "safetensors")
	readFolders(t)
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

// readFolders reads the folders of the module. Go repeats a passed test only if folders or files that it read have changed, and
// does not see what the programs read that it starts.
func readFolders(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && slices.Contains([]string{".git", "build", "bin", "runs"}, d.Name()) {
			return filepath.SkipDir
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
