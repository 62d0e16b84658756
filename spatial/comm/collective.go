package comm

import "fmt"

// Number is what sums are made of.
type Number interface {
	float32 | float64 | int64
}

// Summand is what collectives add up: numbers, or only their size.
type Summand interface {
	Number | SizeOnly
}

// Tags of collectives. Two collectives of a group that follow each other may use
// the same one, since messages keep their order; parts of one that may overtake
// each other have their own.
const (
	tagBarrier = Tags + iota
	tagBroadcast
	tagReduce
	tagGather
	tagAll
	tagFold
)

// Barrier returns when all ranks have called it: ⌈log₂ P⌉ rounds of
// dissemination.
func Barrier(c *Comm) error {
	var token [1]byte
	for d := 1; d < c.Size(); d *= 2 {
		to, from := (c.rank+d)%c.Size(), (c.rank-d+c.Size())%c.Size()
		if err := c.sendRecv(tagBarrier, to, []byte{1}, from, token[:]); err != nil {
			return fmt.Errorf("barrier: %w", err)
		}
	}
	return nil
}

// Broadcast gives all ranks the values of x that root has, along a binomial
// tree: log₂P·(α + βn).
func Broadcast(c *Comm, root int, x Slice) error {
	p := c.Size()
	r := (c.rank - root + p) % p // root counts as 0
	low := 1                     // the bit of r at which it is reached; beyond P for root
	for low < p && r&low == 0 {
		low *= 2
	}
	if r != 0 {
		if err := c.recv((r-low+root)%p, tagBroadcast, x).Wait(); err != nil {
			return fmt.Errorf("broadcast: %w", err)
		}
	}
	var sent []Request
	for d := low / 2; d > 0; d /= 2 {
		if r+d < p {
			sent = append(sent, c.send((r+d+root)%p, tagBroadcast, x))
		}
	}
	if err := WaitAll(sent...); err != nil {
		return fmt.Errorf("broadcast: %w", err)
	}
	return nil
}

// SplitEvenly cuts a vector of n values into p nearly equal pieces: piece i lies from the i-th
// cut to the next.
func SplitEvenly(n, p int) []int {
	cuts := make([]int, p+1)
	for i := range cuts {
		cuts[i] = n * i / p
	}
	return cuts
}

// ReduceScatterV adds up the x of all ranks; each gets the sum of one of the P pieces
// between cuts, a.Piece of its rank, where it lies in x. The rest of x is overwritten.
// It is the first half of AllReduce by a, and costs half: (P−1)·α + (P−1)/P·βn by Ring. Its
// bits are those of AllReduce, those of Ring for even cuts.
func ReduceScatterV[T Summand](c *Comm, x []T, cuts []int, a Algorithm) ([]T, error) {
	if err := ReduceScatterParts(c, Parts[T]{x}, cuts, a); err != nil {
		return nil, err
	}
	own := a.Piece(c.rank, c.Size())
	return x[cuts[own]:cuts[own+1]], nil
}

// ReduceScatterParts is ReduceScatterV of a vector in parts.
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

// checkCuts refuses cuts that do not make a piece of x for each rank.
func checkCuts[T any](c *Comm, x Parts[T], cuts []int) error {
	if len(cuts) != c.Size()+1 || cuts[0] != 0 || cuts[c.Size()] != x.Len() {
		return fmt.Errorf("cuts %v of %d values on %d ranks", cuts, x.Len(), c.Size())
	}
	return nil
}

// reduceScatterRing sends partial sums around: that of piece i starts with rank i+1 and ends
// with rank i.
func reduceScatterRing[T Summand](c *Comm, x Parts[T], cuts []int) error {
	p := c.Size()
	piece := func(i int) span { return span{cuts[i], cuts[i+1]} }
	for k := 1; k < p; k++ { // the piece that ends here starts with the next rank
		out, own := piece((c.rank-k+p)%p), piece((c.rank-k-1+2*p)%p)
		if err := exchange(c, tagReduce, x, peerSpan{(c.rank + 1) % p, out}, peerSpan{(c.rank - 1 + p) % p, own}, addTo[T]); err != nil {
			return err
		}
	}
	return nil
}

// addTo adds x to y.
func addTo[T Summand](y, x []T) { add(y, y, x) }

// add writes left + right to y, which may be one of them.
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

// allGatherRing gives all ranks all pieces of x, of which each has its own. A ring:
// (P−1)·α + (P−1)/P·βn.
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

// AllGather gives all ranks the x of all, one behind the other. All have one length.
func AllGather[T any](c *Comm, x []T) ([]T, error) {
	n := len(x)
	all := make([]T, n*c.Size())
	copy(all[n*c.rank:], x)
	return all, AllGatherInPlace(c, all)
}

// AllGatherInPlace gives all ranks the whole of x, of which each has its own of as many
// nearly equal pieces.
func AllGatherInPlace[T any](c *Comm, x []T) error {
	return AllGatherV(c, x, SplitEvenly(len(x), c.Size()), Ring)
}

// AllGatherV gives all ranks the whole of x, of which each has the piece that
// ReduceScatterV leaves to it. It costs what that does.
func AllGatherV[T any](c *Comm, x []T, cuts []int, a Algorithm) error {
	return AllGatherParts(c, Parts[T]{x}, cuts, a)
}

// AllGatherParts is AllGatherV of a vector in parts.
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

// AllToAll sends out[i] to rank i and receives in[i] from it; both sides know the
// lengths, and nothing is sent where one is 0. In P−1 rounds of pairs.
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
