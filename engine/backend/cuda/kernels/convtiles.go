package kernels

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
)

// Products is how convolutions multiply: the values of PRODUCTS in conv.cu. F16Quads is
// apart because compute capability 7.0 multiplies by mma.m8n8k4 only, whose fragments
// belong to quads of threads. TwoFour needs filters with at most two non-zero values
// among four neighbouring input channels, at each tap and result channel.
//
// Source: NVIDIA, PTX ISA, mma, mma.sp and wgmma; Mishra et al. 2021, arXiv:2104.08378.
type Products int

// The kinds of products.
const (
	Plain    Products = iota // float32 on CUDA cores
	BF16                     // on tensor cores, sums in float32
	TF32                     // float32 rounded to 11 bits, on tensor cores
	F16                      // on tensor cores, sums in float32
	F16Quads                 // on tensor cores of compute capability 7.0
	TwoFour                  // bfloat16 or float16 with 2:4 filters, on sparse tensor cores, sums in float32
)

// Tile is a tile size of a convolution: a block of Threads computes Rows×Columns
// results, a warp (Plain: a thread) WarpRows×WarpColumns. Stages is the number of
// buffers of the pipeline, Blocks the number of blocks of a multiprocessor, limited by
// registers and shared memory. Rate is the relative efficiency, from the number of
// values read per product; only ratios matter. Points is the number of grid points that
// the gradient of a filter multiplies together; 0 for other convolutions. Tiles with
// Warpgroups multiply by instructions of four warps together (wgmma), of compute
// capability 9.0 only, in bfloat16 and float16: then WarpRows is 16, Columns is
// WarpColumns and 64, 128 or 256, and a group of four warps has 64 rows.
type Tile struct {
	Rows, Columns, WarpRows, WarpColumns, Threads, Stages, Blocks int
	Rate                                                          float64
	Points                                                        int
	Warpgroups                                                    bool
}

// LocalSamples is the number of samples that a thread of localconv.cu processes
// together.
const LocalSamples = 8

// SumLanes is the number of channels that filter_sum writes together, for filters of
// few taps.
const SumLanes = 32

// ConvTiles are the tile sizes of conv.cu on tensor cores, larger ones first.
var ConvTiles = []Tile{
	{128, 256, 16, 256, 256, 4, 1, 2, 0, true},
	{256, 128, 16, 128, 512, 4, 1, 2, 0, true},
	{128, 128, 16, 128, 256, 3, 2, 1.9, 0, true},
	{256, 64, 16, 64, 512, 4, 1, 1.7, 0, true},
	{128, 64, 16, 64, 256, 4, 2, 1.6, 0, true},
	{256, 128, 64, 64, 256, 3, 1, 1, 0, false},
	{128, 128, 64, 64, 128, 3, 2, 0.95, 0, false},
	{256, 48, 64, 48, 128, 3, 2, 0.8, 0, false},
	{128, 64, 64, 32, 128, 4, 3, 0.75, 0, false},
	{64, 64, 32, 32, 128, 4, 4, 0.6, 0, false},
	{128, 32, 32, 32, 128, 4, 3, 0.5, 0, false},
	{128, 16, 32, 16, 128, 4, 4, 0.35, 0, false},
	{128, 8, 32, 8, 128, 4, 4, 0.25, 0, false},
}

// PlainConvTiles are the tile sizes of conv.cu on CUDA cores.
var PlainConvTiles = []Tile{
	{128, 64, 8, 4, 256, 2, 2, 1, 0, false},
	{64, 64, 4, 4, 256, 2, 2, 0.7, 0, false},
	{64, 32, 4, 2, 256, 2, 3, 0.5, 0, false},
	{128, 8, 4, 1, 256, 2, 3, 0.3, 0, false},
}

