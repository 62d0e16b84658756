package comm

import (
	"math/rand/v2"
	"time"
)

// Faults are what a network does to the messages of Run.
type Faults struct {
	Seed uint64
	// Delay is the longest time, but for one message of a hundred, until a message that
	// was sent arrives: each is late by its own share of it, so that messages of
	// different tags and senders overtake each other. In a replay, where the scheduler
	// delays, it is not used.
	Delay time.Duration
	// Drop tells whether a message is lost, by its ranks and how many were sent between
	// them before it; nil loses none.
	Drop func(from, to, n int) bool
}

// slowOneIn is one of so many messages that is late by ten times as much.
const slowOneIn = 100

// WithFaults is a mode with faults.
func (m Mode) WithFaults(f Faults) Mode {
	m.faults = f
	return m
}

// injectFault tells whether a message is lost, and how late it is.
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

// delay lets a message come up later.
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
