package pipeline

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
)

// Costs are the times of one micro-batch. A task of a part or a multiple of one takes that part or multiple.
type Costs struct {
	Forward, Backward []cluster.Time // by stage
	Send              []cluster.Time // of a message between stages k and k+1, in either direction; nil means 0
}

// EqualCosts are those of equal stages: forward pass, backward pass and message.
func EqualCosts(stages int, forward, backward, send cluster.Time) Costs {
	c := Costs{Forward: make([]cluster.Time, stages), Backward: make([]cluster.Time, stages), Send: make([]cluster.Time, stages-1)}
	for k := range stages {
		c.Forward[k], c.Backward[k] = forward, backward
	}
	for k := range c.Send {
		c.Send[k] = send
	}
	return c
}

// Span is a task with its time, from the start of the step.
type Span struct {
	Task
	Start, End cluster.Time
}

// Timeline is when the workers run their tasks.
type Timeline struct {
	Spans [][]Span // by worker, in order
	End   cluster.Time
}

// Time returns when tasks run if each starts as soon as its worker is free and its operands have arrived. Messages take
// their time, but neither a worker's nor each other's.
//
// Errors: exit.Bug for tasks that wait for each other, or lack one that they depend on.
func (s *Schedule) Time(c Costs) (*Timeline, error) {
	return s.time(c.Send, func(t Task) cluster.Time {
		if t.Backward {
			return s.part(t, c.Backward[t.Stage])
		}
		return s.part(t, c.Forward[t.Stage])
	})
}

// part is the part of the time of a micro-batch that a task takes.
func (s *Schedule) part(t Task, of cluster.Time) cluster.Time {
	return of * cluster.Time(t.Count) / cluster.Time(s.Split)
}

// time is Time for any cost of tasks.
func (s *Schedule) time(send []cluster.Time, cost func(t Task) cluster.Time) (*Timeline, error) {
	t := &timing{s: s, send: send, cost: cost}
	for pass := range t.done {
		t.done[pass] = make([][]cluster.Time, s.Stages)
		for k := range t.done[pass] {
			t.done[pass][k] = make([]cluster.Time, s.Pieces())
			for i := range t.done[pass][k] {
				t.done[pass][k][i] = notYet
			}
		}
	}
	out := &Timeline{Spans: make([][]Span, len(s.Tasks))}
	for moved := true; moved; {
		moved = false
		for w, tasks := range s.Tasks {
			for len(out.Spans[w]) < len(tasks) {
				span, ok := t.span(tasks[len(out.Spans[w])], end(out.Spans[w]))
				if !ok {
					break
				}
				out.Spans[w] = append(out.Spans[w], span)
				out.End = max(out.End, span.End)
				moved = true
			}
		}
	}
	for w, tasks := range s.Tasks {
		if n := len(out.Spans[w]); n < len(tasks) {
			return nil, &exit.Error{Code: exit.Bug, What: fmt.Sprintf("pipeline schedule: worker %d waits without limit before %v", w, tasks[n]),
				Why: "tasks wait for each other, or one is missing", Fix: "report this with stages, micro-batches and schedule"}
		}
	}
	return out, nil
}

// notYet is the end of a task that has no time yet.
const notYet cluster.Time = -1

// timing is the state of Time.
type timing struct {
	s    *Schedule
	send []cluster.Time
	cost func(t Task) cluster.Time
	done [2][][]cluster.Time // ends of forward and backward passes, by stage and piece
}

// end is when a worker is free.
func end(spans []Span) cluster.Time {
	if len(spans) == 0 {
		return 0
	}
	return spans[len(spans)-1].End
}

// span is the time of a task on a worker that is free from a time on; ok is false if it waits for a task without a time.
func (t *timing) span(task Task, free cluster.Time) (x Span, ok bool) {
	last, start := t.s.Stages-1, free
	for i := task.First; i < task.First+task.Count; i++ {
		var ready cluster.Time
		switch {
		case task.Backward && task.Stage == last:
			ready = t.done[0][last][i]
		case task.Backward:
			ready = t.arrival(t.done[1][task.Stage+1][i], task.Stage, task)
			if t.done[0][task.Stage][i] == notYet {
				ready = notYet
			}
		case task.Stage > 0:
			ready = t.arrival(t.done[0][task.Stage-1][i], task.Stage-1, task)
		}
		if ready == notYet {
			return x, false
		}
		start = max(start, ready)
	}
	x = Span{task, start, start + t.cost(task)}
	for i := task.First; i < task.First+task.Count; i++ {
		t.done[index(task.Backward)][task.Stage][i] = x.End
	}
	return x, true
}

// arrival is when the message that a task reads has crossed a cut, if it was sent at a time.
func (t *timing) arrival(sent cluster.Time, cut int, task Task) cluster.Time {
	if sent == notYet || t.send == nil {
		return sent
	}
	return sent + t.s.part(task, t.send[cut])
}

// Busy is the time that a worker computes.
func (t *Timeline) Busy(worker int) (sum cluster.Time) {
	for _, s := range t.Spans[worker] {
		sum += s.End - s.Start
	}
	return sum
}

// Bubbles is the share of the step in which a worker is idle.
func (t *Timeline) Bubbles(worker int) float64 {
	return 1 - float64(t.Busy(worker))/float64(t.End)
}

// MeanBubbles is the mean of Bubbles over the workers.
func (t *Timeline) MeanBubbles() (mean float64) {
	for w := range t.Spans {
		mean += t.Bubbles(w) / float64(len(t.Spans))
	}
	return mean
}

// Gap is an idle time of a worker.
type Gap struct{ Start, End cluster.Time }

// Gaps lists the idle times of a worker in a step, in order.
func (t *Timeline) Gaps(worker int) (gaps []Gap) {
	at := cluster.Time(0)
	for _, s := range t.Spans[worker] {
		if s.Start > at {
			gaps = append(gaps, Gap{at, s.Start})
		}
		at = s.End
	}
	if at < t.End {
		gaps = append(gaps, Gap{at, t.End})
	}
	return gaps
}