// FilterTiles are the tile sizes of convfilter.cu on tensor cores.
var FilterTiles = []Tile{
	{128, 256, 16, 256, 256, 4, 1, 2.2, 64, true},
	{256, 128, 16, 128, 512, 4, 1, 2.2, 64, true},
	{128, 128, 16, 128, 256, 3, 2, 2, 64, true},
	{64, 256, 16, 256, 128, 4, 2, 1.8, 32, true},
	{64, 128, 16, 128, 128, 4, 2, 1.6, 64, true},
	{128, 256, 64, 64, 256, 3, 1, 1.3, 32, false},
	{128, 256, 64, 64, 256, 3, 1, 1.25, 64, false},
	{256, 128, 64, 64, 256, 3, 1, 1.3, 32, false},
	{128, 128, 64, 64, 128, 3, 2, 1.15, 32, false},
	{128, 128, 64, 32, 256, 3, 1, 1, 64, false},
	{64, 256, 64, 64, 128, 3, 2, 1, 32, false},
	{64, 128, 32, 32, 256, 3, 2, 0.85, 32, false},
	{48, 96, 48, 32, 96, 3, 4, 0.8, 32, false},
	{64, 64, 32, 32, 128, 3, 3, 0.7, 32, false},
	{32, 128, 32, 32, 128, 3, 3, 0.65, 32, false},
	{16, 64, 16, 32, 64, 3, 8, 0.3, 32, false},
}

// PlainFilterTiles are the tile sizes of convfilter.cu on CUDA cores.
var PlainFilterTiles = []Tile{
	{128, 64, 8, 8, 128, 2, 2, 1, 32, false},
	{64, 64, 8, 4, 128, 2, 3, 0.85, 32, false},
	{32, 64, 4, 4, 128, 2, 4, 0.6, 32, false},
	{16, 64, 4, 4, 64, 2, 8, 0.5, 32, false},
}

// unitBytes is the size of a vector load in conv.cu and convfilter.cu.
const unitBytes = 16

// swizzleBytes is what buffers of warpgroups need to begin at a multiple of it.
const swizzleBytes = 1024

// ConvShared returns the bytes of shared memory of conv.cu, with tables for the given
// numbers of taps.
//
// The buffers of a stage hold units of 16 bytes of each row and column; "more" pads a
// line of units, so that threads of a warp read different banks. Behind them are tables
// of 4 bytes: the positions of rows for each tap, and the offsets of taps. A block may
// not exceed the shared memory of the device (Properties.SharedBytes).
//
// taps are the filter's sizes over depth, height and width. A filter of TwoFour takes
// half of the units, and one for the metadata of 16 columns.
func (t Tile) ConvShared(p Products, taps [3]int) int {
	units, more, start := 4, 2, 0
	if t.Warpgroups {
		units, more, start = 8, 0, swizzleBytes
	}
	stage := units * (t.Rows + more + t.Columns + more)
	if p == TwoFour {
		stage = units*(t.Rows+more) + units/2*(t.Columns+more) + units*t.Columns/16
	}
	all := taps[0] + taps[1] + taps[2]
	return start + t.Stages*stage*unitBytes + 4*(t.Rows*(all+1)+all+2*taps[0])
}

// FilterShared returns the bytes of shared memory of convfilter.cu, for values of the
// given size. The tables of positions are double, for the points in use and the next
// ones.
func (t Tile) FilterShared(taps [3]int, bytes int) int {
	per, more, start := unitBytes/bytes, 1, 0
	switch {
	case t.Warpgroups:
		more, start = 0, swizzleBytes
	case bytes == 4:
		more = 2
	}
	return start + t.Stages*t.Points*(t.Rows/per+t.Columns/per+2*more)*unitBytes + 2*4*t.Points*(2+taps[1]+taps[2])
}

// defines returns the macros of a program. stored is the C name of the storage type:
// float, bf16 or f16.
func (t Tile) defines(stored string, p Products) []string {
	return []string{"T=" + stored, fmt.Sprintf("PRODUCTS=%d", p), fmt.Sprintf("ROWS=%d", t.Rows), fmt.Sprintf("COLUMNS=%d", t.Columns),
		fmt.Sprintf("WARP_ROWS=%d", t.WarpRows), fmt.Sprintf("WARP_COLUMNS=%d", t.WarpColumns),
		fmt.Sprintf("THREADS=%d", t.Threads), fmt.Sprintf("STAGES=%d", t.Stages), fmt.Sprintf("BLOCKS=%d", t.Blocks), fmt.Sprintf("WGMMA=%d", btoi(t.Warpgroups))}
}

// program returns the source of a file with macros. Those of warpgroups need the
// architecture-specific target sm_90a, since wgmma exists in no other.
func (t Tile) program(file string, defines ...string) device.Program {
	p := Program(file, defines...)
	p.Specific = t.Warpgroups
	return p
}

