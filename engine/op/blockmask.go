package op

import (
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// FilterBlock is the side of the blocks that BlockMask describes: FilterBlock
// result channels by FilterBlock source channels, all taps. Kernels of sparse
// filters skip zero blocks. The size equals that of the blocked layout, so a
// block stays whole in the convolution, in its adjoint and in the gradient of
// the filter.
const FilterBlock = graph.BlockSize

// BlockMask marks the blocks of a filter [O C kD kH kW] that may be non-zero.
// All values of the other blocks are zero. The string is a row-major matrix of
// '1' (kept) and '0' (zero): one row per FilterBlock result channels, one
// column per FilterBlock source channels. The last row and column may cover
// fewer channels. An empty string keeps all blocks.
type BlockMask string

// blockCount is the number of blocks that cover the channels.
func blockCount(channels int) int { return (channels + FilterBlock - 1) / FilterBlock }

// BlockMaskOf finds the non-zero blocks of a filter w. NaN counts as non-zero.
// The result is empty if all blocks have a non-zero value, or if s is not the
// shape of a filter: result channels, source channels, taps.
func BlockMaskOf(w []float32, s Shape) BlockMask {
	if len(s) < 3 {
		return ""
	}
	rows, cols, taps := blockCount(s[0]), blockCount(s[1]), s[2:].Size()
	k := []byte(strings.Repeat("0", rows*cols))
	for o := range s[0] {
		for c := range s[1] {
			i := o/FilterBlock*cols + c/FilterBlock
			if k[i] == '1' {
				continue
			}
			for _, v := range w[(o*s[1]+c)*taps:][:taps] {
				if v != 0 { // true for NaN too
					k[i] = '1'
					break
				}
			}
		}
	}
	if !strings.Contains(string(k), "0") {
		return ""
	}
	return BlockMask(k)
}

// Check returns an error unless k fits a filter of shape w.
//
// Errors: ErrShape.
func (k BlockMask) Check(w Shape) error {
	if rows, cols := blockCount(w[0]), blockCount(w[1]); k != "" && (len(k) != rows*cols || strings.Trim(string(k), "01") != "") {
		return shapeError("block mask has %d entries, filter %v has %d×%d blocks of %d channels", len(k), w, rows, cols, FilterBlock)
	}
	return nil
}

// Keeps reports whether the block of result channel o and source channel c is
// kept. channels is the number of source channels.
func (k BlockMask) Keeps(o, c, channels int) bool {
	return k == "" || k[o/FilterBlock*blockCount(channels)+c/FilterBlock] == '1'
}

// countPairs counts the channel pairs of a filter w in kept blocks, for n
// source channels from lo.
func (k BlockMask) countPairs(w Shape, lo, n int) int64 {
	if k == "" {
		return int64(w[0]) * int64(n)
	}
	var sum int64
	for o := 0; o < w[0]; o += FilterBlock {
		rows := int64(min(FilterBlock, w[0]-o))
		for c := lo; c < lo+n; c++ {
			if k.Keeps(o, c, w[1]) {
				sum += rows
			}
		}
	}
	return sum
}

// Or keeps the blocks that k or other keeps. Both belong to filters of one
// shape.
func (k BlockMask) Or(other BlockMask) BlockMask {
	if k == "" || other == "" {
		return ""
	}
	both := []byte(k)
	for i := range both {
		both[i] |= other[i] // '0' and '1' differ in the last bit
	}
	if !strings.Contains(string(both), "0") {
		return ""
	}
	return BlockMask(both)
}

// Clear sets the values of a filter w to zero in blocks that are not kept.
func (k BlockMask) Clear(w []float32, s Shape) { clearBlocks(k, w, s) }

// clearBlocks is Clear for any element type.
func clearBlocks[T float32 | float64](k BlockMask, w []T, s Shape) {
	if k == "" {
		return
	}
	taps := s[2:].Size()
	for o := range s[0] {
		for c := range s[1] {
			if !k.Keeps(o, c, s[1]) {
				clear(w[(o*s[1]+c)*taps:][:taps])
			}
		}
	}
}

// WithMask returns the attributes of a convolution or of one of its gradients with another block
// mask of the filter. Other attributes are returned unchanged.
func WithMask(attrs any, k BlockMask) any {
	switch a := attrs.(type) {
	case Conv:
		a.Mask = k
		return a
	case FusedConv:
		a.Mask = k
		return a
	case Int8Conv:
		a.Mask = k
		return a
	case ConvGrad:
		a.Mask = k
		return a
	case FusedConvGrad:
		a.Mask = k
		return a
	case HaloOp:
		a.Attrs = WithMask(a.Attrs, k)
		return a
	}
	return attrs
}

// MaskOf returns the block mask of the filter in the attributes of a convolution or of one of its
// gradients; empty for other attributes.
func MaskOf(attrs any) BlockMask {
	switch a := attrs.(type) {
	case Conv:
		return a.Mask
	case FusedConv:
		return a.Mask
	case ConvGrad:
		return a.Mask
	case FusedConvGrad:
		return a.Mask
	case HaloOp:
		return MaskOf(a.Attrs)
	}
	return ""
}

// Count is the number of kept blocks and of all blocks. Both are 0 for an empty
// string, which has no count.
func (k BlockMask) Count() (kept, of int) { return strings.Count(string(k), "1"), len(k) }

// String is "kept/all#checksum", or "all" for an empty string. The checksum
// distinguishes patterns with equal counts.
func (k BlockMask) String() string {
	if k == "" {
		return "all"
	}
	sum := fnv.New32a()
	sum.Write([]byte(k))
	kept, of := k.Count()
	return fmt.Sprintf("%d/%d#%08x", kept, of, sum.Sum32())
}
