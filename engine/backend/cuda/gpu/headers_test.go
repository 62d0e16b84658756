//go:build cgo && linux

package gpu

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// TestHeaders: our prototypes and constants are those of the vendor's headers, which Python
// packages in build/venv bring: of CUDA 12 one has cuda.h and another nvrtc.h, and those of
// CUDA 13, where somebody put them, have one folder.
func TestHeaders(t *testing.T) {
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
		t.Error("no cuda.h in build/venv: scripts/setup.sh test installs it")
	}
}