// Conv returns the program of a convolution or its adjoint. It is an implicit matrix
// product of filters and of the input's values at all taps.
func Conv(t Tile, stored string, p Products, adjoint bool) device.Program {
	return t.program("conv.cu", append(t.defines(stored, p), adjointDefine(adjoint))...)
}

// ConvPack returns the program that packs filters for Conv. They are rounded to TF32
// there once, not in each block.
func ConvPack(stored string, p Products, adjoint bool) device.Program {
	return Program("convpack.cu", "T="+stored, fmt.Sprintf("TF32=%d", btoi(p == TF32)), fmt.Sprintf("SPARSE=%d", btoi(p == TwoFour)), adjointDefine(adjoint))
}

// PackedBytes returns the bytes of the values of a packed filter, for room result
// channels, lanes padded input channels and the given number of taps, of values of the
// given size, and those of the metadata behind them. A filter of TwoFour has half of
// the values, and four bits of metadata for each quad of channels.
func (p Products) PackedBytes(taps, lanes, room, bytes int) (values, metadata int64) {
	n := int64(taps) * int64(lanes) * int64(room)
	if p == TwoFour {
		return n / 2 * int64(bytes), n / 8
	}
	return n * int64(bytes), 0
}

// ConvLibrary returns the program of copies around convolutions of cuDNN.
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

// ConvFilter returns the program of the gradient of a filter. Its last step sums groups
// of the given number of channels.
func ConvFilter(t Tile, stored string, p Products, lanes int) device.Program {
	return t.program("convfilter.cu", append(t.defines(stored, p), fmt.Sprintf("POINTS=%d", t.Points), fmt.Sprintf("LANES=%d", lanes))...)
}

// convVariants returns all programs of convolutions: every tile size with every kind of
// products. Tests compile all of them; a process compiles only those that its plans
// choose.
func convVariants() []device.Program {
	all := []device.Program{LocalConv(LocalSamples)}
	for _, stored := range []string{"float", "bf16", "f16"} {
		all = append(all, ConvLibrary(stored, false), ConvLibrary(stored, true))
	}
	all = append(all, ConvInt8Pack(Int8Form))
	for _, stored := range []string{"u8", "float", "bf16", "f16"} {
		for _, points := range Int8Points {
			all = append(all, ConvInt8(points, stored))
		}
	}
	for _, stored := range []string{"bf16", "f16"} {
		all = append(all, ConvPack(stored, TwoFour, false))
		for _, t := range ConvTilesOf(TwoFour) {
			all = append(all, Conv(t, stored, TwoFour, false))
		}
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

// ConvTilesOf returns the tile sizes for a kind of products.
func ConvTilesOf(p Products) []Tile {
	if p == Plain {
		return PlainConvTiles
	}
	return tilesFor(p, ConvTiles)
}

// FilterTilesOf returns the tile sizes of gradients of filters.
func FilterTilesOf(p Products) []Tile {
	if p == Plain {
		return PlainFilterTiles
	}
	return tilesFor(p, FilterTiles)
}

// tilesFor returns the tiles of tensor cores that can have these products: those of
// warpgroups have 16 bits, and those of quads and of 2:4 filters are 16 columns wide.
func tilesFor(p Products, tiles []Tile) []Tile {
	var all []Tile
	for _, t := range tiles {
		if (!t.Warpgroups || p == BF16 || p == F16) && (p != F16Quads && p != TwoFour || t.WarpColumns%16 == 0) {
			all = append(all, t)
		}
	}
	return all
}

// String returns a name that no other tile of the same list has, such as "128×256×64,
// 256 threads, warpgroups".
func (t Tile) String() string {
	s := fmt.Sprintf("%d×%d", t.Rows, t.Columns)
	if t.Points > 0 {
		s += fmt.Sprintf("×%d", t.Points)
	}
	s += fmt.Sprintf(", %d threads", t.Threads)
	if t.Warpgroups {
		s += ", warpgroups"
	}
	return s
}

// Supports reports whether a device of this architecture, ten times its compute
// capability, can compute a tile.
func (t Tile) Supports(architecture int) bool { return !t.Warpgroups || architecture == 90 }

// String returns the name of the products.
func (p Products) String() string {
	return [...]string{"plain", "bf16", "tf32", "f16", "quads", "2:4"}[p]
}

// LocalConv returns the program of locally connected convolutions.
func LocalConv(samples int) device.Program {
	return Program("localconv.cu", fmt.Sprintf("SAMPLES=%d", samples))
}
