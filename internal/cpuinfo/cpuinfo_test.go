package cpuinfo

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// The features agree with /proc/cpuinfo.
func TestProcessorAgreesWithKernel(t *testing.T) {
	raw, err := os.ReadFile("/proc/cpuinfo")
	if err != nil || runtime.GOARCH != "amd64" {
		t.Skip("skipped: no /proc/cpuinfo of an amd64 machine")
	}
	first := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		key, value, _ := strings.Cut(line, ":")
		if key = strings.TrimSpace(key); first[key] == "" {
			first[key] = strings.TrimSpace(value)
		}
	}
	info := Read()
	if info.Model != first["model name"] {
		t.Errorf("model: got %q, the kernel has %q", info.Model, first["model name"])
	}
	if want := first["vendor_id"] + " " + first["cpu family"] + "/" + first["model"]; info.Family != want {
		t.Errorf("family: got %q, the kernel has %q", info.Family, want)
	}
	if info.Cores < 1 {
		t.Errorf("cores: got %d", info.Cores)
	}
	flags := strings.Fields(first["flags"])
	for feature, flag := range map[string]string{"sse4.1": "sse4_1", "avx": "avx", "avx2": "avx2", "fma": "fma", "avx512f": "avx512f", "avx512bw": "avx512bw",
		"avx512dq": "avx512dq", "avx512vl": "avx512vl", "avx512vnni": "avx512_vnni", "avx512bf16": "avx512_bf16", "amx-tile": "amx_tile", "amx-int8": "amx_int8", "amx-bf16": "amx_bf16"} {
		if got, want := slices.Contains(info.Features, feature), slices.Contains(flags, flag); got != want {
			t.Errorf("%s: got %v, the kernel has %v", feature, got, want)
		}
	}
}
