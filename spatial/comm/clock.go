package comm

import (
	"sync/atomic"
	"time"
)

// Clocked is the same group, and a clock of the time in which this rank waits for
// messages of it and of the groups that are split from it.
func (c *Comm) Clocked() (*Comm, *Clock) {
	k := &Clock{Transport: c.t}
	clocked := *c
	clocked.t = k
	return &clocked, k
}

// Clock is a transport that adds up how long its requests are waited for.
type Clock struct {
	Transport
	waited atomic.Int64
}

// Waited is the time so far. Waits that goroutines do at once all count.
func (k *Clock) Waited() time.Duration { return time.Duration(k.waited.Load()) }

// Send starts to send x.
func (k *Clock) Send(to, tag int, x Slice) Request {
	return clockedRequest{k.Transport.Send(to, tag, x), k}
}

// Recv starts to receive x.
func (k *Clock) Recv(from, tag int, x Slice) Request {
	return clockedRequest{k.Transport.Recv(from, tag, x), k}
}

type clockedRequest struct {
	Request
	k *Clock
}

// Wait waits for the message, and counts it.
func (r clockedRequest) Wait() error {
	begin := time.Now()
	err := r.Request.Wait()
	r.k.waited.Add(int64(time.Since(begin)))
	return err
}
