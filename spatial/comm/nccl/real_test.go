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

// nvidia is the folder "nvidia" of an environment with NVIDIA's wheels of CUDA 12.
func nvidia(t *testing.T) string {
	t.Helper()
	folder := os.Getenv(libraries.PathVariable)
	if _, err := os.Stat(filepath.Join(folder, "nccl/include/nccl.h")); err != nil {
		t.Skipf("skipped: %s does not name the folder nvidia of a site-packages with nvidia-nccl-cu12, nvidia-cuda-runtime-cu12 and nvidia-cuda-nvcc-cu12", libraries.PathVariable)
	}
	return folder
}

// Prototypes, values and structures are those of the headers.
func TestLongHeaders(t *testing.T) {
	folder := nvidia(t)
	args := []string{"-Wall", "-Werror", "-fsyntax-only", "testdata/check.c"}
	for _, p := range []string{"nccl", "cuda_runtime", "cuda_nvcc"} {
		args = append(args, "-I"+filepath.Join(folder, p, "include"))
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
