package topk

import (
	"math/bits"

	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// inFlight is the number of destinations to which a rank sends at a time.
const inFlight = 4

// Tags of messages.
const (
	tagEntries = iota
	tagBalance
)

// splitReduce sends selected entries to the owners of their regions, and adds those of
// the own region in r.owned. bad is the index of a value that is not finite, or −1.
//
// Rank i sends to i+1, i+2, … (mod P), so that no owner receives from all at once.
// Contributions are added in the order of ranks, whatever the order of arrival, while
// later ones are in transit.
//
// Errors: *NotFiniteError, on all ranks, if bad ≥ 0 on one.
// Cost: 2(P−1) messages; 8 bytes for each rank, and entries of a k(P−1)/P.
func (r *Reducer) splitReduce(c *comm.Comm, selected []int32, bad int) error {
	p, rank := c.Size(), c.Rank()
	counts, err := r.exchangeCounts(c, selected, bad)
	if err != nil {
		return err
	}
	size := r.o.entryBytes()
	arrived := make([][]byte, p) // messages by sender
	start := func(k int) (requests []comm.Request) {
		for ; k < p && len(requests) < 2*inFlight; k++ {
			to, from := (rank+k)%p, (rank-k+p)%p
			arrived[from] = make([]byte, size*int(counts[from]))
			requests = append(requests, receiveEntries(c, from, arrived[from]), r.sendEntries(c, to, r.inRegion(selected, to)))
		}
		return requests
	}
	r.owned.open(int(r.state.Bounds[rank]), int(r.state.Bounds[rank+1]))
	next, current := 0, start(1)
	add := func(complete int) { // contributions of ranks in order, of which complete ones have arrived
		for next < p && (next == rank || (rank-next+p)%p < complete) {
			if next == rank {
				for _, i := range r.inRegion(selected, rank) {
					r.owned.add(i, r.sent(r.state.Residual[i]))
				}
			} else {
				r.o.decode(arrived[next], r.owned.add)
			}
			arrived[next] = nil
			next++
		}
	}
	for k := 1; k < p; k += inFlight {
		following := start(k + inFlight)
		if err := waitAll(current); err != nil {
			_ = waitAll(following) // their memory must be free
			return err
		}
		add(k + inFlight)
		current = following
	}
	add(p)
	return nil
}

// exchangeCounts tells each rank how many entries this one sends to it, or that this one
// has a value that is not finite. It returns the counts that it receives, by sender.
func (r *Reducer) exchangeCounts(c *comm.Comm, selected []int32, bad int) ([]int64, error) {
	p := c.Size()
	out, in := make([][]int64, p), make([][]int64, p)
	for i := range out {
		out[i], in[i] = []int64{int64(len(r.inRegion(selected, i)))}, make([]int64, 1)
		if bad >= 0 {
			out[i][0] = ^int64(bad)
		}
	}
	if err := comm.AllToAll(c, out, in); err != nil {
		return nil, err
	}
	counts := make([]int64, p)
	for i, n := range in {
		if n[0] < 0 {
			return nil, &NotFiniteError{Rank: c.WorldRank(i), Index: int(^n[0])}
		}
		counts[i] = n[0]
	}
	return counts, nil
}

// sendEntries sends selected entries to a rank; without entries there is no message.
func (r *Reducer) sendEntries(c *comm.Comm, to int, index []int32) comm.Request {
	if len(index) == 0 {
		return nil
	}
	message := make([]byte, r.o.entryBytes()*len(index))
	r.o.encode(message, index, func(j int) float32 { return r.state.Residual[index[j]] })
	return c.Send(to, tagEntries, message)
}

// receiveEntries receives a message of sendEntries.
func receiveEntries(c *comm.Comm, from int, message []byte) comm.Request {
	if len(message) == 0 {
		return nil
	}
	return c.Recv(from, tagEntries, message)
}

// waitAll waits for requests; nil ones are complete.
func waitAll(requests []comm.Request) error {
	var posted []comm.Request
	for _, q := range requests {
		if q != nil {
			posted = append(posted, q)
		}
	}
	return comm.WaitAll(posted...)
}

// accumulator holds sums of the indices of a region to which something was added.
type accumulator struct {
	begin int
	sums  []float32
	added []uint64 // one bit an index
}

// open empties the accumulator for the region [begin, end).
func (a *accumulator) open(begin, end int) {
	n := end - begin
	words := (n + 63) / 64
	if cap(a.sums) < n {
		a.sums, a.added = make([]float32, n), make([]uint64, words)
	}
	a.begin, a.sums, a.added = begin, a.sums[:n], a.added[:words]
	clear(a.added)
}

// add adds a value at an index of the region; the first one to 0.
func (a *accumulator) add(index int32, value float32) {
	i := int(index) - a.begin
	if bit := uint64(1) << (i % 64); a.added[i/64]&bit == 0 {
		a.added[i/64] |= bit
		a.sums[i] = 0
	}
	a.sums[i] += value
}

// each calls f with the sums, by ascending index.
func (a *accumulator) each(f func(index int32, sum float32)) {
	for w, word := range a.added {
		for ; word != 0; word &= word - 1 {
			i := 64*w + bits.TrailingZeros64(word)
			f(int32(a.begin+i), a.sums[i])
		}
	}
}
