package comm

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// Comm is a group of ranks from the view of one of them, like an MPI communicator.
// Ranks of a group are numbered from 0. All ranks of a group call its collectives
// in the same order.
//
// Groups of the same ranks do not share messages: the context of a group is part of
// every tag. A Transport thus needs no notion of groups.
//
// Concurrency: one goroutine uses a Comm at a time; Go starts others with groups of
// their own.
type Comm struct {
	t       Transport // transport of the goroutine
	ranks   []int     // ranks in the job, by rank in the group; nil if they are equal
	size    int
	rank    int
	context int // part of every tag, distinguishes the messages of groups
	shared  *rankState
	sent    *traffic   // sent in the group
	clock   *WaitClock // counts waits; may be nil
	scratch *scratch
}

// scratch is scratch memory that the collectives of a group use in turn.
type scratch struct{ values any }

// scratchFor returns scratch memory for n values, valid until the next call.
func scratchFor[T any](c *Comm, n int) []T {
	x, _ := c.scratch.values.([]T)
	if cap(x) < n {
		x = make([]T, n)
		c.scratch.values = x
	}
	return x[:n]
}

// rankState is shared by all groups of a rank.
type rankState struct {
	contexts int     // used so far
	sent     traffic // by the rank and its tasks
}

// traffic counts messages of concurrent tasks.
type traffic struct{ messages, bytes atomic.Int64 }

func (t *traffic) add(bytes int64) {
	t.messages.Add(1)
	t.bytes.Add(bytes)
}

func (t *traffic) load() Traffic { return Traffic{t.messages.Load(), t.bytes.Load()} }

// Traffic counts the messages and bytes that a rank sent to other ranks, in all
// groups.
type Traffic struct {
	Messages int64 // number of messages
	Bytes    int64 // payload
}

// Sub returns the difference to an earlier count.
func (t Traffic) Sub(earlier Traffic) Traffic {
	return Traffic{t.Messages - earlier.Messages, t.Bytes - earlier.Bytes}
}

// A message tag consists of the group's context and a tag within the group. Half of
// the tags within a group are for callers, the other half for collectives.
const (
	tagBits     = 16
	Tags        = 1 << (tagBits - 1) // Tags is the number of tags for Send and Recv.
	maxContexts = (MaxTag + 1) >> tagBits
)

// New returns the group of all ranks of a job.
func New(t Transport) *Comm {
	return &Comm{t: t, size: t.Size(), rank: t.Rank(), shared: &rankState{contexts: 1}, sent: &traffic{}, scratch: &scratch{}}
}

// Rank returns the rank of the caller in the group.
func (c *Comm) Rank() int { return c.rank }

// Size returns the number of ranks in the group.
func (c *Comm) Size() int { return c.size }

// WorldRank converts a rank of the group to the rank in the job.
func (c *Comm) WorldRank(rank int) int {
	if c.ranks == nil {
		return rank
	}
	return c.ranks[rank]
}

// Traffic returns the traffic of this rank so far, in all groups.
func (c *Comm) Traffic() Traffic { return c.shared.sent.load() }

// GroupTraffic returns the traffic of this rank so far in this group, with that of tasks in it.
func (c *Comm) GroupTraffic() Traffic { return c.sent.load() }

// Send starts to send x to a rank of the group, which may be the sender itself. The
// caller must not change x until the request is done. tag is below Tags.
func (c *Comm) Send(to, tag int, x Slice) Request {
	if tag < 0 || tag >= Tags {
		panic(fmt.Sprintf("comm: tag %d, want 0 to %d", tag, Tags-1))
	}
	return c.send(to, tag, x)
}

// Recv starts to receive a message with the type and length of x from a rank of the
// group. The caller must not use x until the request is done.
func (c *Comm) Recv(from, tag int, x Slice) Request {
	if tag < 0 || tag >= Tags {
		panic(fmt.Sprintf("comm: tag %d, want 0 to %d", tag, Tags-1))
	}
	return c.recv(from, tag, x)
}

