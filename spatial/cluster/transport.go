package cluster

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// message is a message in transit, or one that has arrived without a posted
// receive.
//
// Its life: Send matches it with a posted receive or appends it to the receiver's
// queue; the network calls leave when the sender's memory is free, and arrive when
// the last byte has been received.
type message struct {
	w             *world
	from, to, tag int
	bytes         int64
	began         Time
	arrived       bool
	send          *request
	receive       *request   // nil until a receive is posted
	x             comm.Slice // values; nil after they were copied to the receiver
}

// request is one side of a message.
type request struct {
	p            *process
	other        int
	tag          int
	x            comm.Slice // receive buffer; nil for a send
	done         bool
	overheadPaid bool // the receiver has spent the overhead
}

// Rank returns the rank of the process.
func (p *process) Rank() int { return p.id }

// Size returns the number of ranks.
func (p *process) Size() int { return len(p.w.ranks) }

// Send passes a message to the network. It is matched with the oldest posted
// receive before it travels, so messages keep their order even if a later one is
// faster.
func (p *process) Send(to, tag int, x comm.Slice) comm.Request {
	w := p.w
	m := &message{w: w, from: p.id, to: to, tag: tag, bytes: comm.Bytes(x), began: w.now, send: &request{p: p, other: to, tag: tag}, x: x}
	q := w.ranks[to]
	if i := indexOf(q.receives, func(r *request) bool { return r.other == p.id && r.tag == tag }); i >= 0 {
		m.give(q.receives[i])
		q.receives = remove(q.receives, i)
	} else {
		m.x = comm.Clone(x)
		q.sent = append(q.sent, m)
	}
	if to == p.id { // a message to the rank itself
		m.leave()
		m.arrive()
		return m.send
	}
	p.advance(w.wire.overhead)
	w.wire.carry(m, p.id, to)
	return m.send
}

// Recv posts a receive.
func (p *process) Recv(from, tag int, x comm.Slice) comm.Request {
	r := &request{p: p, other: from, tag: tag, x: x, overheadPaid: from == p.id}
	at := p.owner
	if i := indexOf(at.sent, func(m *message) bool { return m.from == from && m.tag == tag }); i >= 0 {
		at.sent[i].give(r)
		at.sent = remove(at.sent, i)
	} else {
		at.receives = append(at.receives, r)
	}
	return r
}

// give copies a message to the receiver's buffer. The receiver may use it after the
// arrival.
func (m *message) give(r *request) {
	if !comm.Copy(r.x, m.x) {
		m.w.fail(fmt.Errorf("rank %d: posted %T of %d bytes from rank %d with tag %d, got %T of %d bytes",
			m.to, r.x, comm.Bytes(r.x), m.from, m.tag, m.x, comm.Bytes(m.x)))
		return
	}
	m.receive, m.x = r, nil
	if m.arrived {
		r.finish()
	}
}

// leave completes the send.
func (m *message) leave() { m.send.finish() }

// arrive completes the receive, if it is posted.
func (m *message) arrive() {
	m.arrived = true
	m.w.record(Span{Kind: Message, Rank: m.from, Peer: m.to, Tag: m.tag, Bytes: m.bytes, Start: m.began, End: m.w.now})
	if m.receive != nil {
		m.receive.finish()
	}
}

// finish marks a request as done and wakes its process if it waits.
func (r *request) finish() {
	r.done = true
	if slices.Contains(r.p.waitsFor, r) {
		r.p.waitsFor = nil
		r.p.w.wake(r.p)
	}
}

// Wait blocks until the message has arrived, or has left.
func (r *request) Wait() error {
	_, err := r.p.await(r)
	return err
}

// WaitAny blocks until one of several messages has arrived, or has left.
func (p *process) WaitAny(requests []comm.Request) (int, error) {
	all := make([]*request, len(requests))
	for i, r := range requests {
		all[i] = r.(*request)
	}
	return p.await(all...)
}

// await blocks until one of several requests is done and returns the index of the first one
// that is; −1 with an error.
func (p *process) await(all ...*request) (int, error) {
	w, isDone := p.w, func(r *request) bool { return r.done }
	i := slices.IndexFunc(all, isDone)
	if i < 0 && !p.canceled {
		begin := w.now
		p.waitsFor = all
		p.sleep()
		if i = slices.IndexFunc(all, isDone); i >= 0 {
			w.record(Span{Kind: Waiting, Rank: p.id, Peer: all[i].other, Tag: all[i].tag, Start: begin, End: w.now})
		}
	}
	if i < 0 {
		return -1, &comm.RankError{Rank: all[0].other, Err: errEnded}
	}
	all[i].payOverhead()
	return i, nil
}

// pollTime is the virtual time of an unsuccessful Test. Without it a polling loop
// would not advance the clock.
const pollTime = 100 * Nanosecond

// Test reports whether Wait would return at once.
func (r *request) Test() bool {
	if !r.done {
		r.p.advance(pollTime)
		return false
	}
	r.payOverhead()
	return true
}

// payOverhead spends the receiver's overhead, once per message.
func (r *request) payOverhead() {
	if r.x != nil && !r.overheadPaid {
		r.overheadPaid = true
		r.p.advance(r.p.w.wire.overhead)
	}
}

// describe describes the messages that a rank waits for.
func describe(all []*request) string {
	if len(all) == 0 {
		return "for the end of the run"
	}
	var texts []string
	for _, r := range all {
		texts = append(texts, r.String())
	}
	return strings.Join(texts, " or ")
}

// String describes the message that a rank waits for.
func (r *request) String() string {
	if r.x == nil {
		return fmt.Sprintf("for its message to rank %d to leave, tag %d", r.other, r.tag)
	}
	return fmt.Sprintf("for a message from rank %d, tag %d", r.other, r.tag)
}

// indexOf returns the index of the first element that satisfies want, −1 for none.
func indexOf[T any](list []T, want func(T) bool) int {
	for i, x := range list {
		if want(x) {
			return i
		}
	}
	return -1
}

// remove deletes one element of a list in place and keeps the order of the others.
func remove[T any](list []T, i int) []T {
	copy(list[i:], list[i+1:])
	var none T
	list[len(list)-1] = none
	return list[:len(list)-1]
}
