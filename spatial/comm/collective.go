package comm

import "fmt"

// Number is an element type of sums.
type Number interface {
	float32 | float64 | int64
}

// Summand is an element type of collectives: a number, or a placeholder with a size
// only.
type Summand interface {
	Number | SizeOnly
}

// Tags of collectives. Successive collectives of a group may share a tag, because
// messages with equal tags keep their order. Phases of one collective that can
// overtake each other need different tags.
const (
	tagBarrier = Tags + iota
	tagBroadcast
	tagReduce
	tagGather
	tagAll
	tagFold
)

// Barrier returns after all ranks of the group have called it. In round k each rank
// signals the rank 2ᵏ after it and waits for the rank 2ᵏ before it (dissemination
// barrier, see Dissemination).
//
// Cost: ⌈log₂ P⌉·α.
func Barrier(c *Comm) error {
	var token [1]byte
	after, before := c.Dissemination()
	for k, to := range after {
		if err := c.sendRecv(tagBarrier, to, []byte{1}, before[k], token[:]); err != nil {
			return fmt.Errorf("barrier: %w", err)
		}
	}
	return nil
}

// Broadcast copies x of the rank root to all ranks, along a BinomialTree.
//
// Cost: ⌈log₂P⌉·(α + βn).
func Broadcast(c *Comm, root int, x Slice) error {
	parent, children := c.BinomialTree(root)
	if parent != noRank {
		if err := c.recv(parent, tagBroadcast, x).Wait(); err != nil {
			return fmt.Errorf("broadcast: %w", err)
		}
	}
	var sent []Request
	for _, child := range children {
		sent = append(sent, c.send(child, tagBroadcast, x))
	}
	if err := WaitAll(sent...); err != nil {
		return fmt.Errorf("broadcast: %w", err)
	}
	return nil
}

// SplitEvenly returns the p+1 boundaries of p nearly equal pieces of n values.
func SplitEvenly(n, p int) []int {
	cuts := make([]int, p+1)
	for i := range cuts {
		cuts[i] = n * i / p
	}
	return cuts
}

// ReduceScatterV sums x over all ranks and leaves one piece of the sum on each
// rank, in place. cuts are the P+1 boundaries of the pieces; a rank gets piece
// a.Piece(rank, P). The rest of x is overwritten. It returns the own piece.
//
// The bits equal those of AllReduce with the same algorithm, for Ring if the pieces
// are even.
//
// Errors: cuts that do not match x and the group; failures of the transport.
// Cost: half of AllReduce, so (P−1)·α + (P−1)/P·βn for Ring.
func ReduceScatterV[T Summand](c *Comm, x []T, cuts []int, a Algorithm) ([]T, error) {
	if err := ReduceScatterParts(c, Parts[T]{x}, cuts, a); err != nil {
		return nil, err
	}
	own := a.Piece(c.rank, c.Size())
	return x[cuts[own]:cuts[own+1]], nil
}

// ReduceScatterParts is ReduceScatterV of a vector in several slices.
func ReduceScatterParts[T Summand](c *Comm, x Parts[T], cuts []int, a Algorithm) error {
	if err := checkCuts(c, x, cuts); err != nil {
		return fmt.Errorf("reduce-scatter: %w", err)
	}
	scatter := reduceScatterRing[T]
	if a.scatterAlgorithm(c.Size()) == Halving {
		scatter = reduceScatterHalving[T]
	}
	if err := scatter(c, x, cuts); err != nil {
		return fmt.Errorf("reduce-scatter: %w", err)
	}
	return nil
}

// checkCuts returns an error unless cuts has a piece of x for each rank.
func checkCuts[T any](c *Comm, x Parts[T], cuts []int) error {
	if len(cuts) != c.Size()+1 || cuts[0] != 0 || cuts[c.Size()] != x.Len() {
		return fmt.Errorf("piece boundaries %v do not match %d values on %d ranks", cuts, x.Len(), c.Size())
	}
	return nil
}

// reduceScatterRing is a reduce-scatter around a ring. The partial sum of piece i
// starts on rank i+1 and is complete on rank i after P−1 steps.
func reduceScatterRing[T Summand](c *Comm, x Parts[T], cuts []int) error {
	p := c.Size()
	piece := func(i int) span { return span{cuts[i], cuts[i+1]} }
	for k := 1; k < p; k++ { // a rank's own piece starts on the next rank
		out, own := piece((c.rank-k+p)%p), piece((c.rank-k-1+2*p)%p)
		if err := exchange(c, tagReduce, x, peerSpan{(c.rank + 1) % p, out}, peerSpan{(c.rank - 1 + p) % p, own}, addTo[T]); err != nil {
			return err
		}
	}
	return nil
}

