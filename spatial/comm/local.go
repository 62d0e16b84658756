package comm

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"sync"
)

// Mode says how the ranks of Run go on.
type Mode struct {
	replay bool
	seed   uint64
	faults Faults
}

// Parallel lets all ranks run at once; a message leaves its sender's memory when it is sent.
var Parallel = Mode{}

// Replay lets one rank run at a time, and draws from the seed who goes on and which
// message arrives. A send is done only when its message has arrived, and what is
// received is NaN until then.
func Replay(seed uint64) Mode { return Mode{replay: true, seed: seed} }

func (m Mode) String() string {
	if m.replay {
		return fmt.Sprintf("replay of seed %d", m.seed)
	}
	return "free"
}

// Run calls f on n ranks of this process and waits for all of them. When one
// returns an error or panics, the messages of the others fail.
//
// Errors: the first that a rank gave, with its number; ranks that wait for each other
// for ever, with who waits for what; messages that nobody received.
func Run(n int, m Mode, f func(*Comm) error) error {
	_, err := run(n, m, f)
	return err
}

// run is Run, and gives a hash of all that happened in a replay.
func run(n int, m Mode, f func(*Comm) error) (uint64, error) {
	w := &world{mode: m, n: n, rng: rand.New(rand.NewPCG(m.seed, 0x656e73)), queues: map[route]*queue{}, sent: map[[2]int]int{}, running: -1}
	for r := range n {
		w.newThread(r)
	}
	var all sync.WaitGroup
	for r := range n {
		all.Add(1)
		go func() {
			defer all.Done()
			w.enter(r)
			w.leave(r, call(f, New(localTransport{w: w, rank: r, thread: r})))
		}()
	}
	all.Wait()
	if w.failed == nil {
		w.failed = w.unreceived()
	}
	return w.log.Sum64(), w.failed
}

// call turns a panic into an error.
func call(f func(*Comm) error, c *Comm) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f(c)
}

// route is what messages that keep their order share.
type route struct{ from, to, channel, tag int }

// queue holds what is under way on a route: messages or receivers, in order, and in
// a replay how many of the messages have arrived.
type queue struct {
	sent, receives []*message
}

// message is one side of it: what is sent, or room for it.
type message struct {
	w *world
	route
	x       Slice
	thread  int  // whose side it is
	isSend  bool // or receives
	delayed bool // sent, and still under way
	done    bool
}

// rank is whose side it is, other who is at the other end.
func (m *message) rank() int {
	if m.isSend {
		return m.from
	}
	return m.to
}

func (m *message) other() int { return m.from + m.to - m.rank() }

// threadState is that of a thread: the first n are the ranks, others are their tasks.
type threadState struct {
	rank     int
	waits    waitTarget // nil: it runs
	finished bool
	entered  bool
	canceled bool // what it waits for fails
}

// waitTarget is what a thread waits for.
type waitTarget interface {
	ready() bool
	String() string
}

func (m *message) ready() bool { return m.done || m.w.state[m.thread].canceled }

// isBlocked tells whether a thread waits for what is not there yet.
func (s *threadState) isBlocked() bool { return s.waits != nil && !s.waits.ready() }

// world is what the ranks of a Run share, guarded by mu.
type world struct {
	mu      sync.Mutex
	mode    Mode
	n       int
	rng     *rand.Rand
	queues  map[route]*queue
	routes  []route        // of queues, as they came up
	state   []threadState  // by thread
	wake    []*sync.Cond   // by thread
	running int            // in a replay, the thread that runs; −1 before the start
	sent    map[[2]int]int // messages between two ranks
	late    int            // messages that are
	failed  error
	log     eventHash
}

// eventHash is a hash of what happened.
type eventHash struct{ sum uint64 }

func (e *eventHash) add(kind byte, a, b int) {
	h := fnv.New64a()
	fmt.Fprint(h, e.sum, kind, a, b)
	e.sum = h.Sum64()
}

// Sum64 is the hash so far.
func (e *eventHash) Sum64() uint64 { return e.sum }

// localTransport is the view that a thread of a rank has of a world.
type localTransport struct {
	w       *world
	rank    int
	thread  int
	channel int
}

var _ Channeled = localTransport{}

func (l localTransport) Rank() int { return l.rank }
func (l localTransport) Size() int { return l.w.n }

