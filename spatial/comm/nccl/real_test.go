//go:build long && cgo && linux

package nccl

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/libraries"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// nvidia are the folders of headers of an environment with NVIDIA's wheels, whose folder
// nvidia the user named.
func nvidia(t *testing.T) (includes []string) {
	t.Helper()
	folder := os.Getenv(libraries.PathVariable)
	for _, file := range []string{"nccl.h", "cuda_runtime.h", "crt/host_defines.h"} {
		found, err := filepath.Glob(filepath.Join(folder, "*", "include", file))
		if err != nil {
			t.Fatal(err)
		}
		if len(found) == 0 {
			t.Skipf("skipped: no %s in the folder nvidia of a site-packages that %s names: the wheels of the library, of nvidia-cuda-runtime and of nvidia-cuda-nvcc or nvidia-cuda-crt have them", file, libraries.PathVariable)
		}
		includes = append(includes, strings.TrimSuffix(found[0], file))
	}
	return includes
}

// Prototypes, values and structures are those of the headers.
func TestLongHeaders(t *testing.T) {
	includes := nvidia(t)
	args := []string{"-Wall", "-Werror", "-fsyntax-only", "testdata/check.c"}
	for _, dir := range includes {
		args = append(args, "-I"+dir)
	}
	if out, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
		t.Fatalf("api.h and NVIDIA's headers differ: %v\n%s", err, out)
	}
}

// Without a device the library gives ids, and refuses to join with its own words.
func TestLongNoDevice(t *testing.T) {
	nvidia(t)
	l, err := Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(l.Version(), "2.") {
		t.Errorf("version %q", l.Version())
	}
	err = comm.Run(1, comm.Free, func(group *comm.Comm) error { _, err := l.Join(group, loaded{}); return err })
	var e *CallError
	if !errors.As(err, &e) || e.Call != "ncclCommInitRank" || e.Status != 1 {
		t.Errorf("got %v, want ncclCommInitRank to answer 1, an error of CUDA", err)
	}
}
