package comm

import (
	"fmt"
	"sync"
	"time"
)

// Host calls f on the ranks of a job of that many parts, of which each process, a rank of
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
func Host(c *Comm, parts int, f func(*Comm) error) error {
	n, me := c.Size(), c.Rank()
	if parts < n {
		return fmt.Errorf("hosting %d parts on %d processes: some would have none", parts, n)
	}
	processes, ok := c.t.(Channeled)
	if !ok {
		return fmt.Errorf("hosting %d parts: a %T has no channels", parts, c.t)
	}
	h := &host{cuts: Even(parts, n), process: make([]int, parts), running: map[*hostedTask]bool{}}
	for r := range n {
		for part := h.cuts[r]; part < h.cuts[r+1]; part++ {
			h.process[part] = r
		}
		h.most = max(h.most, h.cuts[r+1]-h.cuts[r])
	}
	if err := open(c, processes, h.most*h.most); err != nil {
		return fmt.Errorf("hosting %d parts on %d processes: %w", parts, n, err)
	}
	var own []Running
	for part := h.cuts[me]; part < h.cuts[me+1]; part++ {
		own = append(own, h.start(processes, func(t Channeled) {
			if err := call(f, New(hosted{h, part, t})); err != nil {
				h.fail(fmt.Errorf("part %d: %w", part, err))
			}
		}))
	}
	for _, r := range own {
		r.Wait(processes)
	}
	return h.failed
}

// open makes channels once all processes are there: within a library of MPI nobody would
// notice one that is lost.
func open(c *Comm, processes Channeled, channels int) error {
	if err := Barrier(c); err != nil {
		return err
	}
	return processes.Open(channels)
}

// host is what the parts of a process share.
type host struct {
	cuts    []int // process r runs the parts from cuts[r] to before cuts[r+1]
	process []int // by part
	most    int   // parts of a process

	mu      sync.Mutex
	running map[*hostedTask]bool
	failed  error
}

// start calls f in a goroutine of this process that ends soon when a part has failed.
func (h *host) start(t Channeled, f func(Channeled)) Running {
	k := &hostedTask{}
	k.Running = t.Go(func(own Transport) {
		f(own.(Channeled))
		h.mu.Lock()
		defer h.mu.Unlock()
		k.ended = true
		delete(h.running, k)
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failed != nil {
		k.Cancel()
	}
	if !k.ended {
		h.running[k] = true
	}
	return k
}

// fail lets all that runs on this process fail, because of err.
func (h *host) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failed == nil {
		h.failed = err
	}
	for k := range h.running {
		k.Cancel()
	}
}

// hosted is the transport of a part, or of a task of one.
type hosted struct {
	h    *host
	part int
	own  Channeled // of this goroutine
}

var _ Concurrent = hosted{}

func (p hosted) Rank() int { return p.part }
func (p hosted) Size() int { return len(p.h.process) }

// Patience is that of the process.
func (p hosted) Patience() time.Duration {
	if t, ok := p.own.(patient); ok {
		return t.Patience()
	}
	return 0
}

// Send starts to send x to another part.
func (p hosted) Send(to, tag int, x Slice) Request {
	return p.between(p.part, to).Send(p.h.process[to], tag, x)
}

// Recv starts to receive x from another part.
func (p hosted) Recv(from, tag int, x Slice) Request {
	return p.between(from, p.part).Recv(p.h.process[from], tag, x)
}

// between is the channel of messages from one part to another: tags are used up to the
// last bit, and cannot tell parts of a process apart.
func (p hosted) between(from, to int) Transport {
	within := func(part int) int { return part - p.h.cuts[p.h.process[part]] }
	return p.own.Channel(within(from)*p.h.most + within(to))
}

// Go calls f in a goroutine.
func (p hosted) Go(f func(Transport)) Running {
	return p.h.start(p.own, func(own Channeled) { f(hosted{p.h, p.part, own}) })
}

// hostedTask is a goroutine of a part.
type hostedTask struct {
	Running
	ended bool // guarded by the host's mu
}

// Wait waits for its end.
func (k *hostedTask) Wait(by Transport) {
	if p, ok := by.(hosted); ok {
		by = p.own
	}
	k.Running.Wait(by)
}

// Process is the number, as the launcher counts, of the process that runs a rank of the
// group. It is that of the rank in the job, unless processes have several parts.
func (c *Comm) Process(rank int) int {
	if p, ok := c.t.(hosted); ok {
		return p.h.process[c.JobRank(rank)]
	}
	return c.JobRank(rank)
}