func (l localTransport) Send(to, tag int, x Slice) Request {
	w := l.w
	w.mu.Lock()
	defer w.mu.Unlock()
	m := &message{w: w, route: route{l.rank, to, l.channel, tag}, x: x, thread: l.thread, isSend: true}
	lost, late := w.injectFault(m)
	if lost {
		m.done = true
		return m
	}
	if late > 0 {
		w.delay(m, late)
	}
	q := w.queue(m.route)
	q.sent = append(q.sent, m)
	w.match(m.route)
	if !w.mode.replay && !m.done { // nobody waits for it yet
		m.x, m.done = Clone(x), true
	}
	w.yield(l.thread)
	return m
}

func (l localTransport) Recv(from, tag int, x Slice) Request {
	w := l.w
	w.mu.Lock()
	defer w.mu.Unlock()
	m := &message{w: w, route: route{from, l.rank, l.channel, tag}, x: x, thread: l.thread}
	if w.mode.replay {
		poison(x)
	}
	q := w.queue(m.route)
	q.receives = append(q.receives, m)
	w.match(m.route)
	w.yield(l.thread)
	return m
}

// Open has nothing to do.
func (l localTransport) Open(int) error { return nil }

// Channel is the same thread's view of a channel.
func (l localTransport) Channel(i int) Transport {
	l.channel = i
	return l
}

func (w *world) queue(r route) *queue {
	if w.queues[r] == nil {
		w.queues[r] = &queue{}
		w.routes = append(w.routes, r)
	}
	return w.queues[r]
}

// match lets what was sent on a route arrive where it is wanted; in a replay the
// scheduler does.
func (w *world) match(r route) {
	if !w.mode.replay {
		for q := w.queues[r]; len(q.sent) > 0 && len(q.receives) > 0 && !q.sent[0].delayed; {
			w.arrive(q)
		}
	}
}

// arrive lets the first message of a queue arrive.
func (w *world) arrive(q *queue) {
	from, to := q.sent[0], q.receives[0]
	q.sent, q.receives = q.sent[1:], q.receives[1:]
	if !Copy(to.x, from.x) {
		w.fail(to.to, fmt.Errorf("wants %T of %d bytes from rank %d with tag %d, which sent %T of %d bytes", to.x, Bytes(to.x), from.from, to.tag, from.x, Bytes(from.x)))
	}
	from.done, to.done = true, true
	w.log.add('m', from.from, to.to)
	w.wake[from.thread].Signal()
	w.wake[to.thread].Signal()
}

// newThread adds a thread, in the place of one that has ended if there is one.
func (w *world) newThread(rank int) int {
	for i, s := range w.state {
		if i >= w.n && s.finished {
			w.state[i] = threadState{rank: rank}
			return i
		}
	}
	w.state, w.wake = append(w.state, threadState{rank: rank}), append(w.wake, sync.NewCond(&w.mu))
	return len(w.state) - 1
}

// enter is the start of a rank: in a replay all wait for the scheduler.
func (w *world) enter(rank int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state[rank].entered = true
	if !w.mode.replay {
		return
	}
	for _, s := range w.state {
		if !s.entered {
			w.awaitTurn(rank)
			return
		}
	}
	w.schedule()
	w.awaitTurn(rank)
}

// awaitTurn waits until the scheduler lets a thread run.
func (w *world) awaitTurn(thread int) {
	for w.running != thread && w.failed == nil {
		w.wake[thread].Wait()
	}
}

// leave is the end of a rank.
func (w *world) leave(rank int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.fail(rank, err)
	}
	w.end(rank)
}

// end is the end of a thread.
func (w *world) end(thread int) {
	w.state[thread].finished = true
	if w.mode.replay && w.failed == nil {
		w.schedule()
	}
	w.failDeadlock()
}

// fail ends a run for all ranks.
func (w *world) fail(rank int, err error) {
	if w.failed == nil {
		w.failed = fmt.Errorf("rank %d: %w", rank, err)
		if w.mode.replay {
			w.failed = fmt.Errorf("%v: %w", w.mode, w.failed)
		}
	}
	for _, c := range w.wake {
		c.Broadcast()
	}
}

// yield lets the scheduler draw who runs now.
func (w *world) yield(thread int) {
	if w.mode.replay && w.failed == nil {
		w.schedule()
		w.awaitTurn(thread)
	}
}

// schedule draws what happens next in a replay: a message arrives, any number of times,
// or a thread runs.
func (w *world) schedule() {
	for w.failed == nil {
		var routes []route
		for _, r := range w.routes {
			if q := w.queues[r]; len(q.sent) > 0 && len(q.receives) > 0 {
				routes = append(routes, r)
			}
		}
		var threads []int
		for i, s := range w.state {
			if !s.finished && !s.isBlocked() {
				threads = append(threads, i)
			}
		}
		if len(routes)+len(threads) == 0 {
			w.failDeadlock()
			return
		}
		i := w.rng.IntN(len(routes) + len(threads))
		if i < len(routes) {
			w.arrive(w.queues[routes[i]])
			continue
		}
		w.running = threads[i-len(routes)]
		w.log.add('r', w.running, 0)
		w.wake[w.running].Signal()
		return
	}
}

