//go:build cgo && linux

package mpi

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// selfMessages are the messages of a rank to itself, as a rank of several parts sends many. They
// do not go through MPI: a goroutine that waits for another one of its process need not ask
// again and again.
type selfMessages struct {
	mu     sync.Mutex
	queues map[messageKey]*queue
}

// messageKey is what letters that keep their order share.
type messageKey struct{ channel, tag int }

// queue holds letters that were sent or are wanted, in order; one of the two is empty.
type queue struct{ sent, receives []*selfMessage }

// selfMessage is one side of a message. It is copied once both sides are there.
type selfMessage struct {
	view
	messageKey
	x    comm.Slice
	done chan struct{}
	err  error
}

func (l *selfMessages) send(v view, tag int, x comm.Slice) comm.Request {
	m, q := l.add(v, tag, x)
	defer l.mu.Unlock()
	q.sent = append(q.sent, m)
	q.match()
	return m
}

func (l *selfMessages) recv(v view, tag int, x comm.Slice) comm.Request {
	m, q := l.add(v, tag, x)
	defer l.mu.Unlock()
	q.receives = append(q.receives, m)
	q.match()
	return m
}

// add makes a letter, and locks the queues.
func (l *selfMessages) add(v view, tag int, x comm.Slice) (*selfMessage, *queue) {
	m := &selfMessage{view: v, messageKey: messageKey{v.channel, tag}, x: x, done: make(chan struct{})}
	l.mu.Lock()
	q := l.queues[m.messageKey]
	if q == nil {
		if l.queues == nil {
			l.queues = map[messageKey]*queue{}
		}
		q = &queue{}
		l.queues[m.messageKey] = q
	}
	return m, q
}

// match lets the first letter of a queue arrive if both sides are there.
func (q *queue) match() {
	if len(q.sent) == 0 || len(q.receives) == 0 {
		return
	}
	from, to := q.sent[0], q.receives[0]
	q.sent, q.receives = slices.Delete(q.sent, 0, 1), slices.Delete(q.receives, 0, 1)
	if !comm.Copy(to.x, from.x) {
		to.err = fmt.Errorf("sent %T of %d bytes where %T of %d are wanted", from.x, comm.Bytes(from.x), to.x, comm.Bytes(to.x))
	}
	close(from.done)
	close(to.done)
}

// Test tells whether the letter has arrived.
func (m *selfMessage) Test() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}

// Wait waits for the other side, however long: whoever keeps this process waiting shows in
// messages of others.
//
// Errors: context.Canceled in a task that was.
func (m *selfMessage) Wait() error {
	if !m.Test() {
		defer m.waits.begin(noRank)()
		var canceled chan struct{}
		if m.by != nil {
			canceled = m.by.canceled
		}
		select {
		case <-m.done:
		case <-canceled:
			m.letters.remove(m)
		}
	}
	if m.err != nil {
		return &comm.RankError{Rank: m.rank, Err: m.err}
	}
	return nil
}

// remove takes back a letter that has not arrived, so that nobody touches its memory.
func (l *selfMessages) remove(m *selfMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m.Test() {
		return
	}
	q, other := l.queues[m.messageKey], func(k *selfMessage) bool { return k == m }
	q.sent, q.receives = slices.DeleteFunc(q.sent, other), slices.DeleteFunc(q.receives, other)
	m.err = context.Canceled
}
