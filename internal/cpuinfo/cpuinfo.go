// Package cpuinfo says what the processor can do, for `ensemble doctor` and for
// the record that stands beside every benchmark.
package cpuinfo

import (
	"bufio"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/cpu"
)

// Info describes the processor.
type Info struct {
	Model    string   // as /proc/cpuinfo names it; empty where there is none
	Arch     string   // GOARCH
	Cores    int      // usable by this process
	Features []string // those that kernels of this program or of oneDNN care about
}

// features in rising order, with the flag that says whether it is there.
var features = []struct {
	name string
	has  *bool
}{
	{"sse4.1", &cpu.X86.HasSSE41},
	{"avx", &cpu.X86.HasAVX},
	{"avx2", &cpu.X86.HasAVX2},
	{"fma", &cpu.X86.HasFMA},
	{"avx512f", &cpu.X86.HasAVX512F},
	{"avx512bw", &cpu.X86.HasAVX512BW},
	{"avx512dq", &cpu.X86.HasAVX512DQ},
	{"avx512vl", &cpu.X86.HasAVX512VL},
	{"avx512vnni", &cpu.X86.HasAVX512VNNI},
	{"avx512bf16", &cpu.X86.HasAVX512BF16},
	{"amx-tile", &cpu.X86.HasAMXTile},
	{"amx-int8", &cpu.X86.HasAMXInt8},
	{"amx-bf16", &cpu.X86.HasAMXBF16},
	{"asimd", &cpu.ARM64.HasASIMD},
	{"sve", &cpu.ARM64.HasSVE},
}

// Read asks the processor.
func Read() Info {
	i := Info{Arch: runtime.GOARCH, Cores: runtime.NumCPU()}
	for _, f := range features {
		if *f.has {
			i.Features = append(i.Features, f.name)
		}
	}
	file, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return i // the name is a courtesy
	}
	defer file.Close()
	i.Model = model(bufio.NewScanner(file))
	return i
}

// model finds the first "model name : X".
func model(lines *bufio.Scanner) string {
	for lines.Scan() {
		key, value, ok := strings.Cut(lines.Text(), ":")
		if ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
