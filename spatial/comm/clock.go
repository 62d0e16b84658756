package comm

import (
	"sync/atomic"
	"time"
)

// Clock adds up how long a rank waits for messages, and for tasks. What a task waits for
// does not count.
type Clock struct{ waited atomic.Int64 }

// Clocked is the same group, and a clock of the waits in it and in the groups that are
// split from it.
func (c *Comm) Clocked() (*Comm, *Clock) {
	clocked := *c
	clocked.clock = new(Clock)
	return &clocked, clocked.clock
}

// Waited is the time so far.
func (k *Clock) Waited() time.Duration { return time.Duration(k.waited.Load()) }

// since counts a wait from its begin to now; nil counts nothing.
func (k *Clock) since(begin time.Time) {
	if k != nil {
		k.waited.Add(int64(time.Since(begin)))
	}
}

// timed is a request whose wait counts.
func (k *Clock) timed(r Request) Request {
	if k == nil {
		return r
	}
	return timedRequest{r, k}
}

type timedRequest struct {
	Request
	clock *Clock
}

// Wait waits for the message.
func (r timedRequest) Wait() error {
	defer r.clock.since(time.Now())
	return r.Request.Wait()
}
