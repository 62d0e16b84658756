package topk

import (
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// unevenBy is the largest number of kept sums of a rank over the mean at which they are
// gathered without being moved first.
const unevenBy = 4

// gather returns the kept sums of all owners, as they are sent, by ascending index. own
// are those of this rank, counts their number by rank. If one rank has more than four
// times the mean, all ranks first move sums so that each has an equal share.
//
// Source: Li and Hoefler 2022, arXiv:2201.07598 (balance and all-gather).
// Cost: entries of kP⁻¹(P−1), and at most as many to move them.
func (r *Reducer) gather(c *comm.Comm, own Entries, counts []int) (Entries, error) {
	p, size := c.Size(), r.o.entryBytes()
	begin := make([]int, p+1) // of the sums of each rank, among all
	largest := 0
	for i, n := range counts {
		begin[i+1] = begin[i] + n
		largest = max(largest, n)
	}
	total := begin[p]
	share := begin
	if p*largest > unevenBy*total {
		share = comm.SplitEvenly(total, p)
	}
	// The pieces lie in the order in which the algorithm gathers them, which may differ
	// from that of ranks.
	cuts, at := make([]int, p+1), make([]int, p) // of pieces, and of the piece of each rank
	for i := range p {
		cuts[comm.Auto.Piece(i, p)+1] = size * (share[i+1] - share[i])
	}
	for i := range p {
		cuts[i+1] += cuts[i]
	}
	all := make([]byte, cuts[p])
	for i := range p {
		at[i] = cuts[comm.Auto.Piece(i, p)]
	}
	mine := all[at[c.Rank()]:][:size*(share[c.Rank()+1]-share[c.Rank()])]
	if err := r.balance(c, own, mine, begin, share); err != nil {
		return Entries{}, err
	}
	if err := comm.AllGatherV(c, all, cuts, comm.Auto); err != nil {
		return Entries{}, err
	}
	u := Entries{make([]int32, 0, total), make([]float32, 0, total)}
	for i := range p {
		r.o.decode(all[at[i]:][:size*(share[i+1]-share[i])], func(index int32, value float32) {
			u.Index, u.Value = append(u.Index, index), append(u.Value, value)
		})
	}
	return u, nil
}

// balance writes the share of this rank to the message mine. Among all kept sums those of
// rank i begin at begin[i]; its share begins at share[i].
func (r *Reducer) balance(c *comm.Comm, own Entries, mine []byte, begin, share []int) error {
	rank, size := c.Rank(), r.o.entryBytes()
	parts := make([][]byte, c.Size()) // of the share, by sender
	var requests []comm.Request
	for i := range c.Size() {
		if n := min(begin[i+1], share[rank+1]) - max(begin[i], share[rank]); n > 0 {
			parts[i] = make([]byte, size*n)
			if i != rank {
				requests = append(requests, c.Recv(i, tagBalance, parts[i]))
			}
		}
	}
	for i := range c.Size() {
		lo, hi := max(begin[rank], share[i]), min(begin[rank+1], share[i+1])
		if lo >= hi {
			continue
		}
		message := parts[rank]
		if i != rank {
			message = make([]byte, size*(hi-lo))
		}
		lo, hi = lo-begin[rank], hi-begin[rank]
		r.o.encode(message, own.Index[lo:hi], func(j int) float32 { return own.Value[lo+j] })
		if i != rank {
			requests = append(requests, c.Send(i, tagBalance, message))
		}
	}
	if err := comm.WaitAll(requests...); err != nil {
		return err
	}
	r.o.join(mine, parts)
	return nil
}

// join writes the entries of several messages to one.
func (o Options) join(to []byte, messages [][]byte) {
	indices, values := to, to[indexBytes*(len(to)/o.entryBytes()):]
	for _, m := range messages {
		n := indexBytes * (len(m) / o.entryBytes())
		indices, values = indices[copy(indices, m[:n]):], values[copy(values, m[n:]):]
	}
}
