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

// nvidia is the folder "nvidia" of an environment with NVIDIA's wheels of CUDA 12.
func nvidia(t *testing.T) string {
	t.Helper()
	folder := os.Getenv(libraries.PathVariable)
	if _, err := os.Stat(filepath.Join(folder, "cublas/include/cublasLt.h")); err != nil {
		t.Skipf("skipped: %s does not name the folder nvidia of a site-packages with nvidia-cublas-cu12, nvidia-cuda-runtime-cu12 and nvidia-cuda-nvcc-cu12", libraries.PathVariable)
	}
	return folder
}

// Prototypes, values and structures are those of the headers.
func TestLongHeaders(t *testing.T) {
	folder := nvidia(t)
	args := []string{"-Wall", "-Werror", "-fsyntax-only", "testdata/check.c"}
	for _, p := range []string{"cublas", "cuda_runtime", "cuda_nvcc"} {
		args = append(args, "-I"+filepath.Join(folder, p, "include"))
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
