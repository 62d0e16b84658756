//go:build long && cgo && linux

package gpu

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// TestLongHeaders: our prototypes and constants are those of the vendor's headers, where
// Python packages in build/venv bring them (nvidia-cuda-runtime-cu12 has cuda.h,
// nvidia-cuda-nvrtc-cu12 nvrtc.h; packages of CUDA 13 have both in one folder).
func TestLongHeaders(t *testing.T) {
	site := filepath.Join("..", "..", "..", "..", "build", "venv", "lib", "python3*", "site-packages", "nvidia")
	checked := 0
	for _, pattern := range []string{"cuda_runtime", "cu1[0-9]"} {
		headers, err := filepath.Glob(filepath.Join(site, pattern, "include", "cuda.h"))
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range headers {
			dir := filepath.Dir(h)
			cmd := exec.Command("cc", "-std=c11", "-Wall", "-Werror", "-fsyntax-only", "-I", dir, "-I", filepath.Join(dir, "..", "..", "cuda_nvrtc", "include"), "testdata/headers.c")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", h, err, out)
			}
			checked++
		}
	}
	if checked == 0 {
		t.Skip("skipped: no cuda.h in build/venv; pip install nvidia-cuda-runtime-cu12 nvidia-cuda-nvrtc-cu12")
	}
}
