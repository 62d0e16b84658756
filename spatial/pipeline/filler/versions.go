package filler

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Round is the round of R steps that a step belongs to, counted from 0.
func Round(step uint64, refresh int) uint64 { return step / uint64(refresh) }

// Published is the round whose results a step uses: the one that ended last. It is false in the first round, which has none.
// The results are R to 2R−1 steps old, counted from the step whose micro-batches the round has read.
func Published(step uint64, refresh int) (round uint64, ok bool) {
	r := Round(step, refresh)
	return r - 1, r > 0
}

// Versions holds results of rounds, such as inverses, and publishes each at the end of its round. Which one a step uses depends
// on the number of the step only, never on when the work was done, so all replicas use the same.
//
// Concurrency: one goroutine uses it at a time.
type Versions[T any] struct {
	Refresh int // R
	values  map[uint64]T
}

// Put stores the results of the current round at any step of it. Until its end other rounds stay published.
func (v *Versions[T]) Put(step uint64, x T) {
	if v.values == nil {
		v.values = map[uint64]T{}
	}
	round := Round(step, v.Refresh)
	v.values[round] = x
	if round >= 2 {
		delete(v.values, round-2)
	}
}

// At returns the results that a step uses. ok is false in the first round.
//
// Errors: exit.Bug if the round that ended last has none.
func (v *Versions[T]) At(step uint64) (x T, ok bool, err error) {
	round, ok := Published(step, v.Refresh)
	if !ok {
		return x, false, nil
	}
	x, ok = v.values[round]
	if !ok {
		return x, false, &exit.Error{Code: exit.Bug, What: fmt.Sprintf("step %d has no results of steps %d to %d", step, round*uint64(v.Refresh), (round+1)*uint64(v.Refresh)-1),
			Why: "the work of these steps was not completed", Fix: "report this with the assignment"}
	}
	return x, true, nil
}
