package cpu

import (
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/dnnl"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/engine/tune"
)

// kernelsVersion counts up when the speed of our kernels changes, so that older
// timings are not used.
const kernelsVersion = "2"

// Machine is what the times of kernels depend on: the key of a table of timings.
func Machine(threads int) tune.Machine {
	var libraries []string
	if v := dnnl.Version(); v != "" {
		libraries = append(libraries, "oneDNN "+v)
	}
	return tune.ThisMachine(max(threads, 1), kernelsVersion, libraries...)
}

// HasFastInt8 tells whether this processor multiplies codes of eight bits several at a time
// (AVX512_VNNI). Without, predictions in int8 have the same bits and are slow.
func HasFastInt8() bool { return kern.HasVNNI() }

// Options of the backend.
type Options struct {
	Threads int // of the device; 0 means 1
	// Choices repeats the forms of convolutions that an earlier plan chose by
	// timing, by description of the convolution; others are chosen anew.
	Choices map[string]string
	// UseHeuristics chooses forms by a fixed rule instead of timing them: quick, and the
	// same in every process.
	UseHeuristics bool
	// Winograd admits convolutions by Winograd's products, whose results differ
	// from the plain sum by a few 1e-6.
	Winograd bool
	// BF16Products lets convolutions of fields that are stored as bfloat16 multiply bfloat16;
	// refused where the processor does not.
	BF16Products bool
	// Timings holds what was measured before, and gets what is measured now. Nil:
	// cuts of kernels, which change no bit, are guessed, and forms of convolutions
	// are timed again.
	Timings *tune.Table
}
