package comm

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
)

// Mode selects how Run schedules its ranks.
type Mode struct {
	replay bool   // run one rank at a time
	seed   uint64 // of the scheduler
	faults Faults
}

// Parallel runs all ranks in parallel. A send is done at once: the message is
// copied.
var Parallel = Mode{}

// Replay runs one rank at a time. The seed determines which rank runs next and
// which message arrives next. A send is done only when its message has arrived, and
// a receive buffer contains NaN until then, so that premature use of a buffer
// shows.
func Replay(seed uint64) Mode { return Mode{replay: true, seed: seed} }

// String describes the mode for error messages.
func (m Mode) String() string {
	if m.replay {
		return fmt.Sprintf("replay of seed %d", m.seed)
	}
	return "free"
}

// Run calls f on n ranks of this process and waits for all of them. If one returns
// an error or panics, the messages of the others fail.
//
// Errors: the first error of a rank, with its number; a deadlock, with the message
// that each rank waits for; messages that were never received.
func Run(n int, m Mode, f func(*Comm) error) error {
	_, err := run(n, m, f)
	return err
}

// run implements Run and also returns a hash of the events of a replay.
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

// call converts a panic of f into an error.
func call(f func(*Comm) error, c *Comm) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f(c)
}

// route identifies messages that keep their order.
type route struct{ from, to, channel, tag int }

// queue holds the posted sends and receives of a route that are not matched yet, in
// order.
type queue struct {
	sent, receives []*message
}

// message is one side of a message: a posted send or receive.
type message struct {
	w *world
	route
	x       Slice
	thread  int  // that posted it
	isSend  bool // a send, not a receive
	delayed bool // sent, but still delayed
	done    bool
}

// rank returns the rank that posted the message.
func (m *message) rank() int {
	if m.isSend {
		return m.from
	}
	return m.to
}

// other returns the peer.
func (m *message) other() int { return m.from + m.to - m.rank() }

// threadState is the state of a thread. The first n threads are the ranks, the
// others their tasks.
type threadState struct {
	rank     int
	waits    waitTarget // nil if it runs
	finished bool
	entered  bool
	canceled bool // its waits fail
}

// waitTarget is a condition that a thread waits for.
type waitTarget interface {
	ready() bool
	String() string
}

func (m *message) ready() bool { return m.done || m.w.state[m.thread].canceled }

// anyOf is met when one of several messages is ready.
type anyOf []*message

func (a anyOf) ready() bool { return slices.ContainsFunc(a, (*message).ready) }

// String describes the messages that the rank waits for.
func (a anyOf) String() string {
	var all []string
	for _, m := range a {
		all = append(all, m.String())
	}
	return strings.Join(all, " or ")
}

// isBlocked reports whether a thread waits for a condition that is not met.
func (s *threadState) isBlocked() bool { return s.waits != nil && !s.waits.ready() }

// world is the state that the ranks of a Run share, guarded by mu.
type world struct {
	mu      sync.Mutex
	mode    Mode
	n       int
	rng     *rand.Rand
	queues  map[route]*queue
	routes  []route        // routes in the order of their first use
	state   []threadState  // by thread
	wake    []*sync.Cond   // by thread
	running int            // the running thread of a replay; −1 before the start
	sent    map[[2]int]int // number of messages by sender and receiver
	late    int            // number of delayed messages
	failed  error
	log     eventHash
}

// eventHash is a running hash of events.
type eventHash struct{ sum uint64 }

func (e *eventHash) add(kind byte, a, b int) {
	h := fnv.New64a()
	fmt.Fprint(h, e.sum, kind, a, b)
	e.sum = h.Sum64()
}

// Sum64 returns the hash.
func (e *eventHash) Sum64() uint64 { return e.sum }

// localTransport is the transport of one thread of a rank.
type localTransport struct {
	w       *world
	rank    int
	thread  int
	channel int
}

var _ Channeled = localTransport{}

// Rank returns the rank of the caller.
func (l localTransport) Rank() int { return l.rank }

// Size returns the number of ranks.
func (l localTransport) Size() int { return l.w.n }

// Send posts a send. Unless it is matched at once, a parallel run copies x, so that
// the send is done.
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
	if !w.mode.replay && !m.done { // no receive is posted yet: copy
		m.x, m.done = Clone(x), true
	}
	w.yield(l.thread)
	return m
}

// Recv posts a receive. A replay first fills x with values that reveal a premature
// use.
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

// Open does nothing: channels need no resources.
func (l localTransport) Open(int) error { return nil }

// Channel returns the transport of the same thread on a channel.
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

