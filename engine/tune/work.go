package tune

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/ensemble-weather/ensemble/internal/cpuinfo"
)

// Work is what a variant of a kernel does that takes its items in blocks: convolutions by minimal filtering, whose items are transformed tiles.
// Variants of a kernel differ in the size of the blocks. A small one reads the filter often, a large one does not fit the second cache, which it
// shares with the filter.
type Work struct {
	Name   string  `json:"name"`   // of the variant
	Kind   string  `json:"kind"`   // kind of kernel; each has coefficients of its own
	Items  int     `json:"items"`  // of the kernel
	Block  int     `json:"block"`  // items that go together
	Shared float64 `json:"shared"` // bytes that each block reads: the transformed filter, or the sums of its gradient
	Item   float64 `json:"item"`   // bytes of a transformed item
}

// The features of a variant, each a number of operations or bytes.
const (
	products     = iota // of items with shared values
	groups              // loads of shared values, once for all rows of a register tile
	transforms          // bytes of transformed items
	nearShared          // bytes of shared values that the second cache may keep, in each block
	farShared           // the others
	farHalf             // bytes of items in the part of a block that exceeds half of the second cache
	farQuarter          // the same for a quarter
	blocks              // number of blocks
	WorkFeatures        // number of features
)

// Features returns the features of a variant on an instruction set, with a second cache of some bytes.
func (w Work) Features(isa string, cache float64) [WorkFeatures]float64 {
	ceil := func(n, d int) int { return (n + d - 1) / d }
	block := min(w.Block, w.Items)
	count, rows := ceil(w.Items, block), registerRows(isa)
	loads := w.Items/block*ceil(block, rows) + ceil(w.Items%block, rows)
	items, own := float64(w.Items)*w.Item, float64(block)*w.Item
	beyond := func(bytes float64) float64 { return max(0, 1-cache/bytes) }
	return [WorkFeatures]float64{
		products:   float64(w.Items) * w.Shared,
		groups:     float64(loads) * w.Shared,
		transforms: items,
		nearShared: float64(count) * min(w.Shared, cache),
		farShared:  float64(count) * max(0, w.Shared-cache),
		farHalf:    items * beyond(2*own),
		farQuarter: items * beyond(4*own),
		blocks:     float64(count),
	}
}

// VectorISA is the instruction set that decides the speed of float32 kernels: avx512, avx2 or base. Those beyond AVX-512 add formats.
func VectorISA(isa string) string {
	if strings.HasPrefix(isa, "avx512") || isa == "amx" {
		return "avx512"
	}
	return isa
}

// registerRows are the rows of a register tile of products (MR of kern/gemm.inc.h): AVX-512 has twice as many registers.
func registerRows(isa string) int {
	if VectorISA(isa) == "avx512" {
		return 14
	}
	return 6
}

// Expectations are the coefficients of expected times.
type Expectations struct {
	// Kinds are coefficients of the features by VectorISA and Work.Kind, in nanoseconds on the machine that was measured. Of others only
	// the ratios of two variants of a kernel count.
	Kinds map[string]map[string][WorkFeatures]float64 `json:"kinds"`
	// Error and KindError are those of BenchmarkOptions, of their ratios.
	Error     float64 `json:"error"`
	KindError float64 `json:"kind_error"`
}

//go:embed expectations.json
var fittedText []byte

// Fitted returns the expectations of this program, which package cost fits to times of variants on several instruction sets.
var Fitted = sync.OnceValue(func() *Expectations {
	var e Expectations
	if err := json.Unmarshal(fittedText, &e); err != nil {
		panic(fmt.Sprintf("tune: expectations.json: %v", err)) // a test of package cost compares it with the fit
	}
	return &e
})

// SecondCache is the size of the second cache of a core, in bytes.
var SecondCache = sync.OnceValue(func() float64 {
	const usual = 1 << 20
	if n := cpuinfo.Read().L2; n > 0 {
		return float64(n)
	}
	return usual
})

// Time returns the expected time of a variant for Candidate.Expected; 0 for a kind or an instruction set without coefficients.
//
// Formula: Σ c·x over Work.Features.
func (e *Expectations) Time(isa string, cache float64, w Work) (t float64) {
	c, known := e.Kinds[VectorISA(isa)][w.Kind]
	if !known {
		return 0
	}
	for i, x := range w.Features(isa, cache) {
		t += c[i] * x
	}
	return t
}
