package partial

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Tags of messages.
const (
	tagNotice = iota // to other ranks: an operation has started
	tagReady         // to the own progress task: the contribution to all steps before one is in the buffer
	tagResult        // to the own compute goroutine: an operation is done, or failed
)

// notices are the messages about starts of operations between the progress tasks.
//
// A rank waits for the notices of the next len(groups) operations at once, because a rank of
// a later group may be ahead. Between two ranks of a group notices arrive in the order of
// steps, so one receive for each suffices.
type notices struct {
	schedule
	posted  []*notice // receives in progress, in the order of steps
	next    int       // the receives of all earlier steps have been posted
	started int       // this operation, and all earlier ones, are known to have started
	sent    []comm.Request
}

// notice is the receive of a notice.
type notice struct {
	step    int
	value   []int64 // the step, as received
	request comm.Request
}

// post posts the receives that are missing for the operations from a step on.
func (n *notices) post(step int) {
	end := min(step+len(n.groups), n.nextSynchronous(step))
	for n.next = max(n.next, step); n.next < end; n.next++ {
		from, _ := n.peers(n.next)
		for _, r := range from {
			value := make([]int64, 1)
			n.posted = append(n.posted, &notice{n.next, value, n.group(n.next).Recv(r, tagNotice, value)})
		}
	}
}

// requests returns the receives in progress.
func (n *notices) requests() []comm.Request {
	var all []comm.Request
	for _, p := range n.posted {
		all = append(all, p.request)
	}
	return all
}

// arrive removes the i-th receive, which is done, and notes that its operation has started.
//
// Errors: a notice of another step, which would be an error of the protocol.
func (n *notices) arrive(i int) error {
	p := n.posted[i]
	n.posted = slices.Delete(n.posted, i, i+1)
	if p.value[0] != int64(p.step) {
		return fmt.Errorf("notice of step %d, want %d", p.value[0], p.step)
	}
	n.started = max(n.started, p.step)
	return nil
}

// send starts to send the notices of an operation, which this rank now takes part in.
func (n *notices) send(step int) {
	_, to := n.peers(step)
	for _, r := range to {
		n.sent = append(n.sent, n.group(step).Send(r, tagNotice, []int64{int64(step)}))
	}
}

// finish waits for the other notices of an operation that is done. All ranks of the group
// have sent them before they took part.
func (n *notices) finish(step int) error {
	for len(n.posted) > 0 && n.posted[0].step == step {
		if err := n.posted[0].request.Wait(); err != nil {
			return err
		}
		if err := n.arrive(0); err != nil {
			return err
		}
	}
	sent := n.sent
	n.sent = nil
	return comm.WaitAll(sent...)
}
