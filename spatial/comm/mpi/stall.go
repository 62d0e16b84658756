//go:build cgo && linux

package mpi

import (
	"fmt"
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

// stalled is the error of a wait for a rank that was too long. A rank that waits itself
// is not to blame: it tells so, and for whom it waits, and that rank is named, and so on.
func (w *World) stalled(other int) error {
	w.blame.Do(func() { w.culprit = w.ask(other) })
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
// waits; it is other again if they wait in a circle.
func (w *World) ask(other int) culprit {
	waits, told, left := make([]int64, w.size), make([]comm.Request, w.size), make([]comm.Request, w.size)
	for r := range w.size {
		if r != w.rank {
			told[r], left[r] = w.Recv(r, tagStall, waits[r:r+1]), w.Recv(r, tagLeave, make([]byte, 1))
			w.Send(r, tagStall, []int64{int64(other)}) // nobody waits for it: the process ends soon
		}
	}
	last := other
	for end := time.Now().Add(time.Duration((1 - patience) * float64(w.stall))); time.Now().Before(end); time.Sleep(maxSleep) {
		last = other
		for range w.size {
			if last == w.rank {
				return culprit{rank: other}
			}
			if left[last].Test() {
				return culprit{last, true}
			}
			if !told[last].Test() {
				break
			}
			last = int(waits[last])
		}
	}
	return culprit{rank: last}
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
