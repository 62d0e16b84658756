package op

import (
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// FilterBlock is the side of the blocks of a filter that Kept tells of, and that kernels of
// sparse filters skip: so many result by so many source channels, all taps. It is that of
// the blocked layout, so that a block is whole for the convolution, for its adjoint, and for
// the gradient of the filter.
const FilterBlock = graph.BlockSize

// BlockMask says which blocks of a filter [O C kD kH kW] are kept; all values of the others are
// zero. For every FilterBlock channels of the result it has a '1' or '0' for every
// FilterBlock channels of the source, of which the last may be fewer. Empty: all are kept.
type BlockMask string

func blockCount(channels int) int { return (channels + FilterBlock - 1) / FilterBlock }

// BlockMaskOf finds the blocks of a filter w in which there is a value other than zero; empty if
// that is so in all, or if w is no filter: result and source channels, then taps.
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
				if v != 0 { // also what is not a number
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

// Check tells whether k can be of a filter w.
//
// Errors: ErrShape.
func (k BlockMask) Check(w Shape) error {
	if rows, cols := blockCount(w[0]), blockCount(w[1]); k != "" && (len(k) != rows*cols || strings.Trim(string(k), "01") != "") {
		return shapeError("%d blocks are kept or not of a filter %v, which has %d×%d of %d channels", len(k), w, rows, cols, FilterBlock)
	}
	return nil
}

// Keeps tells whether the block of result channel o and source channel c, of that many, is kept.
func (k BlockMask) Keeps(o, c, channels int) bool {
	return k == "" || k[o/FilterBlock*blockCount(channels)+c/FilterBlock] == '1'
}

// countPairs counts the pairs of channels of a filter w in kept blocks, of n source channels from
// lo on.
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

// Or are the blocks that k or other keeps, of filters of one shape.
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

// Clear makes the values of a filter w zero where a block is not kept.
func (k BlockMask) Clear(w []float32, s Shape) { clearBlocks(k, w, s) }

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

// Count is the number of blocks that are kept, and of all; 0 of both if all are kept and
// nobody counted.
func (k BlockMask) Count() (kept, of int) { return strings.Count(string(k), "1"), len(k) }

// String is the share that is kept, and a number by which patterns differ.
func (k BlockMask) String() string {
	if k == "" {
		return "all"
	}
	sum := fnv.New32a()
	sum.Write([]byte(k))
	kept, of := k.Count()
	return fmt.Sprintf("%d/%d#%08x", kept, of, sum.Sum32())
}
