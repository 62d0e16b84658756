// Package cpuinfo describes the processor, for `ensemble doctor` and for benchmark
// records.
package cpuinfo

import (
	"fmt"
	"runtime"

	"github.com/klauspost/cpuid/v2"
)

// Info describes the processor.
type Info struct {
	Model string // brand string; empty on Arm, which has none
	// Family selects kernels: vendor, family and model such as "AuthenticAMD
	// 25/17", or on Arm vendor and part.
	Family   string
	Arch     string   // GOARCH
	Cores    int      // usable by this process
	L2       int      // bytes of the second cache of a core; 0: unknown
	L3       int      // bytes of the third cache, which cores share; 0: unknown
	Features []string // instruction sets that kernels of this program or of oneDNN use
}

// features lists instruction sets, later ones extending earlier ones.
var features = []struct {
	name string
	id   cpuid.FeatureID
}{
	{"sse4.1", cpuid.SSE4},
	{"avx", cpuid.AVX},
	{"avx2", cpuid.AVX2},
	{"fma", cpuid.FMA3},
	{"avx512f", cpuid.AVX512F},
	{"avx512bw", cpuid.AVX512BW},
	{"avx512dq", cpuid.AVX512DQ},
	{"avx512vl", cpuid.AVX512VL},
	{"avx512vnni", cpuid.AVX512VNNI},
	{"avx512bf16", cpuid.AVX512BF16},
	{"amx-tile", cpuid.AMXTILE},
	{"amx-int8", cpuid.AMXINT8},
	{"amx-bf16", cpuid.AMXBF16},
	{"asimd", cpuid.ASIMD},
	{"sve", cpuid.SVE},
}

// Read describes the processor of this process.
func Read() Info {
	i := Info{Model: cpuid.CPU.BrandName, Arch: runtime.GOARCH, Cores: runtime.NumCPU(), L2: max(cpuid.CPU.Cache.L2, 0), L3: max(cpuid.CPU.Cache.L3, 0)}
	for _, f := range features {
		if cpuid.CPU.Has(f.id) {
			i.Features = append(i.Features, f.name)
		}
	}
	switch {
	case cpuid.CPU.Has(cpuid.ASIMD) && cpuid.CPU.VendorString != "":
		// Bits 15 to 4 of the identification register (MIDR_EL1) are the part
		// number, bits 3 to 0 the revision.
		i.Family = fmt.Sprintf("%s %#x", cpuid.CPU.VendorString, cpuid.CPU.Model>>4)
	case cpuid.CPU.VendorString != "":
		i.Family = fmt.Sprintf("%s %d/%d", cpuid.CPU.VendorString, cpuid.CPU.Family, cpuid.CPU.Model)
	}
	return i
}
