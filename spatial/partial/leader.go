package partial

import (
	"errors"

	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// EagerGroup is eager-SGD among groups of ranks that act as one, such as those that hold the
// shards of a sample. Rank 0 of each group takes part in it and passes what it got to the
// others, with the step, so that all of them take the same branch.
type EagerGroup struct {
	group  *comm.Comm
	leader *Eager      // nil except on rank 0
	values int         // of a gradient
	sums   [][]float32 // memory of the updates on other ranks
	next   int
}

// NewEagerGroup returns eager-SGD for a rank of a group, for gradients of n values. leader is
// that of rank 0 among the leaders of all groups, and nil on other ranks.
func NewEagerGroup(group *comm.Comm, n int, leader *Eager) *EagerGroup {
	return &EagerGroup{group: group, leader: leader, values: n}
}

// Step is Eager.Step. The gradient of rank 0 counts; others may pass nil. All ranks of the
// group return the same updates.
//
// Errors: those of Eager.Step on rank 0, and that it failed on the others.
func (g *EagerGroup) Step(gradient []float32) ([]Update, error) {
	var updates []Update
	var err error
	if g.leader != nil {
		updates, err = g.leader.Step(gradient)
	}
	count := []int64{int64(len(updates)), 0}
	if g.leader != nil {
		count[1] = int64(g.leader.Next())
	}
	if err := decide(g.group, count, err); err != nil {
		return nil, err
	}
	g.next = int(count[1])
	for i := range int(count[0]) {
		if g.leader == nil {
			if i == len(g.sums) {
				g.sums = append(g.sums, make([]float32, g.values))
			}
			updates = append(updates, Update{Sum: g.sums[i]})
		}
		u := &updates[i]
		counts := []int64{int64(u.Step), int64(u.Fresh), int64(u.Gradients)}
		if err := comm.Broadcast(g.group, 0, counts); err != nil {
			return nil, err
		}
		u.Step, u.Fresh, u.Gradients = int(counts[0]), int(counts[1]), int(counts[2])
		if err := comm.Broadcast(g.group, 0, u.Sum); err != nil {
			return nil, err
		}
	}
	return updates, nil
}

// Next is Eager.Next after a step, on all ranks of the group.
func (g *EagerGroup) Next() int { return g.next }

// WAGMAGroup is WAGMA-SGD among groups of ranks that act as one, as EagerGroup is eager-SGD.
type WAGMAGroup struct {
	group  *comm.Comm
	leader *WAGMA // nil except on rank 0
	next   int
}

// NewWAGMAGroup returns WAGMA-SGD for a rank of a group. leader is that of rank 0 among the
// leaders of all groups, and nil on other ranks.
func NewWAGMAGroup(group *comm.Comm, leader *WAGMA) *WAGMAGroup {
	return &WAGMAGroup{group: group, leader: leader}
}

// Step is WAGMA.Step. Weights of rank 0 count, and all ranks of the group receive the result.
//
// Errors: those of WAGMA.Step on rank 0, and that it failed on the others.
func (g *WAGMAGroup) Step(w []float32) (Average, error) {
	var a Average
	var err error
	if g.leader != nil {
		a, err = g.leader.Step(w)
	}
	decision := []int64{int64(a.OnTime), 0, 0}
	if a.Late {
		decision[1] = 1
	}
	if g.leader != nil {
		decision[2] = int64(g.leader.Next())
	}
	if err := decide(g.group, decision, err); err != nil {
		return Average{}, err
	}
	g.next = int(decision[2])
	return Average{Late: decision[1] == 1, OnTime: int(decision[0])}, comm.Broadcast(g.group, 0, w)
}

// Next is WAGMA.Next after a step, on all ranks of the group.
func (g *WAGMAGroup) Next() int { return g.next }

// errLeader is the error of ranks whose leader has one.
var errLeader = errors.New("rank 0 of the group has failed")

// decide passes what rank 0 decided to its group, or that it has failed with err. The first
// value is not negative.
func decide(group *comm.Comm, values []int64, err error) error {
	if err != nil {
		values[0] = failed
	}
	other := comm.Broadcast(group, 0, values)
	if err == nil && other == nil && values[0] == failed {
		return errLeader
	}
	return errors.Join(err, other)
}
