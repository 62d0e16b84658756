//go:build long && cgo && linux

package cublaslt

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/libraries"
)

// nvidia are the folders of headers of an environment with NVIDIA's wheels, whose folder
// nvidia the user named.
func nvidia(t *testing.T) (includes []string) {
	t.Helper()
	folder := os.Getenv(libraries.PathVariable)
	for _, file := range []string{"cublasLt.h", "cuda_runtime.h", "crt/host_defines.h"} {
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

// Products are described to the library itself, as far as that goes without a device.
func TestLongNoDevice(t *testing.T) {
	nvidia(t)
	l, err := Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(l.Version(), "12.") {
		t.Errorf("version %q", l.Version())
	}
	_, err = l.New(loaded{})
	var e *CallError
	if !errors.As(err, &e) || e.Status != 1 || e.Name != "CUBLAS_STATUS_NOT_INITIALIZED" || !errors.Is(err, ErrUnavailable) {
		t.Errorf("got %v, want cublasLtCreate to answer 1", err)
	}
	for _, p := range []Product{{M: 3, N: 5, K: 7}, {M: 3, N: 5, K: 7, TransA: true, TransB: true, Batch: 2, NextD: 15, Type: BFloat16, Result: BFloat16, Bias: true, ReLU: true},
		{M: 3, N: 5, K: 7, TF32: true, RowD: 9}} {
		c, err := l.describe(&p)
		if err != nil {
			t.Fatalf("%v: %v", &p, err)
		}
		if err := l.drop(c, p.String()); err != nil {
			t.Error(err)
		}
	}
}
