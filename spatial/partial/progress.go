package partial

import (
	"context"
	"errors"
	"fmt"

	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// progress is the state of the progress task of a rank. It serves one operation after the
// other.
type progress struct {
	*sequence
	notices   notices
	all       *comm.Comm // all ranks
	own       *comm.Comm // messages between the goroutines of the rank
	ready     comm.Request
	readyStep []int64
	arrived   int // the compute goroutine has contributed what it has to the steps before this one
	announced []comm.Request
}

// newProgress returns the state at the first step of a run, for the goroutine of g.
func newProgress(q *sequence, g *comm.Comm, first int) *progress {
	p := &progress{sequence: q, all: g, own: q.own.In(g), arrived: first, readyStep: make([]int64, 1)}
	p.notices = notices{schedule: q.schedule.in(g), started: first - 1}
	p.expect()
	return p
}

// expect posts the receive for the next contribution of the run.
func (p *progress) expect() {
	p.ready = nil
	if p.arrived <= p.last {
		p.ready = p.own.Recv(p.own.Rank(), tagReady, p.readyStep)
	}
}

// arrive notes a contribution, whose message is done.
func (p *progress) arrive() {
	p.arrived = int(p.readyStep[0])
	p.expect()
}

// run serves the operations from the first step to the last one. It announces an error to the
// compute goroutine, which may wait for a result.
func (p *progress) run(first int) error {
	for step := first; step <= p.last; step++ {
		if err := p.serve(step); err != nil {
			if !errors.Is(err, context.Canceled) { // else the compute goroutine ends too
				p.own.Send(p.own.Rank(), tagResult, []int64{failed})
			}
			return fmt.Errorf("partial collective of step %d: %w", step, err)
		}
	}
	return comm.WaitAll(p.announced...)
}

// serve takes part in the operation of one step.
func (p *progress) serve(step int) error {
	synchronous := p.isSynchronous(step)
	group := p.all
	if !synchronous {
		group = p.notices.group(step)
	}
	switch {
	case p.replay != nil:
		if err := p.awaitOwn(p.replay.Versions[step]); err != nil {
			return err
		}
	case synchronous:
		if err := p.awaitOwn(step + 1); err != nil {
			return err
		}
	default:
		if err := p.activate(step); err != nil {
			return err
		}
	}
	r := p.snapshot(step)
	if err := comm.AllReduce(group, r.sum, p.algorithm); err != nil {
		return err
	}
	p.publish(r)
	return p.notices.finish(step)
}

// awaitOwn waits for the first n contributions of the compute goroutine.
func (p *progress) awaitOwn(n int) error {
	for p.arrived < n {
		if err := p.ready.Wait(); err != nil {
			return err
		}
		p.arrive()
	}
	return nil
}

// activate waits until an operation starts: because this rank has arrived and may start it, or
// because a notice arrives. Then it sends notices to others.
func (p *progress) activate(step int) error {
	p.notices.post(step)
	for p.notices.started < step {
		if p.arrived > step && p.startsAlone(step) {
			p.notices.started = step
			break
		}
		i, err := p.all.WaitAny(append([]comm.Request{p.ready}, p.notices.requests()...)...)
		if err != nil {
			return err
		}
		if i == 0 {
			p.arrive()
		} else if err := p.notices.arrive(i - 1); err != nil {
			return err
		}
	}
	p.notices.send(step)
	return nil
}

// snapshot takes the contribution of this rank from the send buffer.
func (p *progress) snapshot(step int) result {
	h := &p.shared
	spare := p.spare()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log.Versions = append(h.log.Versions, h.versions)
	included := h.versions > step
	return result{step, h.buffer.take(spare, included && h.computed == step), included}
}

// spare returns a vector of zeros.
func (p *progress) spare() []float32 {
	h := &p.shared
	h.mu.Lock()
	var x []float32
	if n := len(h.free); n > 0 {
		x, h.free = h.free[n-1], h.free[:n-1]
	}
	h.mu.Unlock()
	if x == nil {
		return make([]float32, p.values)
	}
	clear(x)
	return x
}

// publish passes a sum to the compute goroutine.
func (p *progress) publish(r result) {
	h := &p.shared
	h.mu.Lock()
	h.results = append(h.results, r)
	h.finished++
	h.mu.Unlock()
	p.announced = append(inProgress(p.announced), p.own.Send(p.own.Rank(), tagResult, []int64{int64(r.step)}))
}
