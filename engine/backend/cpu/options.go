package cpu

import (
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/dnnl"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/engine/tune"
)

// kernelsVersion is part of the key of timing tables. Increment it when the speed of
// kernels in package kern changes, so that older timings are not used.
const kernelsVersion = "3"

// Machine returns the key of a timing table: everything but the kernel that its time
// depends on.
func Machine(threads int) tune.Machine {
	var libraries []string
	if v := dnnl.Version(); v != "" {
		libraries = append(libraries, "oneDNN "+v)
	}
	return tune.ThisMachine(max(threads, 1), kernelsVersion, libraries...)
}

// HasFastInt8 reports whether the processor has dot products of eight-bit integers
// (AVX512_VNNI). Without them, int8 inference gives the same bits but is slow.
func HasFastInt8() bool { return kern.HasVNNI() }

// Options configures Open. The zero value is one thread, convolutions without Winograd,
// forms chosen by timing at every start.
type Options struct {
	Threads int // number of threads; 0 means 1
	// Choices are the forms of convolutions that an earlier plan chose by timing
	// (Backend.Choices). Convolutions that are not listed are timed.
	Choices map[string]string
	// UseHeuristics chooses forms by a fixed rule instead of timing them. It is fast, and
	// all processes choose alike.
	UseHeuristics bool
	// Winograd permits convolutions by Winograd's minimal filtering, whose results differ
	// from direct sums by a relative error of a few 1e-6.
	Winograd bool
	// BF16Products multiplies bfloat16 in convolutions of fields that are stored as
	// bfloat16. Sums stay in float32. Open fails if the processor has no AVX512_BF16.
	BF16Products bool
	// Timings caches measured times. It is read and extended. Nil: kernel variants, which
	// give identical bits, are chosen by estimate, and forms of convolutions are timed at
	// every start.
	Timings *tune.Table
}
