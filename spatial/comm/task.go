package comm

import "time"

// Task is work that runs concurrently with other work of a rank.
type Task struct {
	running RunningTask // nil if it ran synchronously
	err     error
}

// Go starts f concurrently, after the task after has ended unless that is nil.
// Until the task is waited for, f alone may use the group: its messages and the
// caller's would mix (use Split). All ranks of the group start the same tasks in
// the same order. If the transport is not Concurrent, f runs before Go returns.
//
// If the task after fails, f does not run, and this task has the same error.
func (c *Comm) Go(after *Task, f func(c *Comm) error) *Task {
	t := new(Task)
	run := func(own Transport) {
		mine := *c
		mine.t, mine.clock = own, nil
		if t.err = after.wait(own); t.err != nil {
			return
		}
		begin, before := time.Now(), c.GroupTraffic().Bytes
		t.err = f(&mine)
		if c.clock.isRecording() {
			c.clock.spans.add(Span{Kind: TaskSpan, Peer: -1, Bytes: c.GroupTraffic().Bytes - before, Begin: begin})
		}
	}
	if many, ok := c.t.(Concurrent); ok {
		t.running = many.Go(run)
	} else {
		run(c.t)
	}
	return t
}

// In returns the group c for the goroutine of another group of this rank, the one that Go
// passed to it. Two goroutines may use a group at the same time if only one of them calls
// collectives, and if they wait for different messages: so a rank sends messages to its own
// tasks.
func (c *Comm) In(other *Comm) *Comm {
	g := *c
	g.t, g.clock = other.t, other.clock
	return &g
}

// Wait waits until the task has ended; by is any group of the calling goroutine.
//
// Errors: that of f, or of the task before it.
func (t *Task) Wait(by *Comm) error {
	defer by.clock.addSince(time.Now())
	return t.wait(by.t)
}

func (t *Task) wait(by Transport) error {
	if t == nil {
		return nil
	}
	if t.running != nil {
		t.running.Wait(by)
	}
	return t.err
}

// Cancel makes the messages of the task fail, so that it ends soon. The caller must
// still wait for it. The group cannot be used afterwards.
func (t *Task) Cancel() {
	if t.running != nil {
		t.running.Cancel()
	}
}
