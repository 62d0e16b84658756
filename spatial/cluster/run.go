package cluster

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Options of a run. The zero value records nothing.
type Options struct {
	Trace bool // record the activities of every rank in Result.Trace
}

// Result holds the outcome of a run.
type Result struct {
	End []Time // time at which each rank returned
	// bytes transferred by each link of the topology; nil without a topology
	Links []int64
	// recorded spans in the order of their ends; nil unless Options.Trace is set
	Trace  []Span
	Events int64 // number of simulated events
}

// Time returns when the last rank returned.
func (r *Result) Time() Time {
	var last Time
	for _, t := range r.End {
		last = max(last, t)
	}
	return last
}

// Rank is one rank of a run: its group of all ranks and its clock.
type Rank struct {
	*comm.Comm
	p *process
}

// Now returns the current virtual time.
func (r *Rank) Now() Time { return r.p.w.now }

// Compute advances the clock of this rank by d. Messages progress meanwhile.
func (r *Rank) Compute(d Time) {
	if d < 0 {
		panic(fmt.Sprintf("cluster: computing for %v", d))
	}
	begin := r.Now()
	r.p.advance(d)
	r.p.w.record(Span{Kind: Compute, Rank: r.p.id, Peer: -1, Start: begin, End: r.Now()})
}

// Run calls f on ranks that share a virtual clock. Their messages take the time
// that the network model n predicts. One rank runs at a time, so runs of one
// program are equal. Values are copied as by other transports; for comm.SizeOnly
// only the size counts.
//
// Errors: those of comm.Run; an invalid network; more ranks than hosts.
func Run(ranks int, n Network, o Options, f func(*Rank) error) (*Result, error) {
	if ranks < 1 {
		return nil, usage(fmt.Sprintf("invalid number of ranks %d", ranks), "a run needs at least one rank", "set 1 or more")
	}
	w := &world{ranks: make([]*process, ranks), tracing: o.Trace, result: &Result{End: make([]Time, ranks)}}
	wire, err := n.open(&w.clock, ranks)
	if err != nil {
		return nil, err
	}
	w.wire, w.result.Links = wire, wire.bytes
	for id := range w.ranks {
		w.ranks[id] = w.newProcess(id, f)
	}
	w.run()
	if w.failed == nil {
		w.failed = w.unreceivedError()
	}
	if w.failed != nil {
		return nil, w.failed
	}
	w.result.Events = w.clock.done
	return w.result, nil
}

// world is the state that the ranks of a run share.
type world struct {
	clock
	wire    *wire
	ranks   []*process
	tasks   []*process // tasks of all ranks
	ready   []*process // processes to resume at the current time, in order
	tracing bool
	result  *Result
	failed  error
}

// process is a coroutine that runs a rank or a task of it: resume continues it,
// pause returns to the scheduler. It is the rank's comm.Transport. Only one
// coroutine runs at a time, so the state of the world needs no locks.
type process struct {
	w  *world
	id int
	// process of the rank, which holds the message queues; itself for a rank
	owner    *process
	resume   func() (struct{}, bool)
	stop     func()
	pause    func(struct{}) bool
	waitsFor []*request // nil unless it waits for one of these messages
	sent     []*message // messages to this rank without a posted receive
	receives []*request // posted receives without a message
	finished bool
	waiters  []*process // processes that wait for the end of this one
	canceled bool
}

// newProcess creates the process of a rank.
func (w *world) newProcess(id int, f func(*Rank) error) *process {
	p := &process{w: w, id: id}
	p.owner = p
	p.start(func() error {
		err := f(&Rank{comm.New(p), p})
		w.result.End[id] = w.now
		return err
	})
	return p
}

// start makes the process call f when it is first resumed.
func (p *process) start(f func() error) {
	p.resume, p.stop = iter.Pull(func(yield func(struct{}) bool) {
		p.pause = yield
		err := call(f)
		p.finished = true
		for _, other := range p.waiters {
			p.w.wake(other)
		}
		if err != nil {
			p.w.fail(fmt.Errorf("rank %d: %w", p.id, err))
		}
	})
	p.w.ready = append(p.w.ready, p)
}

// call converts a panic of f into an error.
func call(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

// Go runs f as a task of this rank. Its messages share the rank's endpoint of the
// network.
func (p *process) Go(f func(comm.Transport)) comm.RunningTask {
	t := &process{w: p.w, id: p.id, owner: p.owner}
	p.w.tasks = append(p.w.tasks, t)
	t.start(func() error {
		f(t)
		return nil
	})
	return runningTask{t}
}

// runningTask is a task, as comm.Transport.Go returns it.
type runningTask struct{ *process }

// Wait blocks the process by until the task has ended.
func (t runningTask) Wait(by comm.Transport) {
	p := by.(*process)
	if !t.finished {
		t.waiters = append(t.waiters, p)
		p.sleep()
	}
}

// Cancel makes current and later waits of the task fail.
func (t runningTask) Cancel() {
	t.canceled = true
	if t.waitsFor != nil {
		t.waitsFor = nil
		t.w.wake(t.process)
	}
}

// run resumes ready processes until none is left at the current time, then
// processes the next event, until no event is left. Finally it stops the processes
// that have not ended: in a deadlock, or after an error.
func (w *world) run() {
	for w.failed == nil {
		if len(w.ready) == 0 {
			if !w.next() {
				break
			}
			continue
		}
		now := w.ready
		w.ready = nil
		for _, p := range now {
			if w.failed == nil {
				p.resume()
			}
		}
	}
	w.fail(w.deadlockError())
	for _, p := range append(w.tasks, w.ranks...) {
		p.stop()
	}
}

// fail records the first error of a run.
func (w *world) fail(err error) {
	if w.failed == nil {
		w.failed = err
	}
}

// maxNamed is the maximum number of ranks that an error lists.
const maxNamed = 8

// deadlockError returns the error of a deadlock: processes that wait when no event
// is left.
func (w *world) deadlockError() error {
	var who []string
	waiting := 0
	for _, p := range append(slices.Clone(w.ranks), w.tasks...) {
		if p.finished {
			continue
		}
		if waiting++; waiting <= maxNamed {
			who = append(who, fmt.Sprintf("rank %d waits %s", p.id, describe(p.waitsFor)))
		}
	}
	if waiting == 0 {
		return nil
	}
	if waiting > maxNamed {
		who = append(who, fmt.Sprintf("and %d more", waiting-maxNamed))
	}
	return fmt.Errorf("at %v deadlock: %s", w.now, strings.Join(who, ", "))
}

// unreceivedError returns the error of messages that were never received.
func (w *world) unreceivedError() error {
	var err error
	for _, p := range w.ranks {
		for _, m := range p.sent {
			err = errors.Join(err, fmt.Errorf("message from rank %d to rank %d with tag %d was never received", m.from, m.to, m.tag))
		}
	}
	return err
}

// sleep pauses the process until wake. After a failed run it returns at once.
func (p *process) sleep() { p.pause(struct{}{}) }

// wake schedules a process to be resumed at the current time.
func (w *world) wake(p *process) { w.ready = append(w.ready, p) }

// advance pauses the process for a time.
func (p *process) advance(d Time) {
	if d > 0 {
		p.w.at(p.w.now+d, func() { p.w.wake(p) })
		p.sleep()
	}
}

// errEnded is the error of requests after the run has failed.
var errEnded = fmt.Errorf("the run has failed: %w", context.Canceled)
