package team

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/internal/balance"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Tasks are independent tasks of known cost.
type Tasks struct {
	Costs []int64 // of each task, in a unit of the caller, equal on all ranks
	// PerExchange is the mean number of tasks of a team between two exchanges of results. It bounds the results that are in
	// memory, and how long ranks that have finished wait for others.
	PerExchange int
}

// windows returns the first task of each window, and the number of tasks: between two exchanges ranks work on one window.
func (t Tasks) windows(groups int) []int {
	bounds := []int{0}
	for at, size := 0, max(1, t.PerExchange)*groups; at < len(t.Costs); {
		at = min(at+size, len(t.Costs))
		bounds = append(bounds, at)
	}
	return bounds
}

// owners returns the team of each task. In each window tasks are distributed by cost, the most expensive first to the least
// loaded team.
func (w Teams) owners(t Tasks) (owner []int) {
	bounds := t.windows(w.Groups())
	for k, to := range bounds[1:] {
		owner = append(owner, balance.Assign(t.Costs[bounds[k]:to], w.Groups())...)
	}
	return owner
}

// Assigned returns those of the elements, one for each task, whose tasks Distribute assigns to this rank's team.
func Assigned[T any](w Teams, t Tasks, elements []T) []T {
	var out []T
	for i, owner := range w.owners(t) {
		if owner == w.group() {
			out = append(out, elements[i])
		}
	}
	return out
}

// Distribute distributes tasks over the teams by their costs. All ranks receive all results in the order of tasks; the
// first rank of a team supplies its results. After an error tasks with a lower number are still finished, so that results
// and error are those of a single rank.
//
// Ranks work on a window of tasks without waiting for each other, and then exchange results. Within a window a rank
// that fails notifies rank 0, and rank 0 the others.
//
// Errors: that of the first failed task, as a single rank would have found it; exit
// 75 if the context of a rank is cancelled; errors of take; lost ranks.
func Distribute[T any](ctx context.Context, w Teams, t Tasks, work func(i int) (T, error), take func(i int, r T) error) error {
	if w.All == nil {
		for i := range t.Costs {
			if err := ctx.Err(); err != nil {
				return err
			}
			r, err := work(i)
			if err != nil {
				return err
			}
			if err := take(i, r); err != nil {
				return err
			}
		}
		return nil
	}
	owner, bounds := w.owners(t), t.windows(w.Groups())
	for k, to := range bounds[1:] {
		var own []int
		for i := bounds[k]; i < to; i++ {
			if owner[i] == w.group() {
				own = append(own, i)
			}
		}
		o, err := workOn(ctx, w, own, work)
		if err != nil {
			return err
		}
		all, err := AllGather(w.All.Comm, o)
		if err != nil {
			return err
		}
		if err := takeResults(w, all, owner, bounds[k], to, take); err != nil {
			return err
		}
	}
	return nil
}

// windowResults are the results of a rank in a window.
type windowResults[T any] struct {
	Results []T         // of the finished tasks, in order
	Failed  int         // the task that failed or was not started because of a stop signal
	Error   *exit.Error // of this rank; nil if all tasks are finished or another rank of the team failed
}

// takeResults passes the results of a window from task from to task to to take, up to the first failed task.
//
// Errors: that of the first failed task; those of take.
func takeResults[T any](w Teams, all []windowResults[T], owner []int, from, to int, take func(i int, r T) error) error {
	var failure *windowResults[T]
	for r, o := range all {
		if o.Error != nil && (failure == nil || o.Failed < failure.Failed) {
			failure = &all[r]
		}
	}
	for i := from; i < to && (failure == nil || i < failure.Failed); i++ {
		o := &all[owner[i]*w.Own.Size()]
		if len(o.Results) == 0 {
			break // the stop signal of another rank came before
		}
		if err := take(i, o.Results[0]); err != nil {
			return err
		}
		o.Results = o.Results[1:]
	}
	if failure != nil {
		return &agreedError{failure.Error}
	}
	return nil
}

