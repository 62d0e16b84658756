//go:build cgo && linux && amd64

package kern

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// oneDNN's variable holds our kernels down too, and never lifts them above what the machine has.
func TestHeldDown(t *testing.T) {
	const ask = "KERN_TEST_ASKED"
	if os.Getenv(ask) != "" {
		os.Stdout.WriteString("isa=" + ISA() + "\n")
		return
	}
	best := ISA()
	for _, c := range []struct{ variable, value, want string }{
		{"ONEDNN_MAX_CPU_ISA", "SSE41", "base"},
		{"ONEDNN_MAX_CPU_ISA", "avx2", "avx2"},
		{"DNNL_MAX_CPU_ISA", "AVX2_VNNI", "avx2"},
		{"ONEDNN_MAX_CPU_ISA", "AVX512_CORE", "avx512"},
		{"ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16", "avx512bf16"},
		{"ONEDNN_MAX_CPU_ISA", "ALL", best},
		{"ONEDNN_MAX_CPU_ISA", "nonsense", best},
	} {
		if !useISA(c.want) { // restored below
			continue // this machine lacks it
		}
		useISA(best)
		cmd := exec.Command(os.Args[0], "-test.run=^TestHeldDown$")
		cmd.Env = append(os.Environ(), ask+"=1", c.variable+"="+c.value)
		out, err := cmd.Output()
		if err != nil || !strings.Contains(string(out), "isa="+c.want+"\n") {
			t.Errorf("%s=%s: %v, %s, want %s", c.variable, c.value, err, out, c.want)
		}
	}
}
