package prune

import (
	"cmp"
	"fmt"
	"slices"
)

// Pattern is what is removed as one.
type Pattern string

// The patterns.
const (
	Element Pattern = "element" // single weights
	Blocks  Pattern = "block"   // blocks of output and input channels
	TwoFour Pattern = "2:4"     // two of each four weights of a filter, in the order in which they lie
)

// Block is the shape of blocks: so many output channels by so many input channels, with all taps of
// the filter. At the end of a layer whose channels it does not divide blocks are smaller.
type Block struct{ Out, In int }

// String is 16x16 with all taps.
func (b Block) String() string { return fmt.Sprintf("%dx%d with all taps", b.Out, b.In) }

// Structure is a pattern, with the shape of its blocks if it has any.
type Structure struct {
	Pattern Pattern
	Block   Block
}

// MaxSparsity is the largest sparsity that a pattern allows.
func (s Structure) MaxSparsity() float64 {
	if s.Pattern == TwoFour {
		return 0.5
	}
	return 1
}

// applies says whether a layer is pruned. Those with fewer channels than a block are left to the
// dense kernels, and the weights that a result of a transposed one sums do not lie side by side.
func (s Structure) applies(l Layer) bool {
	switch s.Pattern {
	case Blocks:
		return l.Out >= s.Block.Out && l.In >= s.Block.In
	case TwoFour:
		return !l.Transposed
	}
	return true
}

// unitCount is the number of what is removed as one in a layer.
func (s Structure) unitCount(l Layer) int {
	switch s.Pattern {
	case Blocks:
		return ceilDiv(l.Out, s.Block.Out) * ceilDiv(l.In, s.Block.In)
	case TwoFour:
		row := l.fanIn()
		return l.Size() / row * ceilDiv(row, 4)
	}
	return l.Size()
}

// fanIn is the number of weights that one result sums. They lie side by side, but for transposed
// filters; the pattern 2:4 counts along them.
func (l Layer) fanIn() int { return l.In * l.Taps() }

// unitElements appends those of unit u to a slice. Of the pattern 2:4 they are the two of four that
// have the lowest scores, at equal scores the later ones; of three left over at the end of a
// row the lowest one, of two or one none.
func (s Structure) unitElements(to []int, l Layer, u int, scores []float32) []int {
	switch s.Pattern {
	case Blocks:
		across := ceilDiv(l.In, s.Block.In)
		out, in := u/across*s.Block.Out, u%across*s.Block.In
		for o := out; o < min(out+s.Block.Out, l.Out); o++ {
			for i := in; i < min(in+s.Block.In, l.In); i++ {
				for t := range l.Taps() {
					to = append(to, l.index(o, i, t))
				}
			}
		}
		return to
	case TwoFour:
		row := l.fanIn()
		groups := ceilDiv(row, 4)
		lo := u/groups*row + u%groups*4
		n := min(4, row-u%groups*4)
		begin := len(to)
		for i := range n {
			to = append(to, lo+i)
		}
		slices.SortFunc(to[begin:], func(a, b int) int { return cmp.Or(cmp.Compare(scores[a], scores[b]), b-a) })
		return to[:begin+max(n-2, 0)]
	}
	return append(to, u)
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