func (c *Comm) send(to, tag int, x Slice) Request {
	if to != c.rank {
		c.shared.sent.add(Bytes(x))
		c.sent.add(Bytes(x))
	}
	return c.clock.wrap(c.t.Send(c.WorldRank(to), c.context<<tagBits|tag, x), SendSpan, c.WorldRank(to), Bytes(x))
}

func (c *Comm) recv(from, tag int, x Slice) Request {
	return c.clock.wrap(c.t.Recv(c.WorldRank(from), c.context<<tagBits|tag, x), ReceiveSpan, c.WorldRank(from), Bytes(x))
}

// WaitAll waits for all requests even if one fails, so that their memory is free
// afterwards.
//
// Errors: those of all requests, joined.
func WaitAll(requests ...Request) error {
	var err error
	for _, r := range requests {
		err = errors.Join(err, r.Wait())
	}
	return err
}

// WaitAny waits until one of the requests is done and returns its index: the lowest, if
// several are done. The other requests remain in progress. All were posted by the calling
// goroutine, in any of its groups; those that are nil are ignored, as a caller sets requests
// that are done.
//
// Errors: that of the request; with index −1 a failure of the wait, such as no answer in
// time, or no request.
func (c *Comm) WaitAny(requests ...Request) (int, error) {
	defer c.clock.addSince(time.Now())
	var posted []Request
	var index []int
	for i, r := range requests {
		if t, ok := r.(timedRequest); ok {
			r = t.Request
		}
		if r != nil {
			posted, index = append(posted, r), append(index, i)
		}
	}
	if len(posted) == 0 {
		return -1, errors.New("waiting for any of no requests")
	}
	i, err := c.t.WaitAny(posted)
	if i < 0 {
		return -1, err
	}
	return index[i], err
}

// sendRecv sends out to one rank and receives in from another at the same time.
func (c *Comm) sendRecv(tag, to int, out Slice, from int, in Slice) error {
	r := c.recv(from, tag, in)
	return WaitAll(c.send(to, tag, out), r)
}

// Split partitions a group. Ranks with the same color form a group, ordered by key
// and then by rank. Ranks with a negative color get nil.
//
// Errors: too many groups in one job.
// Cost: one all-gather.
func (c *Comm) Split(color, key int) (*Comm, error) {
	all, err := AllGather(c, []int64{int64(color), int64(key), int64(c.shared.contexts)})
	if err != nil {
		return nil, fmt.Errorf("splitting a group: %w", err)
	}
	context := 0 // unused by all ranks of the group
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
	sub := &Comm{t: c.t, size: len(members), context: context, shared: c.shared, sent: &traffic{}, clock: c.clock, scratch: &scratch{}}
	for i, r := range members {
		sub.ranks = append(sub.ranks, c.WorldRank(r))
		if r == c.rank {
			sub.rank = i
		}
	}
	return sub, nil
}

// StallTimeout returns how long a rank waits for another before that counts as
// lost; 0 is without limit.
func (c *Comm) StallTimeout() time.Duration {
	if t, ok := c.t.(stallTimer); ok {
		return t.StallTimeout()
	}
	return 0
}

// stallTimer is a Transport with a stall timeout.
type stallTimer interface{ StallTimeout() time.Duration }

// MoveInBackground asks for progress of long messages while ranks compute, which some libraries make only within their calls. It
// costs 2 to 5 % of the processor time of steps with many exchanges, more if several ranks share a core, so it is for ranks that compute for long between
// posting a message and waiting for it. It holds for all groups of the process.
func (c *Comm) MoveInBackground() {
	if t, ok := c.t.(backgroundMover); ok {
		t.MoveInBackground()
	}
}

// backgroundMover is a Transport that moves messages only within its calls, unless it is asked.
type backgroundMover interface{ MoveInBackground() }
