package comm

import "fmt"

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
	// 2(P−1)/P·βn. It adds along the canonical tree over the ranks, as Tree with
	// one leaf for each does. For other P as Doubling.
	Halving
)

func (a Algorithm) String() string {
	return [...]string{"auto", "ring", "doubling", "halving"}[a]
}

// shortVector is the length in values below which messages cost more than bytes.
const shortVector = 1 << 14

// AllReduce adds up the x of all ranks, which have one length; all get the sum.
func AllReduce[T Summand](c *Comm, x []T, a Algorithm) error {
	power := c.Size()&(c.Size()-1) == 0
	if a == Auto {
		switch {
		case len(x) < shortVector:
			a = Doubling
		case power:
			a = Halving
		default:
			a = Ring
		}
	}
	var err error
	switch {
	case c.Size() == 1:
	case a == Ring:
		if _, err = ReduceScatter(c, x); err == nil {
			err = GatherPieces(c, x)
		}
	case power && a == Halving:
		err = reduceHalving(c, x)
	default:
		err = reduceDoubling(c, x, a)
	}
	if err != nil {
		return fmt.Errorf("all-reduce of %d values by %v: %w", len(x), a, err)
	}
	return nil
}

// reduceDoubling folds the ranks beyond the largest power of two onto neighbours,
// reduces among the rest, and gives the folded ones the result.
func reduceDoubling[T Summand](c *Comm, x []T, a Algorithm) error {
	p := 1
	for 2*p <= c.Size() {
		p *= 2
	}
	extra := c.Size() - p
	// Of the first 2·extra ranks each odd one is folded onto the one before it.
	if c.me < 2*extra && c.me%2 == 1 {
		if err := c.send(c.me-1, tagFold, x).Wait(); err != nil {
			return err
		}
		return c.recv(c.me-1, tagFold, x).Wait()
	}
	in := make([]T, len(x))
	if c.me < 2*extra {
		if err := c.recv(c.me+1, tagFold, in).Wait(); err != nil {
			return err
		}
		add(x, x, in)
	}
	rank := func(i int) int { // of the i-th that takes part
		if i < extra {
			return 2 * i
		}
		return i + extra
	}
	me := c.me - extra
	if c.me < 2*extra {
		me = c.me / 2
	}
	for d := 1; d < p; d *= 2 {
		peer := me ^ d
		if err := c.swap(tagReduce, rank(peer), x, rank(peer), in); err != nil {
			return err
		}
		add(x, x, in) // addition commutes: both get the same bits
	}
	if c.me < 2*extra {
		return c.send(c.me+1, tagFold, x).Wait()
	}
	return nil
}

// reduceHalving: after step k a rank has the sum of 2^k neighbours of its piece of
// n/2^k values.
func reduceHalving[T Summand](c *Comm, x []T) error {
	type span struct{ lo, hi int }
	own := span{0, len(x)}
	var parents []span
	in := make([]T, (len(x)+1)/2)
	for d := 1; d < c.Size(); d *= 2 {
		peer, mid := c.me^d, (own.lo+own.hi)/2
		keep, give := span{own.lo, mid}, span{mid, own.hi}
		if c.me&d != 0 {
			keep, give = give, keep
		}
		got := in[:keep.hi-keep.lo]
		if err := c.swap(tagReduce, peer, x[give.lo:give.hi], peer, got); err != nil {
			return err
		}
		add(x[keep.lo:keep.hi], x[keep.lo:keep.hi], got)
		parents, own = append(parents, own), keep
	}
	for d := c.Size() / 2; d > 0; d /= 2 {
		parent := parents[len(parents)-1]
		parents = parents[:len(parents)-1]
		other := span{parent.lo, own.lo}
		if own.lo == parent.lo {
			other = span{own.hi, parent.hi}
		}
		if err := c.swap(tagGather, c.me^d, x[own.lo:own.hi], c.me^d, x[other.lo:other.hi]); err != nil {
			return err
		}
		own = parent
	}
	return nil
}