// failDeadlock ends a run in which all ranks wait for what cannot come.
func (w *world) failDeadlock() {
	waiting := 0
	for _, s := range w.state {
		switch {
		case !s.finished && (!s.entered || !s.isBlocked()):
			return
		case !s.finished:
			waiting++
		}
	}
	if waiting == 0 || w.failed != nil || w.late > 0 {
		return
	}
	if w.mode.replay { // something may still arrive
		for _, q := range w.queues {
			if len(q.sent) > 0 && len(q.receives) > 0 {
				return
			}
		}
	}
	var who []string
	first := -1
	for _, s := range w.state {
		if !s.finished {
			if first < 0 {
				first = s.rank
			}
			who = append(who, fmt.Sprintf("rank %d %v", s.rank, s.waits))
		}
	}
	w.fail(first, fmt.Errorf("all ranks wait: %s", strings.Join(who, ", ")))
}

// String tells what a rank waits for.
func (m *message) String() string {
	if m.isSend {
		return fmt.Sprintf("for rank %d to receive, tag %d", m.to, m.tag)
	}
	return fmt.Sprintf("for a message of rank %d, tag %d", m.from, m.tag)
}

// unreceived is the error of messages that nobody received.
func (w *world) unreceived() error {
	var err error
	for _, r := range w.routes {
		for _, m := range w.queues[r].sent {
			err = errors.Join(err, fmt.Errorf("a message of rank %d to rank %d with tag %d was never received", m.from, m.to, m.tag))
		}
	}
	return err
}

// Wait waits for the message.
func (m *message) Wait() error {
	w := m.w
	w.mu.Lock()
	defer w.mu.Unlock()
	w.block(m.thread, m)
	if m.done {
		return nil
	}
	why := "the run has failed"
	if w.failed == nil {
		why = "what waits for it was cancelled"
	}
	return &RankError{m.other(), fmt.Errorf("%s: %w", why, context.Canceled)}
}

// block lets a thread wait until something is ready or the run has failed.
func (w *world) block(thread int, a waitTarget) {
	w.state[thread].waits = a
	w.yield(thread)
	for !a.ready() && w.failed == nil {
		w.failDeadlock()
		if w.failed == nil {
			w.wake[thread].Wait()
		}
	}
	w.state[thread].waits = nil
}

// Test tells whether the message has arrived.
func (m *message) Test() bool {
	w := m.w
	w.mu.Lock()
	defer w.mu.Unlock()
	w.yield(m.thread)
	return m.done
}

// localTask is a thread beside that of a rank.
type localTask struct {
	w      *world
	thread int
	ended  bool
}

func (t *localTask) ready() bool { return t.ended }

// String tells what somebody waits for.
func (t *localTask) String() string { return "for its own task" }

// Go starts a thread.
func (l localTransport) Go(f func(Transport)) RunningTask {
	w := l.w
	w.mu.Lock()
	defer w.mu.Unlock()
	t := &localTask{w: w, thread: w.newThread(l.rank)}
	w.state[t.thread].entered = true
	go func() {
		if w.mode.replay {
			w.mu.Lock()
			w.awaitTurn(t.thread)
			w.mu.Unlock()
		}
		f(localTransport{w: w, rank: l.rank, thread: t.thread})
		w.mu.Lock()
		defer w.mu.Unlock()
		t.ended = true
		w.end(t.thread)
		for i, s := range w.state {
			if s.waits == t {
				w.wake[i].Broadcast()
			}
		}
	}()
	w.yield(l.thread)
	return t
}

// Wait waits for the end of the thread, also when the run has failed.
func (t *localTask) Wait(by Transport) {
	w, thread := t.w, by.(localTransport).thread
	w.mu.Lock()
	defer w.mu.Unlock()
	w.block(thread, t)
	w.state[thread].waits = t // to be woken
	for !t.ended {
		w.wake[thread].Wait()
	}
	w.state[thread].waits = nil
}

// Cancel lets what the thread waits for fail.
func (t *localTask) Cancel() {
	w := t.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if !t.ended {
		w.state[t.thread].canceled = true
		w.wake[t.thread].Broadcast()
	}
}
