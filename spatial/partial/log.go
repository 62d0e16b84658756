package partial

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Log lists what depended on time in a run, for one rank. As Replay of another run with the
// same gradients it gives the same bits.
type Log struct {
	// Versions is, by step of the operation, the number of contributions of this rank that
	// it was taken after: step+1 if the rank was on time.
	Versions []int `json:"versions"`
	// Applied is, by step, the number of operations whose results the rank had received when
	// that step ended, before its next gradient.
	Applied []int `json:"applied"`
	// Skipped lists the steps that the rank left out, in order.
	Skipped []int `json:"skipped,omitempty"`
}

// Age returns how many steps old the contribution to the operation of a step was; 0 if the
// rank was on time, or took part in a synchronous operation with what it had.
func (l *Log) Age(step int) int { return step + 1 - l.Versions[step] }

// Late returns the number of operations without what the rank computed in their steps: it was late, or left them out.
func (l *Log) Late() int {
	late := 0
	for step := range l.Versions {
		if l.Age(step) > 0 || l.skipped(step) {
			late++
		}
	}
	return late
}

// skipped reports whether the rank left out a step.
func (l *Log) skipped(step int) bool {
	_, found := slices.BinarySearch(l.Skipped, step)
	return found
}

// before returns the number of operations that were taken before the contribution of a
// step.
func (l *Log) before(step int) int {
	n, _ := slices.BinarySearch(l.Versions, step+1)
	return n
}

// check returns an error unless the log describes the operations up to the last one.
//
// Errors: exit 65.
func (l *Log) check(s schedule, first int) error {
	bad := func(why string) error {
		return &exit.Error{Code: exit.BadData, What: "the log to replay is not of this run", Why: why, Fix: "replay with the log of this rank and the same options"}
	}
	if len(l.Versions) <= s.last || len(l.Applied) <= s.last {
		return bad(fmt.Sprintf("it has %d operations and %d steps, the run needs %d", len(l.Versions), len(l.Applied), s.last+1))
	}
	next, reached := first, map[int]bool{first: true} // the rank has contributed, and continues with these steps
	for step := first; step <= s.last; step++ {
		v := l.Versions[step]
		wrong := v > step+1 || s.isSynchronous(step) && v != step+1 || step > 0 && v < l.Versions[step-1]
		if wrong || l.Applied[step] < step+1 || !s.skips && l.Applied[step] > max(step+1, s.nextSynchronous(step+1)) {
			return bad(fmt.Sprintf("operation %d has version %d, and %d results were applied after it", step, v, l.Applied[step]))
		}
		computed := step == next
		if computed {
			next = s.following(step, l.before(step))
			reached[next] = true
		}
		if l.skipped(step) == computed || s.skips && (l.Applied[step] != next || !reached[v]) {
			return bad(fmt.Sprintf("step %d of a rank that is late is left out in one run only", step))
		}
	}
	return nil
}
