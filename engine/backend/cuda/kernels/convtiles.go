package kernels

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
)

// Products is how convolutions multiply: the values of PRODUCTS in conv.cu.
type Products int

// The kinds of products.
const (
	Plain    Products = iota // of floats, on the plain units
	BF16                     // on matrix units, sums in float32
	TF32                     // of floats rounded to 11 bits, on matrix units
	F16                      // on matrix units, sums in float32
	F16Quads                 // on those of compute capability 7.0
)

// Tile is one size of the tiles of a convolution: Rows×Columns in a block of Threads, of
// which a warp (Plain: a thread) makes WarpRows×WarpColumns, with Stages buffers, and as many
// blocks to a processor as registers and shared memory leave. Rate is the share of the
// units that it keeps busy, by count of what it reads for a product; only proportions matter.
type Tile struct {
	Rows, Columns, WarpRows, WarpColumns, Threads, Stages, Blocks int
	Rate                                                          float64
}

// LocalSamples is how many samples a thread of localconv.cu has at a time.
const LocalSamples = 8

// SumLanes is how many channels filter_sum writes at once, of filters of not too many taps.
const SumLanes = 32

// Points is how many points of a filter's gradient are multiplied at once.
const Points = 32

// ConvTiles are those of conv.cu on matrix units, larger ones first.
var ConvTiles = []Tile{
	{256, 128, 64, 64, 256, 3, 1, 1},
	{128, 128, 64, 64, 128, 3, 2, 0.95},
	{256, 48, 64, 48, 128, 3, 2, 0.8},
	{128, 64, 64, 32, 128, 4, 3, 0.75},
	{64, 64, 32, 32, 128, 4, 4, 0.6},
	{128, 32, 32, 32, 128, 4, 3, 0.5},
	{128, 16, 32, 16, 128, 4, 4, 0.35},
	{128, 8, 32, 8, 128, 4, 4, 0.25},
}

// PlainConvTiles are those of conv.cu on the plain units.
var PlainConvTiles = []Tile{
	{128, 64, 8, 4, 256, 2, 2, 1},
	{64, 64, 4, 4, 256, 2, 2, 0.7},
	{64, 32, 4, 2, 256, 2, 3, 0.5},
	{128, 8, 4, 1, 256, 2, 3, 0.3},
}

// FilterTiles are those of convfilter.cu on matrix units.
var FilterTiles = []Tile{
	{128, 128, 64, 32, 256, 3, 1, 1},
	{64, 128, 32, 32, 256, 3, 2, 0.85},
	{48, 96, 48, 32, 96, 3, 4, 0.8},
	{64, 64, 32, 32, 128, 3, 3, 0.7},
	{32, 128, 32, 32, 128, 3, 3, 0.65},
	{16, 64, 16, 32, 64, 3, 8, 0.3},
}

// PlainFilterTiles are those of convfilter.cu on the plain units.
var PlainFilterTiles = []Tile{
	{128, 64, 8, 8, 128, 2, 2, 1},
	{64, 64, 8, 4, 128, 2, 3, 0.85},
	{32, 64, 4, 4, 128, 2, 4, 0.6},
	{16, 64, 4, 4, 64, 2, 8, 0.5},
}

// unitBytes is the size of what conv.cu and convfilter.cu copy at once.
const unitBytes = 16

// ConvShared is the shared memory of conv.cu with tables for so many taps of the axes.
func (t Tile) ConvShared(taps [3]int) int {
	const units = 4
	all := taps[0] + taps[1] + taps[2]
	return t.Stages*units*(t.Rows+2+t.Columns+2)*unitBytes + 4*(t.Rows*(all+1)+all+2*taps[0])
}

// FilterShared is that of convfilter.cu, for values of so many bytes.
func (t Tile) FilterShared(taps [3]int, bytes int) int {
	per, more := unitBytes/bytes, 1
	if bytes == 4 {
		more = 2
	}
	return t.Stages*Points*(t.Rows/per+t.Columns/per+2*more)*unitBytes + 2*4*Points*(2+taps[1]+taps[2])
}

