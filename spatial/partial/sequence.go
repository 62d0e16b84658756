package partial

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// sequence is the part of one rank in a sequence of partial collectives. Its methods are
// those of the compute goroutine; see progress for the other one. The two signal each other
// by messages of the rank to itself, as every transport has them, the simulated one too.
//
// Memory: the send buffer and one vector for each operation whose result waits, τ+1 at most.
type sequence struct {
	schedule
	all       *comm.Comm // all ranks, for the progress task
	own       *comm.Comm // messages between the goroutines of the rank
	algorithm comm.Algorithm
	values    int  // length of the vectors
	replay    *Log // nil unless a log is replayed
	next      int  // step of the next contribution
	received  int  // number of results that were announced
	task      *comm.Task
	canceled  bool
	sent      []comm.Request // messages to the progress task
	taken     []result       // results that the caller uses
	shared    shared
}

// shared is what both goroutines of a rank use. The lock is held for copies only.
type shared struct {
	mu       sync.Mutex
	buffer   buffer
	versions int      // step with which the compute goroutine continues: it has contributed to the earlier ones
	computed int      // step of the last contribution
	results  []result // done, not taken by the compute goroutine yet
	finished int      // operations done so far
	free     [][]float32
	log      Log
}

// result is the sum of an operation.
type result struct {
	step     int
	sum      []float32
	included bool // the last contribution of this rank is part of it
}

// failed announces that the progress task has ended with an error.
const failed = -1

// newSequence creates the groups of a sequence of sums of a number of values. All ranks of c
// call it together, and it sends no messages. groups returns those of the operations.
func newSequence(c *comm.Comm, s schedule, values int, groups func(all *comm.Comm) ([]*comm.Comm, error)) (*sequence, error) {
	q := &sequence{schedule: s, values: values}
	var err error
	if q.all, err = c.Duplicate(); err != nil {
		return nil, err
	}
	if q.own, err = c.Duplicate(); err != nil {
		return nil, err
	}
	q.groups, err = groups(q.all)
	return q, err
}

// Start starts the operations of the next steps. All ranks call it with the same number;
// the operation of the last step is synchronous. While they run, the caller's groups remain
// its own.
//
// Errors: exit 64 for a number below 1 or unless all steps of an earlier call are done; a
// log that does not fit.
func (q *sequence) Start(steps int) error {
	if steps < 1 || q.task != nil {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("invalid start of %d steps at step %d", steps, q.next),
			Why: "a run has at least one step and begins when the one before has ended", Fix: "call Step as often as the last Start said"}
	}
	if q.canceled {
		return errCanceled
	}
	first := q.next
	q.first, q.last = first, first+steps-1
	if q.replay != nil {
		if err := q.replay.check(q.schedule, first); err != nil {
			return err
		}
	}
	q.task = q.all.Go(nil, func(g *comm.Comm) error { return newProgress(q, g, first).run(first) })
	return nil
}

// Cancel ends the operations that Start started, after an error of the caller. The sequence
// cannot be used afterwards.
func (q *sequence) Cancel() {
	q.canceled = true
	if q.task != nil {
		q.task.Cancel()
		_ = q.task.Wait(q.own) // the caller has an error
	}
}

// errCanceled is the error of a sequence after Cancel.
var errCanceled = fmt.Errorf("partial collectives: %w", context.Canceled)

// Log returns what depended on time so far. It is valid between runs.
func (q *sequence) Log() *Log {
	q.shared.mu.Lock()
	defer q.shared.mu.Unlock()
	return &Log{slices.Clone(q.shared.log.Versions), slices.Clone(q.shared.log.Applied), slices.Clone(q.shared.log.Skipped)}
}

// Arrivals is what depended on time in the steps of a run, for one rank, with a number for each step.
type Arrivals struct {
	Ages    []int // age of the contribution, in steps
	Ahead   []int // number of results of later steps that were there when the step ended
	Skipped []int // 1: the rank left the step out; else 0
}

// RunLog returns the arrivals of the last run. It is valid between runs.
func (q *sequence) RunLog() (a Arrivals) {
	q.shared.mu.Lock()
	defer q.shared.mu.Unlock()
	l := &q.shared.log
	for step := q.first; step < len(l.Versions); step++ {
		skipped := 0
		if l.skipped(step) {
			skipped = 1
		}
		a.Ages, a.Ahead, a.Skipped = append(a.Ages, l.Age(step)), append(a.Ahead, l.Applied[step]-step-1), append(a.Skipped, skipped)
	}
	return a
}

// Next returns the step that the caller computes next. Steps between it and the last one are left out.
func (q *sequence) Next() int { return q.next }

// contribute puts the contribution of the next step into the send buffer and announces it. late reports that the operation of
// the step had been taken before. Then next is the step with which the rank continues.
func (q *sequence) contribute(x []float32) (late bool, err error) {
	if q.canceled {
		return false, errCanceled
	}
	if q.task == nil {
		return false, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("step %d was not started", q.next), Why: "Start states how many steps follow", Fix: "call Start first"}
	}
	q.release()
	if q.replay != nil { // operations that did not contain it
		if err := q.await(q.replay.before(q.next)); err != nil {
			return false, err
		}
	}
	h, step := &q.shared, q.next
	h.mu.Lock()
	h.buffer.put(x)
	taken := len(h.log.Versions)
	q.next = q.following(step, taken)
	h.versions, h.computed = q.next, step
	for s := step + 1; s < q.next; s++ {
		h.log.Skipped = append(h.log.Skipped, s)
	}
	h.mu.Unlock()
	q.sent = append(inProgress(q.sent), q.own.Send(q.own.Rank(), tagReady, []int64{int64(q.next)}))
	return taken > step, nil
}

// release returns the vectors of the last results.
func (q *sequence) release() {
	h := &q.shared
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range q.taken {
		h.free = append(h.free, r.sum)
	}
	q.taken = nil
}

// inProgress drops requests that are done from the front of a list.
func inProgress(requests []comm.Request) []comm.Request {
	for len(requests) > 0 && requests[0].Test() {
		requests = requests[1:]
	}
	return requests
}

// await waits until the results of the first n operations are there.
//
// Errors: that of the progress task.
func (q *sequence) await(n int) error {
	for q.received < n {
		step := make([]int64, 1)
		if err := q.own.Recv(q.own.Rank(), tagResult, step).Wait(); err != nil {
			return err
		}
		if step[0] == failed {
			return q.task.Wait(q.own)
		}
		q.received++
	}
	return nil
}

// take returns the results of the first n operations that were not taken yet, which are
// valid until the next contribution. After the last step it waits for the progress task.
func (q *sequence) take(n int) ([]result, error) {
	h := &q.shared
	h.mu.Lock()
	count := n - (h.finished - len(h.results))
	q.taken = slices.Clone(h.results[:count])
	h.results = slices.Delete(h.results, 0, count)
	for len(h.log.Applied) < q.next {
		h.log.Applied = append(h.log.Applied, n)
	}
	h.mu.Unlock()
	if q.next <= q.last {
		return q.taken, nil
	}
	err := q.task.Wait(q.own)
	q.task = nil
	return q.taken, err
}

// finishedAfter returns the number of operations whose results are applied after the contribution of a step: those that are
// there, or those before the step with which a rank that leaves steps out continues.
func (q *sequence) finishedAfter(step int) int {
	if q.skips {
		return q.next
	}
	if q.replay != nil {
		return q.replay.Applied[step]
	}
	q.shared.mu.Lock()
	defer q.shared.mu.Unlock()
	return q.shared.finished
}
