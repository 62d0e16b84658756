package tcp

import (
	"fmt"
	"slices"
	"sync"
)

// route identifies the messages of a sender that keep their order.
type route struct{ from, channel, tag int }

// queue holds the messages of a route that have arrived and the receives that are posted, in order; one of the lists is
// empty.
type queue struct {
	arrived [][]byte
	posted  []*request
}

// mailbox matches messages with receives.
type mailbox struct {
	mu     sync.Mutex
	queues map[route]*queue
	lost   map[int]error // senders from which nothing more arrives, with the reason
}

func newMailbox() *mailbox { return &mailbox{queues: map[route]*queue{}, lost: map[int]error{}} }

// queue returns the queue of a route; the lock is held.
func (m *mailbox) queue(r route) *queue {
	q := m.queues[r]
	if q == nil {
		q = &queue{}
		m.queues[r] = q
	}
	return q
}

// post posts a receive, or completes it with a message that has arrived.
func (m *mailbox) post(r *request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.queue(r.route)
	switch {
	case len(q.arrived) > 0:
		data := q.arrived[0]
		q.arrived = q.arrived[1:]
		r.deliver(data)
	case m.lost[r.from] != nil:
		r.end(m.lost[r.from])
	default:
		q.posted = append(q.posted, r)
	}
}

// take removes the first posted receive of a route for a message whose payload is about to be read into its memory; nil if
// none is posted.
func (m *mailbox) take(at route) *request {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.queue(at)
	if len(q.posted) == 0 {
		return nil
	}
	r := q.posted[0]
	q.posted = q.posted[1:]
	return r
}

// putBack posts a receive again that take removed, before all others of its route.
func (m *mailbox) putBack(r *request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.queue(r.route)
	q.posted = slices.Insert(q.posted, 0, r)
}

// put stores a message that had no receive when it began to arrive.
func (m *mailbox) put(at route, data []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.queue(at)
	if len(q.posted) > 0 {
		q.posted[0].deliver(data)
		q.posted = q.posted[1:]
		return
	}
	q.arrived = append(q.arrived, data)
}

// withdraw removes a posted receive, so that its memory is not used any more. It reports whether it was posted.
func (m *mailbox) withdraw(r *request) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.queue(r.route)
	i := slices.Index(q.posted, r)
	if i < 0 {
		return false
	}
	q.posted = slices.Delete(q.posted, i, i+1)
	return true
}

// lose ends all receives from a sender with an error.
func (m *mailbox) lose(from int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lost[from] = err
	for at, q := range m.queues {
		if at.from == from {
			for _, r := range q.posted {
				r.end(err)
			}
			q.posted = nil
		}
	}
}

// deliver copies a message and ends the receive.
func (r *request) deliver(data []byte) {
	if len(data) != len(r.memory) {
		r.end(sizeError(len(data), len(r.memory)))
		return
	}
	copy(r.memory, data)
	r.end(nil)
}

// sizeError is the error of a receive whose memory has another size than the message.
func sizeError(got, want int) error {
	return fmt.Errorf("message mismatch: got %d bytes, want %d", got, want)
}
