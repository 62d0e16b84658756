package cpuinfo

import (
	"bufio"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestModel(t *testing.T) {
	const text = "processor\t: 0\nmodel\t\t: 143\nmodel name\t: Some CPU @ 2.60GHz: rev 1\nflags\t: fpu\n"
	if got, want := model(bufio.NewScanner(strings.NewReader(text))), "Some CPU @ 2.60GHz: rev 1"; got != want {
		t.Errorf("model: got %q, want %q", got, want)
	}
	if got := model(bufio.NewScanner(strings.NewReader("nothing"))); got != "" {
		t.Errorf("model of an unknown text: got %q, want none", got)
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
