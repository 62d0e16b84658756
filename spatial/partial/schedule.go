package partial

import (
	"math/rand/v2"

	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// schedule states who takes part in the operation of each step, and who starts it.
type schedule struct {
	period int  // every period-th operation of a run is synchronous: τ
	first  int  // step of the first operation of a run
	last   int  // step of the last operation of a run, which is synchronous too
	offset int  // number of steps before step 0, in an earlier job
	skips  bool // ranks leave out steps whose operations have begun without them
	// groups of the operations: that of step t is groups[(offset + t) mod len(groups)]
	groups []*comm.Comm
	// initiator returns the rank that starts an operation; nil if the first to arrive does
	initiator func(step int) int
}

// isSynchronous reports whether an operation waits for all ranks.
func (s schedule) isSynchronous(step int) bool { return step == s.nextSynchronous(step) }

// nextSynchronous returns the first synchronous operation from a step on.
func (s schedule) nextSynchronous(step int) int {
	return min(s.last, step+s.period-1-(step-s.first)%s.period)
}

// following returns the step that a rank computes after another one, given how many operations had been taken when its
// contribution was ready. A rank that missed the operation of its step and leaves steps out continues with the first one that has
// not been taken. If that is synchronous, where all wait for it, it takes part with what it has and continues after it.
func (s schedule) following(step, taken int) int {
	switch {
	case !s.skips || taken <= step:
		return step + 1
	case s.isSynchronous(taken):
		return taken + 1
	}
	return taken
}

// group returns the ranks of an operation that is not synchronous.
func (s schedule) group(step int) *comm.Comm { return s.groups[(s.offset+step)%len(s.groups)] }

// startsAlone reports whether this rank starts an operation when it arrives.
func (s schedule) startsAlone(step int) bool {
	return s.initiator == nil || s.initiator(step) == s.group(step).Rank()
}

// peers returns the ranks of the group that send a notice of the start to this one, and
// those to which it sends notices.
func (s schedule) peers(step int) (from, to []int) {
	g := s.group(step)
	if s.initiator == nil {
		to, from = g.Dissemination()
		return from, to
	}
	parent, to := g.BinomialTree(s.initiator(step))
	if parent >= 0 {
		from = []int{parent}
	}
	return from, to
}

// in returns the schedule with groups for the goroutine of g.
func (s schedule) in(g *comm.Comm) schedule {
	own := make([]*comm.Comm, len(s.groups))
	for i, group := range s.groups {
		own[i] = group.In(g)
	}
	s.groups = own
	return s
}

// initiatorOf draws the rank that starts the operation of a step among p ranks, uniformly
// and equally on all of them.
func initiatorOf(seed uint64, step, p int) int {
	return rand.New(rand.NewPCG(seed, uint64(step))).IntN(p)
}
