//go:build cgo && linux

package mpi

import "time"

// Libraries copy a long message only within calls of its sender or receiver. Ranks that compute make none, so the message
// would wait for the end of a pass. If they ask for it, a goroutine therefore calls the library while long messages are in transit.

const (
	longBytes  = 64 << 10 // above the sizes that libraries send at once
	probeEvery = 500 * time.Microsecond
)

// longMessages are those in transit. The mutex of World guards it.
type longMessages struct {
	requests map[*request]bool
	wanted   bool // MoveInBackground was called
	probing  bool // a goroutine runs probe
	ended    bool // no more probes: the memory of canceled messages may have been freed
}

// MoveInBackground asks for probes while further long messages are in transit.
func (w *World) MoveInBackground() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.long.wanted = true
}

// addLong starts to probe for a message.
func (w *World) addLong(r *request) {
	l := &w.long
	if l.ended {
		return
	}
	if l.requests == nil {
		l.requests = map[*request]bool{}
	}
	l.requests[r] = true
	if !l.probing {
		l.probing = true
		go w.probeLong()
	}
}

// probeLong calls the library until no long message is in transit.
func (w *World) probeLong() {
	for w.probe() {
		time.Sleep(probeEvery)
	}
}

// probe calls the library once, unless another goroutine does. It reports whether long messages are in transit.
func (w *World) probe() bool {
	if !w.mu.TryLock() {
		return true
	}
	defer w.mu.Unlock()
	for r := range w.long.requests {
		if r.by.IsCanceled() {
			w.long = longMessages{ended: true}
		}
	}
	if len(w.long.requests) == 0 {
		w.long.probing = false
		return false
	}
	probeMPI(w.l, w.rank)
	return true
}