// addTo computes y = y + x.
func addTo[T Summand](y, x []T) { add(y, y, x) }

// addAfter computes y = x + y. It differs from addTo if both are NaN.
func addAfter[T Summand](y, x []T) { add(y, x, y) }

// add computes y = left + right, elementwise; y may be one of them. SizeOnly values
// are ignored.
func add[T Summand](y, left, right []T) {
	switch y := any(y).(type) {
	case []float32:
		addNumbers(y, any(left).([]float32), any(right).([]float32))
	case []float64:
		addNumbers(y, any(left).([]float64), any(right).([]float64))
	case []int64:
		addNumbers(y, any(left).([]int64), any(right).([]int64))
	}
}

func addNumbers[T Number](y, left, right []T) {
	for i := range y {
		y[i] = left[i] + right[i]
	}
}

// allGatherRing is an all-gather around a ring: (P−1)·α + (P−1)/P·βn.
func allGatherRing[T any](c *Comm, x Parts[T], cuts []int) error {
	p := c.Size()
	piece := func(i int) span { return span{cuts[i], cuts[i+1]} }
	for k := range p - 1 {
		out, in := piece((c.rank-k+p)%p), piece((c.rank-k-1+p)%p)
		if err := exchange(c, tagGather, x, peerSpan{(c.rank + 1) % p, out}, peerSpan{(c.rank - 1 + p) % p, in}, nil); err != nil {
			return err
		}
	}
	return nil
}

// AllGather returns the concatenation of the x of all ranks, in rank order.
//
// Shape: x has the same length on all ranks.
func AllGather[T any](c *Comm, x []T) ([]T, error) {
	n := len(x)
	all := make([]T, n*c.Size())
	copy(all[n*c.rank:], x)
	return all, AllGatherInPlace(c, all)
}

// AllGatherInPlace is an all-gather in place: rank r contributes the r-th of P
// nearly equal pieces of x.
func AllGatherInPlace[T any](c *Comm, x []T) error {
	return AllGatherV(c, x, SplitEvenly(len(x), c.Size()), Ring)
}

// AllGatherV is an all-gather in place. Each rank contributes the piece that
// ReduceScatterV with the same cuts and algorithm leaves on it, at the same cost.
func AllGatherV[T any](c *Comm, x []T, cuts []int, a Algorithm) error {
	return AllGatherParts(c, Parts[T]{x}, cuts, a)
}

// AllGatherParts is AllGatherV of a vector in several slices.
func AllGatherParts[T any](c *Comm, x Parts[T], cuts []int, a Algorithm) error {
	if err := checkCuts(c, x, cuts); err != nil {
		return fmt.Errorf("all-gather: %w", err)
	}
	gather := allGatherRing[T]
	if a.scatterAlgorithm(c.Size()) == Halving {
		gather = allGatherDoubling[T]
	}
	if err := gather(c, x, cuts); err != nil {
		return fmt.Errorf("all-gather: %w", err)
	}
	return nil
}

// AllToAll sends out[i] to rank i and receives in[i] from it. Sender and receiver
// agree on the lengths; pieces of length 0 are not sent.
//
// Cost: P−1 rounds of pairwise exchange.
func AllToAll[T any](c *Comm, out, in [][]T) error {
	p := c.Size()
	if len(out) != p || len(in) != p {
		return fmt.Errorf("all-to-all: %d and %d pieces for %d ranks", len(out), len(in), p)
	}
	copy(in[c.rank], out[c.rank])
	for k := 1; k < p; k++ {
		to, from := (c.rank+k)%p, (c.rank-k+p)%p
		var requests []Request
		if len(in[from]) > 0 {
			requests = append(requests, c.recv(from, tagAll, in[from]))
		}
		if len(out[to]) > 0 {
			requests = append(requests, c.send(to, tagAll, out[to]))
		}
		if err := WaitAll(requests...); err != nil {
			return fmt.Errorf("all-to-all: %w", err)
		}
	}
	return nil
}
