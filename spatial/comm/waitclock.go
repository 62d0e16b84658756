package comm

import (
	"sync/atomic"
	"time"
)

// WaitClock accumulates the time that a rank waits for messages and tasks. Waits
// within a task do not count.
type WaitClock struct{ waited atomic.Int64 }

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
	if k != nil {
		k.waited.Add(int64(time.Since(begin)))
	}
}

// wrap returns a request whose waits count; a nil clock returns r.
func (k *WaitClock) wrap(r Request) Request {
	if k == nil {
		return r
	}
	return timedRequest{r, k}
}

// timedRequest is a Request that counts its waits.
type timedRequest struct {
	Request
	clock *WaitClock
}

// Wait waits for the message.
func (r timedRequest) Wait() error {
	defer r.clock.addSince(time.Now())
	return r.Request.Wait()
}
