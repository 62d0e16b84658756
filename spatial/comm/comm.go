package comm

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// Comm is a group of ranks, seen from one of them. Within a group ranks count
// from 0. All ranks of a group call its collectives, in the same order.
type Comm struct {
	t       Transport
	ranks   []int // in the job, by rank in the group; nil if they are the same
	size    int
	rank    int
	context int // keeps the messages of groups apart
	shared  *rankState
	clock   *WaitClock // of waits; nil for none
	scratch *scratch
}

// scratch is memory that the collectives of a group use, one after the other.
type scratch struct{ values any }

// scratchFor gives room for n values, which stays until the next call.
func scratchFor[T any](c *Comm, n int) []T {
	x, _ := c.scratch.values.([]T)
	if cap(x) < n {
		x = make([]T, n)
		c.scratch.values = x
	}
	return x[:n]
}

// rankState is what the groups of one rank share.
type rankState struct {
	contexts        int          // given out so far
	messages, bytes atomic.Int64 // sent, by the rank and its tasks
}

// Traffic counts what a rank sent to others, over all its groups.
type Traffic struct {
	Messages int64
	Bytes    int64
}

// Sub returns the difference to an earlier count.
func (t Traffic) Sub(earlier Traffic) Traffic {
	return Traffic{t.Messages - earlier.Messages, t.Bytes - earlier.Bytes}
}

// Tags within a group: those of callers, and those of collectives behind them.
const (
	tagBits = 16
	// Tags is the number of tags for Send and Recv.
	Tags        = 1 << (tagBits - 1)
	maxContexts = (MaxTag + 1) >> tagBits
)

// New is the group of all ranks of a job.
func New(t Transport) *Comm {
	return &Comm{t: t, size: t.Size(), rank: t.Rank(), shared: &rankState{contexts: 1}, scratch: &scratch{}}
}

// Rank is this rank's number in the group.
func (c *Comm) Rank() int { return c.rank }

// Size is the number of ranks in the group.
func (c *Comm) Size() int { return c.size }

// WorldRank is the number in the job of a rank of the group.
func (c *Comm) WorldRank(rank int) int {
	if c.ranks == nil {
		return rank
	}
	return c.ranks[rank]
}

// Traffic is what this rank has sent so far, in all groups.
func (c *Comm) Traffic() Traffic { return Traffic{c.shared.messages.Load(), c.shared.bytes.Load()} }

// Send starts to send x to a rank of the group. x stays as it is until the
// request is done. Tags are below Tags. A rank may send to itself.
func (c *Comm) Send(to, tag int, x Slice) Request {
	if tag < 0 || tag >= Tags {
		panic(fmt.Sprintf("comm: tag %d, want 0 to %d", tag, Tags-1))
	}
	return c.send(to, tag, x)
}

// Recv starts to receive a message of x's type and length from a rank of the group.
func (c *Comm) Recv(from, tag int, x Slice) Request {
	if tag < 0 || tag >= Tags {
		panic(fmt.Sprintf("comm: tag %d, want 0 to %d", tag, Tags-1))
	}
	return c.recv(from, tag, x)
}

func (c *Comm) send(to, tag int, x Slice) Request {
	if to != c.rank {
		c.shared.messages.Add(1)
		c.shared.bytes.Add(Bytes(x))
	}
	return c.clock.wrap(c.t.Send(c.WorldRank(to), c.context<<tagBits|tag, x))
}

func (c *Comm) recv(from, tag int, x Slice) Request {
	return c.clock.wrap(c.t.Recv(c.WorldRank(from), c.context<<tagBits|tag, x))
}

// WaitAll waits for all requests, also after one has failed: their memory is free
// then. Errors: those of all.
func WaitAll(requests ...Request) error {
	var err error
	for _, r := range requests {
		err = errors.Join(err, r.Wait())
	}
	return err
}

// sendRecv sends out to one rank while it receives in from another.
func (c *Comm) sendRecv(tag, to int, out Slice, from int, in Slice) error {
	r := c.recv(from, tag, in)
	return WaitAll(c.send(to, tag, out), r)
}

// Split parts a group: ranks of one color form a group, in the order of key and
// then of their rank. A negative color belongs to none, and gets nil.
//
// Errors: too many groups in one job.
func (c *Comm) Split(color, key int) (*Comm, error) {
	all, err := AllGather(c, []int64{int64(color), int64(key), int64(c.shared.contexts)})
	if err != nil {
		return nil, fmt.Errorf("splitting a group: %w", err)
	}
	context := 0 // one that no rank here has used
	var members []int
	for r := range c.Size() {
		context = max(context, int(all[3*r+2]))
		if all[3*r] == int64(color) {
			members = append(members, r)
		}
	}
	if context >= maxContexts {
		return nil, fmt.Errorf("splitting a group: more than %d groups", maxContexts)
	}
	c.shared.contexts = context + 1
	if color < 0 {
		return nil, nil
	}
	slices.SortStableFunc(members, func(a, b int) int { return cmp.Compare(all[3*a+1], all[3*b+1]) })
	sub := &Comm{t: c.t, size: len(members), context: context, shared: c.shared, clock: c.clock, scratch: &scratch{}}
	for i, r := range members {
		sub.ranks = append(sub.ranks, c.WorldRank(r))
		if r == c.rank {
			sub.rank = i
		}
	}
	return sub, nil
}

// StallTimeout is for how long ranks wait for each other before one counts as lost; 0 is for ever.
func (c *Comm) StallTimeout() time.Duration {
	if t, ok := c.t.(stallTimer); ok {
		return t.StallTimeout()
	}
	return 0
}

// stallTimer is a Transport that takes ranks for lost that do not answer.
type stallTimer interface{ StallTimeout() time.Duration }
