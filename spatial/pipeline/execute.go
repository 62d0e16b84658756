package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// computer computes the passes of a worker's stages for one piece. Messages hold the values of a cut, one after the other, of
// type float32, or comm.SizeOnly if they are only simulated. A slice is nil where there is no message.
type computer[T any] interface {
	// forward sets out, what the stage sends forward, from in, what it received.
	forward(pipe, piece int, in, out []T) error
	// backward sets inGrad, the gradients of in, from outGrad, those of out.
	backward(pipe, piece int, in, outGrad, inGrad []T) error
}

// executor runs the tasks of one worker of a schedule, in their order, with messages between ranks of a group: rank w is
// worker w. A worker posts the receives of its next task before it computes a task. It never waits for a send before the end of
// the step, so it waits for nothing but tasks that its own depends on: since the schedule has no cycle, there is no deadlock, in
// whatever order messages arrive.
type executor[T any] struct {
	c       *comm.Comm
	s       *Schedule
	do      computer[T]
	lengths [2][]int                                            // by forward or backward pass and cut: elements of a message of one piece
	between func(task int) error                                // before each task of the worker, and after the last; may be nil
	measure func(t Task, piece int, compute func() error) error // runs a pass; nil means without measuring
	kept    map[[2]int][]T                                      // by pipe and piece: what a stage received forward
	posted  map[messageKey]posted[T]
	sent    []posted[T]
	free    map[int][][]T // buffers by length
}

// messageKey identifies a message that a worker receives: the pass and stage that read it.
type messageKey struct {
	backward     bool
	stage, piece int
}

// posted is a message in transit with its buffer.
type posted[T any] struct {
	comm.Request
	x []T
}

// tag is the tag of the message that a pass reads. The piece determines the pipe.
func (k messageKey) tag(s *Schedule) int { return (k.piece*s.Stages+k.stage)*2 + index(k.backward) }

// checkTags refuses schedules with more messages in a step than there are tags, with others after those of the passes.
//
// Errors: exit.Usage.
func (s *Schedule) checkTags(others int) error {
	if n := 2*s.Pieces()*s.Stages + others; n > comm.Tags {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%d pieces of %d stages have %d messages", s.Pieces(), s.Stages, n),
			Why: fmt.Sprintf("a step has at most %d", comm.Tags), Fix: fmt.Sprintf("use %d micro-batches or fewer", (comm.Tags-others)/(2*s.Stages*s.Split))}
	}
	return nil
}

// run runs the tasks of a step and waits until all messages have left.
//
// Errors: those of messages and tasks; that of the context between tasks.
func (x *executor[T]) run(ctx context.Context) error {
	x.kept, x.posted = map[[2]int][]T{}, map[messageKey]posted[T]{}
	tasks := x.s.Tasks[x.c.Rank()]
	if len(tasks) > 0 {
		x.post(tasks[0])
	}
	err := x.fill(0)
	for i, t := range tasks {
		if err = errors.Join(err, ctx.Err()); err != nil {
			break
		}
		if i+1 < len(tasks) { // the message may arrive while this task computes
			x.post(tasks[i+1])
		}
		for piece := t.First; piece < t.First+t.Count && err == nil; piece++ {
			if err = x.pass(t, piece); err != nil {
				err = fmt.Errorf("pipeline: %v: %w", t, err)
			}
		}
		x.reap()
		if err == nil {
			err = x.fill(i + 1)
		}
	}
	for _, m := range x.sent { // after an error the job ends, and others may never receive
		if err == nil {
			err = m.Wait()
			x.recycle(m.x)
		}
	}
	x.sent = nil
	return err
}

// fill runs the work before a task.
func (x *executor[T]) fill(task int) error {
	if x.between == nil {
		return nil
	}
	return x.between(task)
}

// previous is the stage whose result a pass reads.
func previous(backward bool, stage int) int {
	if backward {
		return stage + 1
	}
	return stage - 1
}

// length is the number of elements of the message that a pass of a stage reads: 0 if there is none, or no such stage.
func (x *executor[T]) length(backward bool, stage int) int {
	cut := min(stage, previous(backward, stage))
	if cut < 0 || cut >= x.s.Stages-1 {
		return 0
	}
	return x.lengths[index(backward)][cut]
}

// post posts the receives of a task.
func (x *executor[T]) post(t Task) {
	n := x.length(t.Backward, t.Stage)
	for piece := t.First; piece < t.First+t.Count && n > 0; piece++ {
		k := messageKey{t.Backward, t.Stage, piece}
		buffer := x.buffer(n)
		x.posted[k] = posted[T]{x.c.Recv(x.s.Worker(t.Pipe, previous(t.Backward, t.Stage)), k.tag(x.s), buffer), buffer}
	}
}

// receive waits for the message of a pass; nil if it has none.
func (x *executor[T]) receive(k messageKey) ([]T, error) {
	m, ok := x.posted[k]
	if !ok {
		return nil, nil
	}
	delete(x.posted, k)
	return m.x, m.Wait()
}

// pass computes a pass of one piece and sends its result on.
func (x *executor[T]) pass(t Task, piece int) error {
	got, err := x.receive(messageKey{t.Backward, t.Stage, piece})
	if err != nil {
		return err
	}
	var out []T
	next := previous(!t.Backward, t.Stage)
	if n := x.length(t.Backward, next); n > 0 {
		out = x.buffer(n)
	}
	key := [2]int{t.Pipe, piece}
	compute := func() error { return x.do.forward(t.Pipe, piece, got, out) }
	if t.Backward {
		compute = func() error { return x.do.backward(t.Pipe, piece, x.kept[key], got, out) }
	}
	if x.measure != nil {
		err = x.measure(t, piece, compute)
	} else {
		err = compute()
	}
	if err != nil {
		return err
	}
	if t.Backward {
		x.recycle(x.kept[key])
		x.recycle(got)
		delete(x.kept, key)
	} else {
		x.kept[key] = got
	}
	if out != nil {
		k := messageKey{t.Backward, next, piece}
		x.sent = append(x.sent, posted[T]{x.c.Send(x.s.Worker(t.Pipe, next), k.tag(x.s), out), out})
	}
	return nil
}

// reap recycles the buffers of the oldest messages that have left.
func (x *executor[T]) reap() {
	for len(x.sent) > 0 && x.sent[0].Test() {
		x.recycle(x.sent[0].x)
		x.sent = x.sent[1:]
	}
}

// buffer returns a buffer of n elements.
func (x *executor[T]) buffer(n int) []T {
	if list := x.free[n]; len(list) > 0 {
		x.free[n] = list[:len(list)-1]
		return list[len(list)-1]
	}
	return make([]T, n)
}

// recycle keeps a buffer for later messages.
func (x *executor[T]) recycle(b []T) {
	if b == nil {
		return
	}
	if x.free == nil {
		x.free = map[int][][]T{}
	}
	x.free[len(b)] = append(x.free[len(b)], b)
}
