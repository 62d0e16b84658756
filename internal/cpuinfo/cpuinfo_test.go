package cpuinfo

import (
	"bufio"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestProcessor(t *testing.T) {
	for _, c := range []struct{ text, name, family string }{
		{"processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\nmodel name\t: Some CPU @ 2.60GHz: rev 1\nflags\t: fpu\n\nprocessor\t: 1\nmodel\t: 7\n",
			"Some CPU @ 2.60GHz: rev 1", "GenuineIntel 6/143"},
		{"processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n", "", "0x41 0xd40"},
		{"nothing", "", ""},
	} {
		if name, family := processor(bufio.NewScanner(strings.NewReader(c.text))); name != c.name || family != c.family {
			t.Errorf("%q: got %q and %q, want %q and %q", c.text, name, family, c.name, c.family)
		}
	}
}

// What the processor says agrees with what the kernel lists.
func TestFeaturesAgreeWithKernel(t *testing.T) {
	raw, err := os.ReadFile("/proc/cpuinfo")
	if err != nil || runtime.GOARCH != "amd64" {
		t.Skip("skipped: no /proc/cpuinfo of an amd64 machine")
	}
	flags := strings.Fields(string(raw))
	info := Read()
	if info.Cores < 1 {
		t.Errorf("cores: got %d", info.Cores)
	}
	for _, f := range []string{"avx2", "fma", "avx512f"} {
		if slices.Contains(info.Features, f) != slices.Contains(flags, f) {
			t.Errorf("%s: we say %v, the kernel %v", f, slices.Contains(info.Features, f), slices.Contains(flags, f))
		}
	}
}
