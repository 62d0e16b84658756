package comm

import (
	"fmt"
	"math/bits"
)

// Algorithm is a way to add up the values of all ranks. Each gives the same bits
// in every run, and all ranks get the same bits.
type Algorithm int

// The algorithms, with the time for n bytes on P = 2^q ranks, α a message and β a
// byte.
const (
	// Auto takes doubling for short vectors, and halving or, where P is no power
	// of two, the ring for long ones.
	Auto Algorithm = iota
	// Ring reduces around a ring and gathers: 2(P−1)·α + 2(P−1)/P·βn. Its bits
	// depend on P and on the piece.
	Ring
	// Doubling exchanges whole vectors: log₂P·(α + βn). For P that is no power of
	// two the last ranks first add theirs to a partner's.
	Doubling
	// Halving exchanges halves with neighbours first, and gathers back: 2·log₂P·α +
	// 2(P−1)/P·βn. It adds along the canonical tree over the ranks: neighbours
	// first, then neighbouring sums. For other P as Doubling.
	Halving
)

func (a Algorithm) String() string {
	return [...]string{"auto", "ring", "doubling", "halving"}[a]
}

// scatterAlgorithm is the algorithm by which a parts a sum among p ranks: Halving, or Ring
// where p is no power of two.
func (a Algorithm) scatterAlgorithm(p int) Algorithm {
	if p&(p-1) == 0 && (a == Auto || a == Halving) {
		return Halving
	}
	return Ring
}

// Piece is the number of the piece that ReduceScatterV leaves to a rank of p.
func (a Algorithm) Piece(rank, p int) int {
	if a.scatterAlgorithm(p) == Ring {
		return rank
	}
	return int(bits.Reverse64(uint64(rank)) >> (64 - bits.Len(uint(p-1)))) // halves are taken by the lowest bit first
}

// shortVector is the length in values below which messages cost more than bytes.
const shortVector = 1 << 14

// Resolve is the algorithm that AllReduce takes for so many values and ranks: itself, but
// for Auto, and for Halving where the number of ranks is no power of two.
func (a Algorithm) Resolve(values, ranks int) Algorithm {
	power := ranks&(ranks-1) == 0
	switch {
	case a == Auto && values < shortVector:
		return Doubling
	case a == Auto && power:
		return Halving
	case a == Auto:
		return Ring
	case a == Halving && !power:
		return Doubling
	}
	return a
}

// AllReduce adds up the x of all ranks, which have one length; all get the sum.
func AllReduce[T Summand](c *Comm, x []T, a Algorithm) error {
	a = a.Resolve(len(x), c.Size())
	var err error
	switch {
	case c.Size() == 1:
	case a == Ring, a == Halving:
		cuts := SplitEvenly(len(x), c.Size())
		if _, err = ReduceScatterV(c, x, cuts, a); err == nil {
			err = AllGatherV(c, x, cuts, a)
		}
	default:
		err = allReduceDoubling(c, x, a)
	}
	if err != nil {
		return fmt.Errorf("all-reduce of %d values by %v: %w", len(x), a, err)
	}
	return nil
}

// allReduceDoubling folds the ranks beyond the largest power of two onto neighbours,
// reduces among the rest, and gives the folded ones the result.
func allReduceDoubling[T Summand](c *Comm, x []T, a Algorithm) error {
	p := 1
	for 2*p <= c.Size() {
		p *= 2
	}
	extra := c.Size() - p
	parts, all := Parts[T]{x}, span{0, len(x)}
	// Of the first 2·extra ranks each odd one is folded onto the one before it.
	if c.rank < 2*extra && c.rank%2 == 1 {
		if err := exchange(c, tagFold, parts, peerSpan{c.rank - 1, all}, peerSpan{rank: noRank}, nil); err != nil {
			return err
		}
		return exchange(c, tagFold, parts, peerSpan{rank: noRank}, peerSpan{c.rank - 1, all}, nil)
	}
	if c.rank < 2*extra {
		if err := exchange(c, tagFold, parts, peerSpan{rank: noRank}, peerSpan{c.rank + 1, all}, addTo[T]); err != nil {
			return err
		}
	}
	rank := func(i int) int { // of the i-th that takes part
		if i < extra {
			return 2 * i
		}
		return i + extra
	}
	me := c.rank - extra
	if c.rank < 2*extra {
		me = c.rank / 2
	}
	for d := 1; d < p; d *= 2 {
		peer := me ^ d
		// Addition commutes: both get the same bits.
		if err := exchange(c, tagReduce, parts, peerSpan{rank(peer), all}, peerSpan{rank(peer), all}, addTo[T]); err != nil {
			return err
		}
	}
	if c.rank < 2*extra {
		return exchange(c, tagFold, parts, peerSpan{c.rank + 1, all}, peerSpan{rank: noRank}, nil)
	}
	return nil
}

// reduceScatterHalving: after step k a rank has the sum of 2^k neighbours of P/2^k pieces.
func reduceScatterHalving[T Summand](c *Comm, x Parts[T], cuts []int) error {
	lo, hi := 0, c.Size()
	for d := 1; d < c.Size(); d *= 2 {
		mid := (lo + hi) / 2
		give := span{cuts[mid], cuts[hi]}
		if hi = mid; c.rank&d != 0 {
			give = span{cuts[lo], cuts[mid]}
			lo, hi = mid, 2*mid-lo
		}
		if err := exchange(c, tagReduce, x, peerSpan{c.rank ^ d, give}, peerSpan{c.rank ^ d, span{cuts[lo], cuts[hi]}}, addTo[T]); err != nil {
			return err
		}
	}
	return nil
}

// allGatherDoubling takes the steps of reduceScatterHalving back.
func allGatherDoubling[T any](c *Comm, x Parts[T], cuts []int) error {
	lo, n := Halving.Piece(c.rank, c.Size()), 1
	for d := c.Size() / 2; d > 0; d /= 2 {
		other := lo ^ n
		if err := exchange(c, tagGather, x, peerSpan{c.rank ^ d, span{cuts[lo], cuts[lo+n]}}, peerSpan{c.rank ^ d, span{cuts[other], cuts[other+n]}}, nil); err != nil {
			return err
		}
		lo, n = lo&^n, 2*n
	}
	return nil
}
