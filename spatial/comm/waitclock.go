package comm

import (
	"sync/atomic"
	"time"
)

// WaitClock accumulates the time that a rank waits for messages and tasks. Waits
// within a task do not count. On request it also records what the rank communicates (Record).
type WaitClock struct {
	waited atomic.Int64
	spans  spanLog
}

// WithWaitClock returns the same group with a clock, which counts the waits in it
// and in the groups that are split from it later.
func (c *Comm) WithWaitClock() (*Comm, *WaitClock) {
	clocked := *c
	clocked.clock = new(WaitClock)
	return &clocked, clocked.clock
}

// Waited returns the accumulated time.
func (k *WaitClock) Waited() time.Duration { return time.Duration(k.waited.Load()) }

// addSince adds the time since begin; a nil clock ignores it.
func (k *WaitClock) addSince(begin time.Time) {
	if k == nil {
		return
	}
	k.waited.Add(int64(time.Since(begin)))
	if k.isRecording() {
		k.spans.add(Span{Kind: WaitSpan, Peer: -1, Begin: begin})
	}
}

// wrap returns a request whose waits count, for a message to or from a rank of the job; a nil clock returns r.
func (k *WaitClock) wrap(r Request, kind SpanKind, peer int, bytes int64) Request {
	if k == nil {
		return r
	}
	t := timedRequest{Request: r, clock: k}
	if k.isRecording() {
		t.message = &Span{Kind: kind, Peer: peer, Bytes: bytes, Begin: time.Now()}
	}
	return t
}

// timedRequest is a Request that counts its waits.
type timedRequest struct {
	Request
	clock   *WaitClock
	message *Span // nil unless it is recorded
}

// Wait waits for the message.
func (r timedRequest) Wait() error {
	defer r.clock.addSince(time.Now())
	if r.message != nil {
		defer r.clock.spans.add(*r.message)
	}
	return r.Request.Wait()
}
