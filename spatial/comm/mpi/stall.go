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
const stallShare = 0.8

// stallCause is the rank that keeps the others waiting.
type stallCause struct {
	rank int
	left bool // it has done its part
}

// noRank is what a goroutine waits for that waits for another one of its process.
const noRank = -1

// waitCounts are those of the goroutines of a rank: its own, and those that Go started.
type waitCounts struct {
	mu      sync.Mutex
	running int         // goroutines that do not wait
	ranks   map[int]int // how many wait for a rank
}

// add counts goroutines that begin or end.
func (w *waitCounts) add(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running += n
}

// begin counts a wait for a rank, until its end.
func (w *waitCounts) begin(rank int) (end func()) {
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

// fill writes 1 for each of the ranks that this one waits for, if all its goroutines wait.
func (w *waitCounts) fill(ranks []int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for r := range ranks {
		ranks[r] = int64(min(w.ranks[r], 1))
	}
	return w.running == 0
}

// stallError is the error of a wait for a rank that was too long. A rank that waits itself
// is not to blame: it tells so, and for whom it waits, and those are looked at, and so on.
// All other waits of this rank end with it.
func (w *World) stallError(other int) error {
	w.stallOnce.Do(func() {
		w.stallCause = w.findStallCause(other)
		w.stallKnown.Store(true)
	})
	err := fmt.Errorf("%w: %v", ErrStalled, w.stall)
	if w.stallCause.left {
		err = fmt.Errorf("%w; it has done its part", err)
	}
	if w.stallCause.rank != other {
		err = fmt.Errorf("%w; rank %d waits too", err, other)
	}
	return &comm.RankError{Rank: w.stallCause.rank, Err: err}
}

// findStallCause follows the ranks that wait for each other to one that does not tell that it
// waits. It is other again if all do, in a circle, and this one if a goroutine of its own
// does not wait.
func (w *World) findStallCause(other int) stallCause {
	n := w.size
	waits, told, left := make([]int64, n*n), make([]comm.Request, n), make([]comm.Request, n)
	row := func(r int) []int64 { return waits[r*n : (r+1)*n] }
	for r := range n {
		if r != w.rank {
			told[r], left[r] = w.Recv(r, tagStall, row(r)), w.Recv(r, tagLeave, make([]byte, 1))
		}
	}
	said := false
	last := stallCause{rank: other}
	for end := time.Now().Add(time.Duration((1 - stallShare) * float64(w.stall))); time.Now().Before(end); time.Sleep(maxSleep) {
		if !said && w.waits.fill(row(w.rank)) {
			said = true
			for r := range n {
				if r != w.rank {
					w.Send(r, tagStall, row(w.rank)) // nobody waits for it: the process ends soon
				}
			}
		}
		if !said {
			last = stallCause{rank: w.rank}
			continue
		}
		seen := make([]bool, n)
		seen[w.rank] = true
		silent := noRank
		for next := []int{w.rank}; len(next) > 0 && silent == noRank; next = next[1:] {
			for r, waited := range row(next[0]) {
				switch {
				case waited == 0 || seen[r]:
				case left[r].Test():
					return stallCause{r, true}
				case told[r].Test():
					seen[r] = true
					next = append(next, r)
				case silent == noRank:
					silent = r
				}
			}
		}
		if silent == noRank {
			return stallCause{rank: other}
		}
		last = stallCause{rank: silent}
	}
	return last
}

// leaveTogether waits, however long, until all ranks have done their part. A rank that waited
// within MPI's own end could take the launcher down with it when another rank fails.
func (w *World) leaveTogether() {
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
