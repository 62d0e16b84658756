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
	Family   string   // vendor, family and model as numbers, "AuthenticAMD 25/17": kernels are chosen by these
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
	i.Model, i.Family = processor(bufio.NewScanner(file))
	return i
}

// processor reads the name and the numbers of the first one that is listed. Arm processors have an
// implementer and a part in place of vendor, family and model.
func processor(lines *bufio.Scanner) (name, family string) {
	first := map[string]string{}
	for lines.Scan() {
		key, value, ok := strings.Cut(lines.Text(), ":")
		if key = strings.TrimSpace(key); ok && first[key] == "" {
			first[key] = strings.TrimSpace(value)
		}
	}
	switch {
	case first["vendor_id"] != "":
		family = first["vendor_id"] + " " + first["cpu family"] + "/" + first["model"]
	case first["CPU implementer"] != "":
		family = first["CPU implementer"] + " " + first["CPU part"]
	}
	return first["model name"], family
}
