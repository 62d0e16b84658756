package comm

import (
	"fmt"
	"sync"
	"time"
)

// HostRanks calls f on the ranks of a job of that many parts, of which each process, a rank of
// c, runs a consecutive range: process r of P the parts from r·parts/P to before
// (r+1)·parts/P. What f sees is a job of as many ranks as there are parts, which does
// not depend on P. All processes call it together, with at least as many parts as
// there are processes; c is the whole job, and idle meanwhile.
//
// When a part returns an error or panics, the messages of the other parts of its process
// fail.
//
// Errors: the first of a part of this process, with its number; fewer parts than
// processes; a transport that is not Channeled.
func HostRanks(c *Comm, parts int, f func(*Comm) error) error {
	n, me := c.Size(), c.Rank()
	if parts < n {
		return fmt.Errorf("hosting %d parts on %d processes: some would have none", parts, n)
	}
	processes, ok := c.t.(Channeled)
	if !ok {
		return fmt.Errorf("hosting %d parts: a %T has no channels", parts, c.t)
	}
	h := &rankHost{cuts: SplitEvenly(parts, n), processOf: make([]int, parts), running: map[*hostedTask]bool{}}
	for r := range n {
		for part := h.cuts[r]; part < h.cuts[r+1]; part++ {
			h.processOf[part] = r
		}
		h.maxRanks = max(h.maxRanks, h.cuts[r+1]-h.cuts[r])
	}
	if err := openChannels(c, processes, h.maxRanks*h.maxRanks); err != nil {
		return fmt.Errorf("hosting %d parts on %d processes: %w", parts, n, err)
	}
	var own []RunningTask
	for part := h.cuts[me]; part < h.cuts[me+1]; part++ {
		own = append(own, h.start(processes, func(t Channeled) {
			if err := call(f, New(hostedRank{h, part, t})); err != nil {
				h.fail(fmt.Errorf("part %d: %w", part, err))
			}
		}))
	}
	for _, r := range own {
		r.Wait(processes)
	}
	return h.failed
}

// openChannels makes channels once all processes are there: within a library of MPI nobody would
// notice one that is lost.
func openChannels(c *Comm, processes Channeled, channels int) error {
	if err := Barrier(c); err != nil {
		return err
	}
	return processes.Open(channels)
}

// rankHost is what the parts of a process share.
type rankHost struct {
	cuts      []int // process r runs the parts from cuts[r] to before cuts[r+1]
	processOf []int // by part
	maxRanks  int   // parts of a process

	mu      sync.Mutex
	running map[*hostedTask]bool
	failed  error
}

// start calls f in a goroutine of this process that ends soon when a part has failed.
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

// fail lets all that runs on this process fail, because of err.
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

// hostedRank is the transport of a part, or of a task of one.
type hostedRank struct {
	h         *rankHost
	rank      int
	transport Channeled // of this goroutine
}

var _ Concurrent = hostedRank{}

func (p hostedRank) Rank() int { return p.rank }
func (p hostedRank) Size() int { return len(p.h.processOf) }

// StallTimeout is that of the process.
func (p hostedRank) StallTimeout() time.Duration {
	if t, ok := p.transport.(stallTimer); ok {
		return t.StallTimeout()
	}
	return 0
}

// Send starts to send x to another part.
func (p hostedRank) Send(to, tag int, x Slice) Request {
	return p.channel(p.rank, to).Send(p.h.processOf[to], tag, x)
}

// Recv starts to receive x from another part.
func (p hostedRank) Recv(from, tag int, x Slice) Request {
	return p.channel(from, p.rank).Recv(p.h.processOf[from], tag, x)
}

// channel is the channel of messages from one part to another: tags are used up to the
// last bit, and cannot tell parts of a process apart.
func (p hostedRank) channel(from, to int) Transport {
	within := func(part int) int { return part - p.h.cuts[p.h.processOf[part]] }
	return p.transport.Channel(within(from)*p.h.maxRanks + within(to))
}

// Go calls f in a goroutine.
func (p hostedRank) Go(f func(Transport)) RunningTask {
	return p.h.start(p.transport, func(own Channeled) { f(hostedRank{p.h, p.rank, own}) })
}

// hostedTask is a goroutine of a part.
type hostedTask struct {
	RunningTask
	hasEnded bool // guarded by the host's mu
}

// Wait waits for its end.
func (k *hostedTask) Wait(by Transport) {
	if p, ok := by.(hostedRank); ok {
		by = p.transport
	}
	k.RunningTask.Wait(by)
}

// Process is the number, as the launcher counts, of the process that runs a rank of the
// group. It is that of the rank in the job, unless processes have several parts.
func (c *Comm) Process(rank int) int {
	if p, ok := c.t.(hostedRank); ok {
		return p.h.processOf[c.WorldRank(rank)]
	}
	return c.WorldRank(rank)
}
