package pipeline

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Timeline gathers the passes of the last step of all workers, each measured from the start of its own Step: after a barrier these
// are one time. Waiting for messages is not part of a pass. All ranks call it, and all get the same, so that they make the same
// assignment of work to idle times.
//
// Errors: those of messages.
func (w *Worker) Timeline() (*Timeline, error) {
	order, cuts := w.s.passes(), make([]int, w.s.Stages+1)
	for k, tasks := range order {
		cuts[k+1] = cuts[k] + 2*len(tasks)
	}
	all := make([]int64, cuts[w.s.Stages])
	own := all[cuts[w.c.Rank()]:cuts[w.c.Rank()+1]]
	if 2*len(w.step.spans) != len(own) {
		return nil, fmt.Errorf("pipeline: the last step of rank %d has %d of %d passes", w.c.Rank(), len(w.step.spans), len(own)/2)
	}
	for i, s := range w.step.spans {
		own[2*i], own[2*i+1] = int64(s.Start), int64(s.End)
	}
	if err := comm.AllGatherV(w.c, all, cuts, comm.Ring); err != nil {
		return nil, err
	}
	t := &Timeline{Spans: make([][]Span, w.s.Stages)}
	for k, tasks := range order {
		for i, task := range tasks {
			at := cuts[k] + 2*i
			t.Spans[k] = append(t.Spans[k], Span{task, cluster.Time(all[at]), cluster.Time(all[at+1])})
			t.End = max(t.End, cluster.Time(all[at+1]))
		}
	}
	return t, nil
}

// passes lists the passes of single pieces of all workers, in order.
func (s *Schedule) passes() [][]Task {
	out := make([][]Task, len(s.Tasks))
	for w, tasks := range s.Tasks {
		for _, t := range tasks {
			for i := range t.Count {
				p := t
				p.First, p.Count = t.First+i, 1
				out[w] = append(out[w], p)
			}
		}
	}
	return out
}

// MeasuredCosts are the median times of the passes of each stage in measured timelines. Send is nil.
func (s *Schedule) MeasuredCosts(measured ...*Timeline) Costs {
	p, c := s.PassTimes(measured...), EqualCosts(s.Stages, 0, 0, 0)
	c.Send = nil
	for stage := range s.Stages {
		c.Forward[stage], c.Backward[stage] = s.median(p.Forward[stage]), s.median(p.Backward[stage])
	}
	return c
}

// WithoutMessages is when the passes of a measured timeline would have run if messages took no time: each as long as measured, as
// soon as its worker was free and its operands computed. What the measured step takes more is the cost of messages.
//
// Errors: those of Time.
func (s *Schedule) WithoutMessages(t *Timeline) (*Timeline, error) {
	type pass struct {
		backward     bool
		stage, piece int
	}
	took := map[pass]cluster.Time{}
	for _, spans := range t.Spans {
		for _, x := range spans {
			took[pass{x.Backward, x.Stage, x.First}] = x.End - x.Start
		}
	}
	return s.time(nil, func(t Task) (sum cluster.Time) {
		for i := range t.Count {
			sum += took[pass{t.Backward, t.Stage, t.First + i}]
		}
		return sum
	})
}
