//go:build cgo && linux

package mpi

import (
	"fmt"
	"sync"
	"time"

	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Tags that groups never reach, since their tags end before: what ranks tell each other
// once they have waited too long, and when they have done their part.
const (
	tagStall = comm.MaxTag - iota
	tagLeave
)

// A rank waits for patience of the stall timeout, and for the rest of it hears whom the
// others wait for.
const patience = 0.8

// culprit is the rank that keeps the others waiting.
type culprit struct {
	rank int
	left bool // it has done its part
}

// nobody is what a goroutine waits for that waits for another one of its process.
const nobody = -1

// waits are those of the goroutines of a rank: its own, and those that Go started.
type waits struct {
	mu      sync.Mutex
	running int         // goroutines that do not wait
	ranks   map[int]int // how many wait for a rank
}

// add counts goroutines that begin or end.
func (w *waits) add(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running += n
}

// on counts a wait for a rank, until its end.
func (w *waits) on(rank int) (end func()) {
	count := func(n int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.running -= n
		if w.ranks == nil {
			w.ranks = map[int]int{}
		}
		w.ranks[rank] += n
	}
	count(1)
	return func() { count(-1) }
}

// told writes 1 for each of the ranks that this one waits for, if all its goroutines wait.
func (w *waits) told(ranks []int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for r := range ranks {
		ranks[r] = int64(min(w.ranks[r], 1))
	}
	return w.running == 0
}

// stalled is the error of a wait for a rank that was too long. A rank that waits itself
// is not to blame: it tells so, and for whom it waits, and those are looked at, and so on.
// All other waits of this rank end with it.
func (w *World) stalled(other int) error {
	w.blame.Do(func() {
		w.culprit = w.ask(other)
		w.blamed.Store(true)
	})
	err := fmt.Errorf("%w: %v", ErrStalled, w.stall)
	if w.culprit.left {
		err = fmt.Errorf("%w; it has done its part", err)
	}
	if w.culprit.rank != other {
		err = fmt.Errorf("%w; rank %d waits too", err, other)
	}
	return &comm.RankError{Rank: w.culprit.rank, Err: err}
}

// ask follows the ranks that wait for each other to one that does not tell that it
// waits. It is other again if all do, in a circle, and this one if a goroutine of its own
// does not wait.
func (w *World) ask(other int) culprit {
	n := w.size
	waits, told, left := make([]int64, n*n), make([]comm.Request, n), make([]comm.Request, n)
	row := func(r int) []int64 { return waits[r*n : (r+1)*n] }
	for r := range n {
		if r != w.rank {
			told[r], left[r] = w.Recv(r, tagStall, row(r)), w.Recv(r, tagLeave, make([]byte, 1))
		}
	}
	said := false
	last := culprit{rank: other}
	for end := time.Now().Add(time.Duration((1 - patience) * float64(w.stall))); time.Now().Before(end); time.Sleep(maxSleep) {
		if !said && w.waits.told(row(w.rank)) {
			said = true
			for r := range n {
				if r != w.rank {
					w.Send(r, tagStall, row(w.rank)) // nobody waits for it: the process ends soon
				}
			}
		}
		if !said {
			last = culprit{rank: w.rank}
			continue
		}
		seen := make([]bool, n)
		seen[w.rank] = true
		silent := nobody
		for next := []int{w.rank}; len(next) > 0 && silent == nobody; next = next[1:] {
			for r, waited := range row(next[0]) {
				switch {
				case waited == 0 || seen[r]:
				case left[r].Test():
					return culprit{r, true}
				case told[r].Test():
					seen[r] = true
					next = append(next, r)
				case silent == nobody:
					silent = r
				}
			}
		}
		if silent == nobody {
			return culprit{rank: other}
		}
		last = culprit{rank: silent}
	}
	return last
}

// leave waits, however long, until all ranks have done their part. A rank that waited
// within MPI's own end could take the launcher down with it when another rank fails.
func (w *World) leave() {
	var all []comm.Request
	for r := range w.size {
		if r != w.rank {
			all = append(all, w.Recv(r, tagLeave, make([]byte, 1)), w.Send(r, tagLeave, []byte{1}))
		}
	}
	for _, r := range all {
		for !r.Test() {
			time.Sleep(maxSleep)
		}
	}
}
