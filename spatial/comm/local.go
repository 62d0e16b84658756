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
}

// Free lets all ranks run at once; a message is copied when it is sent.
var Free = Mode{}

// Replay lets one rank run at a time, and draws from the seed who goes on and which
// message arrives. A send is done only when its message has arrived, and what is
// received is NaN until then.
func Replay(seed uint64) Mode { return Mode{true, seed} }

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
	w := &world{mode: m, n: n, rng: rand.New(rand.NewPCG(m.seed, 0x656e73)), queues: map[route]*queue{}, state: make([]status, n), running: -1}
	w.wake = make([]*sync.Cond, n)
	for r := range w.wake {
		w.wake[r] = sync.NewCond(&w.mu)
	}
	var all sync.WaitGroup
	for r := range n {
		all.Add(1)
		go func() {
			defer all.Done()
			w.enter(r)
			w.leave(r, call(f, New(local{w, r})))
		}()
	}
	all.Wait()
	if w.failed == nil {
		w.failed = w.leftOver()
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
type route struct{ from, to, tag int }

// queue holds what is under way on a route: messages or receivers, in order, and in
// a replay how many of the messages have arrived.
type queue struct {
	sent, wanted []*message
}

// message is one side of it: what is sent, or room for it.
type message struct {
	w *world
	route
	x     Slice
	sends bool // or receives
	done  bool
}

// rank is whose side it is, other who is at the other end.
func (m *message) rank() int {
	if m.sends {
		return m.from
	}
	return m.to
}

func (m *message) other() int { return m.from + m.to - m.rank() }

type status struct {
	waits    *message // what the rank waits for
	finished bool
	entered  bool
}

// world is what the ranks of a Run share, guarded by mu.
type world struct {
	mu      sync.Mutex
	mode    Mode
	n       int
	rng     *rand.Rand
	queues  map[route]*queue
	order   []route // of queues, as they came up
	state   []status
	wake    []*sync.Cond
	running int // in a replay, who runs; −1 before the start
	failed  error
	log     events
}

// events is a hash of what happened.
type events struct{ sum uint64 }

func (e *events) add(kind byte, a, b int) {
	h := fnv.New64a()
	fmt.Fprint(h, e.sum, kind, a, b)
	e.sum = h.Sum64()
}

// Sum64 is the hash so far.
func (e *events) Sum64() uint64 { return e.sum }

// local is a rank's view of a world.
type local struct {
	w    *world
	rank int
}

func (l local) Rank() int { return l.rank }
func (l local) Size() int { return l.w.n }

func (l local) Send(to, tag int, x Slice) Request {
	w := l.w
	w.mu.Lock()
	defer w.mu.Unlock()
	m := &message{w: w, route: route{l.rank, to, tag}, x: x, sends: true}
	if !w.mode.replay {
		m.x, m.done = Clone(x), true
	}
	q := w.queue(m.route)
	q.sent = append(q.sent, m)
	w.match(m.route)
	w.yield(l.rank)
	return m
}

func (l local) Recv(from, tag int, x Slice) Request {
	w := l.w
	w.mu.Lock()
	defer w.mu.Unlock()
	m := &message{w: w, route: route{from, l.rank, tag}, x: x}
	if w.mode.replay {
		poison(x)
	}
	q := w.queue(m.route)
	q.wanted = append(q.wanted, m)
	w.match(m.route)
	w.yield(l.rank)
	return m
}

func (w *world) queue(r route) *queue {
	if w.queues[r] == nil {
		w.queues[r] = &queue{}
		w.order = append(w.order, r)
	}
	return w.queues[r]
}

// match lets what was sent on a route arrive where it is wanted; in a replay the
// scheduler does.
func (w *world) match(r route) {
	if !w.mode.replay {
		for q := w.queues[r]; len(q.sent) > 0 && len(q.wanted) > 0; {
			w.arrive(q)
		}
	}
}

// arrive lets the first message of a queue arrive.
func (w *world) arrive(q *queue) {
	from, to := q.sent[0], q.wanted[0]
	q.sent, q.wanted = q.sent[1:], q.wanted[1:]
	if !Copy(to.x, from.x) {
		w.fail(to.to, fmt.Errorf("wants %T of %d bytes from rank %d with tag %d, which sent %T of %d bytes", to.x, Bytes(to.x), from.from, to.tag, from.x, Bytes(from.x)))
	}
	from.done, to.done = true, true
	w.log.add('m', from.from, to.to)
	w.wake[from.from].Signal()
	w.wake[to.to].Signal()
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
			w.await(rank)
			return
		}
	}
	w.pick()
	w.await(rank)
}

