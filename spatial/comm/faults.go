package comm

import (
	"math/rand/v2"
	"time"
)

// Faults describes network faults that Run injects, for tests.
type Faults struct {
	Seed uint64 // of the random delays
	// Delay is the maximum delay of a message. Each message is late by a random
	// fraction of it, one of a hundred by ten times as much. Messages with
	// different tags and senders thus overtake each other. It is ignored in a
	// replay, where the scheduler decides.
	Delay time.Duration
	// Drop reports whether the n-th message between two ranks is lost; nil loses
	// none.
	Drop func(from, to, n int) bool
}

// slowOneIn is the average number of messages per slow one.
const slowOneIn = 100

// WithFaults returns a mode with faults.
func (m Mode) WithFaults(f Faults) Mode {
	m.faults = f
	return m
}

// injectFault reports whether a message is lost, else by how much it is delayed.
func (w *world) injectFault(m *message) (lost bool, late time.Duration) {
	f := w.mode.faults
	pair := [2]int{m.from, m.to}
	n := w.sent[pair]
	w.sent[pair]++
	if f.Drop != nil && f.Drop(m.from, m.to, n) {
		return true, 0
	}
	if f.Delay > 0 && !w.mode.replay {
		r := rand.New(rand.NewPCG(f.Seed, uint64(m.from)<<48|uint64(m.to)<<32|uint64(n)))
		late = time.Duration(r.Int64N(int64(f.Delay)))
		if r.IntN(slowOneIn) == 0 {
			late *= 10
		}
	}
	return false, late
}

// delay makes a message available to its receiver after a time.
func (w *world) delay(m *message, late time.Duration) {
	m.delayed = true
	w.late++
	time.AfterFunc(late, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		m.delayed = false
		w.late--
		w.match(m.route)
		w.failDeadlock()
	})
}