// match delivers the sent messages of a route to posted receives. In a replay the
// scheduler delivers them.
func (w *world) match(r route) {
	if !w.mode.replay {
		for q := w.queues[r]; len(q.sent) > 0 && len(q.receives) > 0 && !q.sent[0].delayed; {
			w.arrive(q)
		}
	}
}

// arrive delivers the first message of a queue.
func (w *world) arrive(q *queue) {
	from, to := q.sent[0], q.receives[0]
	q.sent, q.receives = q.sent[1:], q.receives[1:]
	if !Copy(to.x, from.x) {
		w.fail(to.to, fmt.Errorf("message mismatch: posted %T of %d bytes from rank %d with tag %d, got %T of %d bytes", to.x, Bytes(to.x), from.from, to.tag, from.x, Bytes(from.x)))
	}
	from.done, to.done = true, true
	w.log.add('m', from.from, to.to)
	w.wake[from.thread].Signal()
	w.wake[to.thread].Signal()
}

// newThread adds a thread. It reuses the slot of a task that has ended.
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

// enter starts a rank. In a replay every rank waits for the scheduler.
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

// awaitTurn waits until the scheduler selects the thread.
func (w *world) awaitTurn(thread int) {
	for w.running != thread && w.failed == nil {
		w.wake[thread].Wait()
	}
}

// leave ends a rank with its error.
func (w *world) leave(rank int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.fail(rank, err)
	}
	w.end(rank)
}

// end marks a thread as finished.
func (w *world) end(thread int) {
	w.state[thread].finished = true
	if w.mode.replay && w.failed == nil {
		w.schedule()
	}
	w.failDeadlock()
}

// fail ends the run for all ranks with the first error.
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

// yield lets the scheduler of a replay choose the next thread.
func (w *world) yield(thread int) {
	if w.mode.replay && w.failed == nil {
		w.schedule()
		w.awaitTurn(thread)
	}
}

// schedule chooses the next event of a replay at random: any number of deliveries,
// then a thread to run.
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

// failDeadlock ends the run if it is in a deadlock: every thread waits and no
// message can arrive.
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
	if w.mode.replay { // a message can still be delivered
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
			who = append(who, fmt.Sprintf("rank %d waits %v", s.rank, s.waits))
		}
	}
	w.fail(first, fmt.Errorf("deadlock: %s", strings.Join(who, ", ")))
}

// String describes the message that the rank waits for.
func (m *message) String() string {
	if m.isSend {
		return fmt.Sprintf("for rank %d to receive, tag %d", m.to, m.tag)
	}
	return fmt.Sprintf("for a message from rank %d, tag %d", m.from, m.tag)
}

// unreceived returns the error of messages that were never received.
func (w *world) unreceived() error {
	var err error
	for _, r := range w.routes {
		for _, m := range w.queues[r].sent {
			err = errors.Join(err, fmt.Errorf("message from rank %d to rank %d with tag %d was never received", m.from, m.to, m.tag))
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
	return w.ended(m)
}

// ended returns the error of a wait for a message that did not arrive.
func (w *world) ended(m *message) error {
	why := "the run has failed"
	if w.failed == nil {
		why = "the waiting task was cancelled"
	}
	return &RankError{m.other(), fmt.Errorf("%s: %w", why, context.Canceled)}
}

// WaitAny waits for the first of several messages.
func (l localTransport) WaitAny(requests []Request) (int, error) {
	var all anyOf
	for _, r := range requests {
		all = append(all, r.(*message))
	}
	w := l.w
	w.mu.Lock()
	defer w.mu.Unlock()
	w.block(l.thread, all)
	if i := slices.IndexFunc(all, func(m *message) bool { return m.done }); i >= 0 {
		return i, nil
	}
	return -1, w.ended(all[0])
}

// block waits until a condition is met or the run has failed.
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

// Test reports whether the message has arrived.
func (m *message) Test() bool {
	w := m.w
	w.mu.Lock()
	defer w.mu.Unlock()
	w.yield(m.thread)
	return m.done
}

// localTask is an additional thread of a rank.
type localTask struct {
	w      *world
	thread int
	ended  bool
}

func (t *localTask) ready() bool { return t.ended }

// String describes the wait for a task.
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

// Wait waits for the end of the thread, even if the run has failed.
func (t *localTask) Wait(by Transport) {
	w, thread := t.w, by.(localTransport).thread
	w.mu.Lock()
	defer w.mu.Unlock()
	w.block(thread, t)
	w.state[thread].waits = t // so that the end of the task wakes it
	for !t.ended {
		w.wake[thread].Wait()
	}
	w.state[thread].waits = nil
}

// Cancel makes current and later waits of the thread fail.
func (t *localTask) Cancel() {
	w := t.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if !t.ended {
		w.state[t.thread].canceled = true
		w.wake[t.thread].Broadcast()
	}
}
