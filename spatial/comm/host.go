package comm

import (
	"fmt"
	"sync"
	"time"
)

// HostRanks calls f on the ranks of a job that is larger than the number of
// processes. Each process, a rank of c, runs a consecutive range of ranks as
// goroutines: process r of P runs the ranks from r·ranks/P to (r+1)·ranks/P. The
// job that f sees does not depend on P. All processes call Host together, and c
// must be the whole job and idle meanwhile.
//
// If one rank returns an error or panics, the messages of all ranks of its process
// fail.
//
// Errors: the first error of a rank of this process, with its number; fewer ranks
// than processes; a transport that is not Channeled.
func HostRanks(c *Comm, ranks int, f func(*Comm) error) error {
	n, me := c.Size(), c.Rank()
	if ranks < n {
		return fmt.Errorf("hosting %d ranks on %d processes: every process needs at least one", ranks, n)
	}
	processes, ok := c.t.(Channeled)
	if !ok {
		return fmt.Errorf("hosting %d ranks: transport %T has no channels", ranks, c.t)
	}
	h := &rankHost{cuts: SplitEvenly(ranks, n), processOf: make([]int, ranks), running: map[*hostedTask]bool{}, shared: map[int]any{}}
	for r := range n {
		for rank := h.cuts[r]; rank < h.cuts[r+1]; rank++ {
			h.processOf[rank] = r
		}
		h.maxRanks = max(h.maxRanks, h.cuts[r+1]-h.cuts[r])
	}
	if err := openChannels(c, processes, h.maxRanks*h.maxRanks); err != nil {
		return fmt.Errorf("hosting %d ranks on %d processes: %w", ranks, n, err)
	}
	var own []RunningTask
	for rank := h.cuts[me]; rank < h.cuts[me+1]; rank++ {
		own = append(own, h.start(processes, func(t Channeled) {
			if err := call(f, New(hostedRank{h, rank, t})); err != nil {
				h.fail(fmt.Errorf("hosted rank %d: %w", rank, err))
			}
		}))
	}
	for _, r := range own {
		r.Wait(processes)
	}
	return h.failed
}

// openChannels creates channels after a barrier. MPI_Comm_dup waits within the
// library, where a lost rank would not be noticed.
func openChannels(c *Comm, processes Channeled, channels int) error {
	if err := Barrier(c); err != nil {
		return err
	}
	return processes.Open(channels)
}

// rankHost is the state that the ranks of a process share.
type rankHost struct {
	cuts      []int // process r runs the ranks [cuts[r], cuts[r+1])
	processOf []int // by rank
	maxRanks  int   // largest number of ranks of a process

	mu      sync.Mutex
	running map[*hostedTask]bool // tasks that have not ended
	failed  error                // first error
	shared  map[int]any          // by rank: what it gives to other ranks of the process
}

// start calls f in a goroutine of this process. It is cancelled when a rank of the
// process fails.
func (h *rankHost) start(t Channeled, f func(Channeled)) RunningTask {
	k := &hostedTask{}
	k.RunningTask = t.Go(func(own Transport) {
		f(own.(Channeled))
		h.mu.Lock()
		defer h.mu.Unlock()
		k.hasEnded = true
		delete(h.running, k)
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failed != nil {
		k.Cancel()
	}
	if !k.hasEnded {
		h.running[k] = true
	}
	return k
}

// fail records the first error and cancels all tasks of this process.
func (h *rankHost) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failed == nil {
		h.failed = err
	}
	for k := range h.running {
		k.Cancel()
	}
}

// hostedRank is the transport of a hosted rank, or of one of its tasks.
type hostedRank struct {
	h         *rankHost
	rank      int
	transport Channeled // of this goroutine
}

var _ Concurrent = hostedRank{}

// Rank returns the rank of the caller.
func (p hostedRank) Rank() int { return p.rank }

// Size returns the number of ranks.
func (p hostedRank) Size() int { return len(p.h.processOf) }

// StallTimeout returns the stall timeout of the process.
func (p hostedRank) StallTimeout() time.Duration {
	if t, ok := p.transport.(stallTimer); ok {
		return t.StallTimeout()
	}
	return 0
}

// MoveInBackground asks the transport of the process.
func (p hostedRank) MoveInBackground() {
	if t, ok := p.transport.(backgroundMover); ok {
		t.MoveInBackground()
	}
}

// Send starts to send x to another rank.
func (p hostedRank) Send(to, tag int, x Slice) Request {
	return p.channel(p.rank, to).Send(p.h.processOf[to], tag, x)
}

// Recv starts to receive x from another rank.
func (p hostedRank) Recv(from, tag int, x Slice) Request {
	return p.channel(from, p.rank).Recv(p.h.processOf[from], tag, x)
}

// WaitAny waits for the first of several messages.
func (p hostedRank) WaitAny(requests []Request) (int, error) { return p.transport.WaitAny(requests) }

// channel returns the channel of the messages between two ranks. All bits of a tag
// are in use, so tags cannot distinguish the ranks of a process; channels do.
func (p hostedRank) channel(from, to int) Transport {
	within := func(rank int) int { return rank - p.h.cuts[p.h.processOf[rank]] }
	return p.transport.Channel(within(from)*p.h.maxRanks + within(to))
}

// Go calls f in a goroutine.
func (p hostedRank) Go(f func(Transport)) RunningTask {
	return p.h.start(p.transport, func(own Channeled) { f(hostedRank{p.h, p.rank, own}) })
}

// hostedTask is a goroutine of a hosted rank.
type hostedTask struct {
	RunningTask
	hasEnded bool // guarded by the host's mu
}

// Wait waits for the end of the goroutine.
func (k *hostedTask) Wait(by Transport) {
	if p, ok := by.(hostedRank); ok {
		by = p.transport
	}
	k.RunningTask.Wait(by)
}

// Process returns the number of the process that runs a rank of the group, as the
// launcher counts processes.
func (c *Comm) Process(rank int) int {
	if p, ok := c.t.(hostedRank); ok {
		return p.h.processOf[c.WorldRank(rank)]
	}
	return c.WorldRank(rank)
}

// ShareInProcess returns the value of the rank from, which the process of this rank runs too, itself and not a copy. All ranks
// of c call it together, each with its own value.
//
// Errors: a rank of another process; those of Barrier.
func ShareInProcess[T any](c *Comm, from int, own T) (T, error) {
	p, hosted := c.t.(hostedRank)
	if hosted {
		p.h.mu.Lock()
		p.h.shared[p.rank] = own
		p.h.mu.Unlock()
	}
	if err := Barrier(c); err != nil {
		return own, err
	}
	var err error
	x := own
	if from != c.Rank() {
		if c.Process(from) != c.Process(c.Rank()) {
			err = fmt.Errorf("rank %d cannot share memory with rank %d of another process", c.Rank(), from)
		} else {
			p.h.mu.Lock()
			x = p.h.shared[c.WorldRank(from)].(T)
			p.h.mu.Unlock()
		}
	}
	if e := Barrier(c); e != nil {
		return own, e
	}
	if hosted {
		p.h.mu.Lock()
		delete(p.h.shared, p.rank)
		p.h.mu.Unlock()
	}
	return x, err
}
