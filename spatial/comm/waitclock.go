package comm

import (
	"sync/atomic"
	"time"
)

// WaitClock adds up how long a rank waits for messages, and for tasks. What a task waits for
// does not count.
type WaitClock struct{ waited atomic.Int64 }

// WithWaitClock is the same group, and a clock of the waits in it and in the groups that are
// split from it.
func (c *Comm) WithWaitClock() (*Comm, *WaitClock) {
	clocked := *c
	clocked.clock = new(WaitClock)
	return &clocked, clocked.clock
}

// Waited is the time so far.
func (k *WaitClock) Waited() time.Duration { return time.Duration(k.waited.Load()) }

// addSince counts a wait from its begin to now; nil counts nothing.
func (k *WaitClock) addSince(begin time.Time) {
	if k != nil {
		k.waited.Add(int64(time.Since(begin)))
	}
}

// wrap is a request whose wait counts.
func (k *WaitClock) wrap(r Request) Request {
	if k == nil {
		return r
	}
	return timedRequest{r, k}
}

type timedRequest struct {
	Request
	clock *WaitClock
}

// Wait waits for the message.
func (r timedRequest) Wait() error {
	defer r.clock.addSince(time.Now())
	return r.Request.Wait()
}