// await waits until the scheduler lets a rank run.
func (w *world) await(rank int) {
	for w.running != rank && w.failed == nil {
		w.wake[rank].Wait()
	}
}

// leave is the end of a rank.
func (w *world) leave(rank int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state[rank].finished = true
	if err != nil {
		w.fail(rank, err)
	}
	if w.mode.replay && w.failed == nil {
		w.pick()
	}
	w.stuck()
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
func (w *world) yield(rank int) {
	if w.mode.replay && w.failed == nil {
		w.pick()
		w.await(rank)
	}
}

// pick draws what happens next in a replay: a message arrives, any number of times,
// or a rank runs.
func (w *world) pick() {
	for w.failed == nil {
		var routes []route
		for _, r := range w.order {
			if q := w.queues[r]; len(q.sent) > 0 && len(q.wanted) > 0 {
				routes = append(routes, r)
			}
		}
		var ranks []int
		for r, s := range w.state {
			if !s.finished && (s.waits == nil || s.waits.done) {
				ranks = append(ranks, r)
			}
		}
		if len(routes)+len(ranks) == 0 {
			w.stuck()
			return
		}
		i := w.rng.IntN(len(routes) + len(ranks))
		if i < len(routes) {
			w.arrive(w.queues[routes[i]])
			continue
		}
		w.running = ranks[i-len(routes)]
		w.log.add('r', w.running, 0)
		w.wake[w.running].Signal()
		return
	}
}

// stuck ends a run in which all ranks wait for what cannot come.
func (w *world) stuck() {
	waiting := 0
	for _, s := range w.state {
		switch {
		case !s.entered || !s.finished && (s.waits == nil || s.waits.done):
			return
		case !s.finished:
			waiting++
		}
	}
	if waiting == 0 || w.failed != nil {
		return
	}
	if w.mode.replay { // something may still arrive
		for _, q := range w.queues {
			if len(q.sent) > 0 && len(q.wanted) > 0 {
				return
			}
		}
	}
	var who []string
	first := -1
	for r, s := range w.state {
		if !s.finished {
			if first < 0 {
				first = r
			}
			who = append(who, fmt.Sprintf("rank %d %v", r, s.waits))
		}
	}
	w.fail(first, fmt.Errorf("all ranks wait: %s", strings.Join(who, ", ")))
}

// String tells what a rank waits for.
func (m *message) String() string {
	if m.sends {
		return fmt.Sprintf("for rank %d to receive, tag %d", m.to, m.tag)
	}
	return fmt.Sprintf("for a message of rank %d, tag %d", m.from, m.tag)
}

// leftOver is the error of messages that nobody received.
func (w *world) leftOver() error {
	var err error
	for _, r := range w.order {
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
	rank := m.rank()
	w.state[rank].waits = m
	defer func() { w.state[rank].waits = nil }()
	w.yield(rank)
	for !m.done && w.failed == nil {
		w.stuck()
		if w.failed == nil {
			w.wake[rank].Wait()
		}
	}
	if m.done {
		return nil
	}
	return &RankError{m.other(), fmt.Errorf("the run has failed: %w", context.Canceled)}
}

// Test tells whether the message has arrived.
func (m *message) Test() bool {
	w := m.w
	w.mu.Lock()
	defer w.mu.Unlock()
	w.yield(m.rank())
	return m.done
}
