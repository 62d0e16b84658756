package comm

import "time"

// Task is what a rank does beside its other work.
type Task struct {
	running RunningTask // nil: it was done at once
	err     error
}

// Go starts f beside the caller's work, behind the task after unless that is nil. f has
// the group for itself until the task is waited for: its messages and those of the
// caller would mix (see Split). All ranks of the group start the same tasks in the same
// order. Where the transport is not Concurrent, f is done before Go returns.
//
// f does not run if the task before it failed; then its error is this one's too.
func (c *Comm) Go(after *Task, f func(c *Comm) error) *Task {
	t := new(Task)
	run := func(own Transport) {
		mine := *c
		mine.t, mine.clock = own, nil
		if t.err = after.wait(own); t.err == nil {
			t.err = f(&mine)
		}
	}
	if many, ok := c.t.(Concurrent); ok {
		t.running = many.Go(run)
	} else {
		run(c.t)
	}
	return t
}

// Wait waits until the task is done; by is any group of the goroutine that waits.
//
// Errors: those of what it does, or of the task before it.
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

// Cancel lets the messages of the task fail, so that it ends soon. It must still be
// waited for, and the group cannot be used again.
func (t *Task) Cancel() {
	if t.running != nil {
		t.running.Cancel()
	}
}