func (t Tile) defines(stored string, p Products) []string {
	return []string{"T=" + stored, fmt.Sprintf("PRODUCTS=%d", p), fmt.Sprintf("ROWS=%d", t.Rows), fmt.Sprintf("COLUMNS=%d", t.Columns),
		fmt.Sprintf("WARP_ROWS=%d", t.WarpRows), fmt.Sprintf("WARP_COLUMNS=%d", t.WarpColumns),
		fmt.Sprintf("THREADS=%d", t.Threads), fmt.Sprintf("STAGES=%d", t.Stages), fmt.Sprintf("BLOCKS=%d", t.Blocks)}
}

// Conv is the program of a convolution or its adjoint with values stored so.
func Conv(t Tile, stored string, p Products, adjoint bool) device.Program {
	return Program("conv.cu", append(t.defines(stored, p), adjointDefine(adjoint))...)
}

// ConvPack is the program that packs filters for Conv.
func ConvPack(stored string, p Products, adjoint bool) device.Program {
	return Program("convpack.cu", "T="+stored, fmt.Sprintf("TF32=%d", btoi(p == TF32)), adjointDefine(adjoint))
}

// ConvLibrary is the program of what a convolution of a library needs besides.
func ConvLibrary(stored string, adjoint bool) device.Program {
	return Program("convlibrary.cu", "T="+stored, adjointDefine(adjoint))
}

func adjointDefine(adjoint bool) string { return fmt.Sprintf("ADJOINT=%d", btoi(adjoint)) }

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// ConvFilter is the program of the gradient of a filter, which sums groups of so many lanes
// at once in the end.
func ConvFilter(t Tile, stored string, p Products, lanes int) device.Program {
	return Program("convfilter.cu", append(t.defines(stored, p), fmt.Sprintf("POINTS=%d", Points), fmt.Sprintf("LANES=%d", lanes))...)
}

// convVariants are all programs of convolutions: with every tile in every arithmetic.
func convVariants() []device.Program {
	all := []device.Program{LocalConv(LocalSamples)}
	for _, stored := range []string{"float", "bf16", "f16"} {
		all = append(all, ConvLibrary(stored, false), ConvLibrary(stored, true))
	}
	for _, k := range []struct {
		stored string
		p      Products
	}{{"bf16", Plain}, {"f16", Plain}, {"float", Plain}, {"float", TF32}, {"bf16", BF16}, {"f16", F16Quads}, {"f16", F16}} {
		for _, adjoint := range []bool{true, false} {
			all = append(all, ConvPack(k.stored, k.p, adjoint))
			for _, t := range slices.Backward(ConvTilesOf(k.p)) {
				all = append(all, Conv(t, k.stored, k.p, adjoint))
			}
		}
		for _, t := range slices.Backward(FilterTilesOf(k.p)) {
			all = append(all, ConvFilter(t, k.stored, k.p, SumLanes))
		}
	}
	return all
}

// ConvTilesOf are the tiles for products of a kind.
func ConvTilesOf(p Products) []Tile {
	switch p {
	case Plain:
		return PlainConvTiles
	case F16Quads: // whose products are 16 columns wide
		var all []Tile
		for _, t := range ConvTiles {
			if t.WarpColumns%16 == 0 {
				all = append(all, t)
			}
		}
		return all
	}
	return ConvTiles
}

// FilterTilesOf are the tiles for gradients of filters.
func FilterTilesOf(p Products) []Tile {
	if p == Plain {
		return PlainFilterTiles
	}
	return FilterTiles
}

// String names the products.
func (p Products) String() string { return [...]string{"plain", "bf16", "tf32", "f16", "quads"}[p] }

// LocalConv is the program of locally connected convolutions, of so many samples at a time.
func LocalConv(samples int) device.Program {
	return Program("localconv.cu", fmt.Sprintf("SAMPLES=%d", samples))
}
