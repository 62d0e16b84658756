package comm

import (
	"fmt"
	"math/bits"
)

// Algorithm selects how a sum over ranks is computed. The order of the sum follows
// from the number of ranks and the length alone, not from the arrival of messages:
// every algorithm gives the same bits in every run and on all ranks, also of NaN and
// infinities. Different algorithms, and numbers of ranks, may round differently.
//
// Source: Thakur, Rabenseifner and Gropp 2005, doi:10.1177/1094342005051521 (recursive
// doubling, Rabenseifner's algorithm); Patarasuk and Yuan 2009,
// doi:10.1016/j.jpdc.2008.09.002 (ring).
type Algorithm int

// The algorithms, with the time for n bytes on P = 2^q ranks, α per message and β
// per byte.
const (
	// Auto selects Doubling for short vectors. For long ones it selects Halving if
	// P is a power of two, else Ring.
	Auto Algorithm = iota
	// Ring is a reduce-scatter around a ring followed by an all-gather: 2(P−1)·α +
	// 2(P−1)/P·βn. The order of summation, and so the bits, depend on P and on the
	// piece.
	Ring
	// Doubling is recursive doubling, which exchanges whole vectors: log₂P·(α +
	// βn). If P is not a power of two, the extra ranks first add their vectors to a
	// partner's.
	Doubling
	// Halving is recursive halving followed by recursive doubling (Rabenseifner):
	// 2·log₂P·α + 2(P−1)/P·βn. It sums along a binary tree over the ranks:
	// neighbours first, then neighbouring sums. AllReduce uses Doubling if P is not
	// a power of two.
	Halving
)

// String returns the name of the algorithm in lower case.
func (a Algorithm) String() string {
	return [...]string{"auto", "ring", "doubling", "halving"}[a]
}

// scatterAlgorithm returns the algorithm of the reduce-scatter of a among p ranks:
// Halving, or Ring if p is not a power of two.
func (a Algorithm) scatterAlgorithm(p int) Algorithm {
	if p&(p-1) == 0 && (a == Auto || a == Halving) {
		return Halving
	}
	return Ring
}

// Piece returns the index of the piece that ReduceScatterV leaves on a rank of p.
// Halving splits by the lowest bit of the rank first, so the index is the bit
// reversal of the rank.
func (a Algorithm) Piece(rank, p int) int {
	if a.scatterAlgorithm(p) == Ring {
		return rank
	}
	return int(bits.Reverse64(uint64(rank)) >> (64 - bits.Len(uint(p-1))))
}

// shortVector is the length below which latency (α) dominates bandwidth (β).
//
// Unit: values.
const shortVector = 1 << 14

// Resolve resolves the algorithm that AllReduce uses for a number of values and
// ranks. It replaces Auto, and Halving for a number of ranks that is not a power of
// two.
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

// AllReduce replaces x by its sum over all ranks.
//
// Shape: x has the same length on all ranks.
// Errors: failures of the transport, with the number of values and the algorithm.
// Cost: that of the algorithm.
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

// allReduceDoubling is recursive doubling for any P = p + extra, p a power of two.
// Each odd rank below 2·extra sends its vector to the rank before it, which takes
// part in its place and returns the result.
func allReduceDoubling[T Summand](c *Comm, x []T, a Algorithm) error {
	p := 1
	for 2*p <= c.Size() {
		p *= 2
	}
	extra := c.Size() - p
	parts, all := Parts[T]{x}, span{0, len(x)}
	// an odd rank below 2·extra: fold onto the rank before it
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
	rank := func(i int) int { // rank of the i-th participant
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
		peer, join := me^d, addTo[T]
		if peer < me { // the same operands in the same order on both partners: of two NaN the sum is the first one
			join = addAfter[T]
		}
		if err := exchange(c, tagReduce, parts, peerSpan{rank(peer), all}, peerSpan{rank(peer), all}, join); err != nil {
			return err
		}
	}
	if c.rank < 2*extra {
		return exchange(c, tagFold, parts, peerSpan{c.rank + 1, all}, peerSpan{rank: noRank}, nil)
	}
	return nil
}

// reduceScatterHalving is a reduce-scatter by recursive halving. After step k a
// rank holds the sum of 2^k neighbours for P/2^k pieces.
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

// allGatherDoubling is an all-gather by recursive doubling: the steps of
// reduceScatterHalving in reverse order.
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
