//go:build cgo && linux

package mpi

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// selfMessages holds the messages of a process to itself, which are frequent when
// it hosts several ranks. They bypass MPI: a goroutine that waits for another one
// of its process then blocks on a channel and need not poll.
type selfMessages struct {
	mu     sync.Mutex
	queues map[messageKey]*queue
}

// messageKey identifies messages that keep their order.
type messageKey struct{ channel, tag int }

// queue holds posted sends and receives in order; one of the lists is empty.
type queue struct{ sent, receives []*selfMessage }

// selfMessage is one side of a message. The data are copied when both sides are
// posted.
type selfMessage struct {
	view
	messageKey
	x    comm.Slice
	done chan struct{}
	err  error
}

// send posts a send.
func (l *selfMessages) send(v view, tag int, x comm.Slice) comm.Request {
	m, q := l.add(v, tag, x)
	defer l.mu.Unlock()
	q.sent = append(q.sent, m)
	q.match()
	return m
}

// recv posts a receive.
func (l *selfMessages) recv(v view, tag int, x comm.Slice) comm.Request {
	m, q := l.add(v, tag, x)
	defer l.mu.Unlock()
	q.receives = append(q.receives, m)
	q.match()
	return m
}

// add creates one side of a message and returns its queue with the lock held.
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

// match delivers the first message of a queue if both sides are posted.
func (q *queue) match() {
	if len(q.sent) == 0 || len(q.receives) == 0 {
		return
	}
	from, to := q.sent[0], q.receives[0]
	q.sent, q.receives = slices.Delete(q.sent, 0, 1), slices.Delete(q.receives, 0, 1)
	if !comm.Copy(to.x, from.x) {
		to.err = fmt.Errorf("message mismatch: got %T of %d bytes, want %T of %d", from.x, comm.Bytes(from.x), to.x, comm.Bytes(to.x))
	}
	close(from.done)
	close(to.done)
}

// Test reports whether the message has arrived.
func (m *selfMessage) Test() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}

// Wait waits for the other side without a timeout. If a rank keeps this process
// waiting, messages of other processes report it.
//
// Errors: context.Canceled in a cancelled task.
func (m *selfMessage) Wait() error {
	if !m.Test() {
		defer m.BeginWait()()
		select {
		case <-m.done:
		case <-m.by.Stopped():
			m.letters.remove(m)
		}
	}
	return m.Failure()
}

// remove withdraws a message that has not arrived, so that its memory is not used
// any more.
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
