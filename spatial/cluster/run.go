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

// Options of a run. The zero value is the usual run.
type Options struct {
	Trace bool // record what every rank does
}

// Result is what a run took.
type Result struct {
	End    []Time  // when each rank returned
	Links  []int64 // bytes that passed each link of the topology; nil without one
	Trace  []Span  // if asked for, in the order of their ends
	Events int64   // of the simulation
}

// Time is when the last rank returned.
func (r *Result) Time() Time {
	var last Time
	for _, t := range r.End {
		last = max(last, t)
	}
	return last
}

// Rank is one rank of a run: its group of all ranks, and its clock.
type Rank struct {
	*comm.Comm
	p *process
}

// Now is the time of this rank's clock.
func (r *Rank) Now() Time { return r.p.w.now }

// Compute lets time pass for this rank; messages go on.
func (r *Rank) Compute(d Time) {
	if d < 0 {
		panic(fmt.Sprintf("cluster: computing for %v", d))
	}
	begin := r.Now()
	r.p.advance(d)
	r.p.w.record(Span{Kind: Compute, Rank: r.p.id, Peer: -1, Start: begin, End: r.Now()})
}

// Run calls f on ranks that share one virtual clock, and whose messages take the time
// that a network says. One rank runs at a time, so runs of one program are equal.
// Values are copied as by other transports; with comm.SizeOnly only their sizes count.
//
// Errors: those of comm.Run, and a network that cannot be or has too few hosts.
func Run(ranks int, n Network, o Options, f func(*Rank) error) (*Result, error) {
	if ranks < 1 {
		return nil, usage(fmt.Sprintf("a run of %d ranks", ranks), "somebody has to run", "give 1 or more")
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

// world is what the ranks of a run share.
type world struct {
	clock
	wire    *wire
	ranks   []*process
	tasks   []*process // of ranks, beside their programs
	ready   []*process // to run now, in order
	tracing bool
	result  *Result
	failed  error
}

// process runs a rank, or a task of it, as a coroutine, which goes on when it is resumed
// and stops where it pauses. It is the rank's comm.Transport.
type process struct {
	w        *world
	id       int
	owner    *process // the rank's program, which has its messages: itself, or for a task
	resume   func() (struct{}, bool)
	stop     func()
	pause    func(struct{}) bool
	waitsFor *request   // what it waits for
	sent     []*message // to this rank, which has not asked for them yet
	receives []*request // by this rank, and not sent yet
	finished bool
	waiters  []*process // that wait for the end of this one
	canceled bool
}

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

// start makes a process that calls f.
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

// call turns a panic into an error.
func call(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

// Go runs f as a task of this rank, whose messages share its place in the network.
func (p *process) Go(f func(comm.Transport)) comm.RunningTask {
	t := &process{w: p.w, id: p.id, owner: p.owner}
	p.w.tasks = append(p.w.tasks, t)
	t.start(func() error {
		f(t)
		return nil
	})
	return runningTask{t}
}

// runningTask is a task.
type runningTask struct{ *process }

// Wait lets time pass until the task has ended.
func (t runningTask) Wait(by comm.Transport) {
	p := by.(*process)
	if !t.finished {
		t.waiters = append(t.waiters, p)
		p.sleep()
	}
}

// Cancel ends what the task waits for.
func (t runningTask) Cancel() {
	t.canceled = true
	if t.waitsFor != nil {
		t.waitsFor = nil
		t.w.wake(t.process)
	}
}

// run goes on until nothing is left to do, and then ends the ranks that are not done.
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

// fail keeps the first error of a run.
func (w *world) fail(err error) {
	if w.failed == nil {
		w.failed = err
	}
}

// maxNamed is how many ranks an error names.
const maxNamed = 8

// deadlockError is the error of ranks that wait for what cannot come.
func (w *world) deadlockError() error {
	var who []string
	waiting := 0
	for _, p := range append(slices.Clone(w.ranks), w.tasks...) {
		if p.finished {
			continue
		}
		if waiting++; waiting <= maxNamed {
			who = append(who, fmt.Sprintf("rank %d %v", p.id, p.waitsFor))
		}
	}
	if waiting == 0 {
		return nil
	}
	if waiting > maxNamed {
		who = append(who, fmt.Sprintf("and %d more", waiting-maxNamed))
	}
	return fmt.Errorf("at %v all ranks wait: %s", w.now, strings.Join(who, ", "))
}

// unreceivedError is the error of messages that nobody received.
func (w *world) unreceivedError() error {
	var err error
	for _, p := range w.ranks {
		for _, m := range p.sent {
			err = errors.Join(err, fmt.Errorf("a message of rank %d to rank %d with tag %d was never received", m.from, m.to, m.tag))
		}
	}
	return err
}

// sleep lets others run until the process is woken; once the run has failed it returns at
// once.
func (p *process) sleep() { p.pause(struct{}{}) }

// wake lets a process go on.
func (w *world) wake(p *process) { w.ready = append(w.ready, p) }

// advance lets time pass for a process.
func (p *process) advance(d Time) {
	if d > 0 {
		p.w.at(p.w.now+d, func() { p.w.wake(p) })
		p.sleep()
	}
}

// errEnded is why requests fail once a run has.
var errEnded = fmt.Errorf("the run has failed: %w", context.Canceled)
