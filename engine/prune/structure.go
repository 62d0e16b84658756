package prune

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/op"
)

// Pattern is the shape of the units that are removed together.
//
// Source: Narang et al. 2017, arXiv:1711.02782 (blocks); Mishra et al. 2021,
// arXiv:2104.08378 (2:4).
type Pattern string

// The patterns.
const (
	Element Pattern = "element" // single weights
	Blocks  Pattern = "block"   // blocks of output and input channels
	TwoFour Pattern = "2:4"     // two of every four neighbouring input channels (N:M sparsity)
)

// Block is the size of blocks in output and input channels. A block includes all taps of the
// filter. At the end of a layer whose channels are not divisible, blocks are smaller.
type Block struct{ Out, In int }

// String formats a block as "16x16 with all taps".
func (b Block) String() string { return fmt.Sprintf("%dx%d with all taps", b.Out, b.In) }

// Structure is a pattern, with the size of its blocks.
type Structure struct {
	Pattern Pattern
	Block   Block // of the pattern Blocks; zero for others
}

// MaxSparsity is the highest sparsity that the pattern allows: 0.5 for 2:4, else 1.
func (s Structure) MaxSparsity() float64 {
	if s.Pattern == TwoFour {
		return 0.5
	}
	return 1
}

// applies reports whether the structure applies to a layer. Layers with fewer channels than a block
// stay dense, as dense kernels compute them. 2:4 is the pattern of kernels of convolutions; transposed ones
// sum over output channels.
func (s Structure) applies(l Layer) bool {
	switch s.Pattern {
	case Blocks:
		return l.Out >= s.Block.Out && l.In >= s.Block.In
	case TwoFour:
		return !l.Transposed
	}
	return true
}

// unitCount is the number of units of a layer.
func (s Structure) unitCount(l Layer) int {
	switch s.Pattern {
	case Blocks:
		return ceilDiv(l.Out, s.Block.Out) * ceilDiv(l.In, s.Block.In)
	case TwoFour:
		return l.Out * l.Taps() * ceilDiv(l.In, op.Quad)
	}
	return l.Size()
}

// fanIn is the number of weights in the sum of one output value (the fan-in).
func (l Layer) fanIn() int { return l.In * l.Taps() }

// unitElements appends the weights of unit u to to, as indices in the layer. In the pattern 2:4 these
// are the two with the lowest scores of four input channels, at one output channel and tap; at equal scores those
// with higher indices. A remainder of three channels gives one, a remainder of two or one gives none.
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
		quads := ceilDiv(l.In, op.Quad)
		out, tap, in := u/quads/l.Taps(), u/quads%l.Taps(), u%quads*op.Quad
		begin := len(to)
		for i := in; i < min(in+op.Quad, l.In); i++ {
			to = append(to, l.index(out, i, tap))
		}
		slices.SortFunc(to[begin:], func(a, b int) int { return cmp.Or(cmp.Compare(scores[a], scores[b]), b-a) })
		return to[:max(len(to)-op.Quad/2, begin)]
	}
	return append(to, u)
}

// ceilDiv is ⌈a/b⌉.
func ceilDiv(a, b int) int { return (a + b - 1) / b }