// workOn works on some tasks of a window, in order, until one fails or a task of another team with a lower number has.
//
// Errors: lost ranks only.
func workOn[T any](ctx context.Context, w Teams, own []int, work func(i int) (T, error)) (o windowResults[T], err error) {
	limit := int64(math.MaxInt64) // the first failed task of this team
	n := newNotices(w)
	for _, i := range own {
		known, err := n.poll()
		if err != nil {
			return o, err
		}
		stopped, known, err := w.Own.agree(ctx.Err() != nil, known)
		if err != nil {
			return o, err
		}
		if stopped {
			limit, o.Failed, o.Error = 0, i, w.All.ownError(context.Canceled)
			break
		}
		if int64(i) >= known {
			break
		}
		r, failed := work(i)
		if lost := (*comm.RankError)(nil); errors.As(failed, &lost) {
			return o, failed
		}
		bad, _, err := w.Own.agree(failed != nil, 0)
		if err != nil {
			return o, err
		}
		if bad {
			limit, o.Failed = int64(i), i
			if failed != nil {
				o.Error = w.All.ownError(failed)
			}
			break
		}
		o.Results = append(o.Results, r)
	}
	return o, n.finish(limit)
}

// agree returns on all ranks of a team whether one of them has a flag, and the number of the first rank.
func (t *Team) agree(flag bool, number int64) (any bool, of int64, err error) {
	if t == nil {
		return flag, number, nil
	}
	x := []int64{0, 0}
	if flag {
		x[0] = 1
	}
	if t.IsRoot() {
		x[1] = number
	}
	err = comm.AllReduce(t.Comm, x, comm.Auto)
	return x[0] > 0, x[1], err
}

// notices are the messages of a window about failed tasks: one from the first rank of each team to rank 0, and one back.
// The number in them is that of the first failed task; 0 after a stop signal, math.MaxInt64 without a failure.
type notices struct {
	c       *comm.Comm // nil on ranks that are not the first of a team
	others  []int      // ranks that this one exchanges messages with
	in      [][]int64  // [other]
	pending []comm.Request
	sent    []comm.Request
	out     []int64 // sent
	limit   int64   // least number received or sent
}

// noticeTag is the tag of notices.
const noticeTag = comm.Tags - 2

// newNotices starts to receive the notices of a window.
func newNotices(w Teams) *notices {
	n := &notices{limit: math.MaxInt64}
	if !w.Own.IsRoot() {
		return n
	}
	if n.c = w.All.Comm; n.c.Rank() > 0 {
		n.others = []int{0}
	} else {
		for r := w.Own.Size(); r < n.c.Size(); r += w.Own.Size() {
			n.others = append(n.others, r)
		}
	}
	for k, r := range n.others {
		n.in = append(n.in, make([]int64, 1))
		n.pending = append(n.pending, n.c.Recv(r, noticeTag, n.in[k]))
	}
	return n
}

// poll returns the first failed task that is known. Rank 0 notifies the others of it.
func (n *notices) poll() (int64, error) {
	for k, r := range n.pending {
		if r != nil && r.Test() {
			if err := n.receive(k); err != nil {
				return 0, err
			}
		}
	}
	return n.limit, nil
}

// receive waits for a notice.
func (n *notices) receive(k int) error {
	if err := n.pending[k].Wait(); err != nil {
		return err
	}
	n.pending[k] = nil
	n.lower(n.in[k][0])
	return nil
}

// lower lowers the limit; on rank 0 it sends the first one to the others.
func (n *notices) lower(limit int64) {
	n.limit = min(n.limit, limit)
	if n.c.Rank() == 0 && n.limit < math.MaxInt64 {
		n.send()
	}
}

// send sends the limit, once.
func (n *notices) send() {
	if n.out != nil {
		return
	}
	n.out = []int64{n.limit}
	for _, r := range n.others {
		n.sent = append(n.sent, n.c.Send(r, noticeTag, n.out))
	}
}

// finish sends and receives what is left after the tasks of this rank, of which the one with the number limit failed.
func (n *notices) finish(limit int64) error {
	if n.c == nil {
		return nil
	}
	n.lower(limit)
	if n.c.Rank() > 0 {
		n.limit = limit
		n.send()
	}
	for k, r := range n.pending {
		if r != nil {
			if err := n.receive(k); err != nil {
				return err
			}
		}
	}
	n.send()
	return comm.WaitAll(slices.Clone(n.sent)...)
}
