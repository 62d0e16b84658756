package pipeline

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Timeline gathers the passes of the last step of all workers, each measured from the start of its own Step: after a barrier these
// are one time. Waiting for messages is not part of a pass. All ranks call it, and all get the same, so that they make the same
// assignment of work to idle times: of groups of ranks that of their first ranks, of data ranks that of the first.
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
	groups := []*comm.Comm{w.data}
	if w.mesh != nil {
		groups = append(groups, w.mesh.c)
	}
	for _, c := range groups {
		if c == nil {
			continue
		}
		if err := comm.Broadcast(c, 0, all); err != nil {
			return nil, err
		}
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
	c := EqualCosts(s.Stages, 0, 0, 0)
	c.Send = nil
	for stage := range s.Stages {
		var times [2][]cluster.Time
		for _, t := range measured {
			for _, x := range slices.Concat(t.Spans...) {
				if x.Stage == stage {
					times[index(x.Backward)] = append(times[index(x.Backward)], (x.End-x.Start)*cluster.Time(s.Split)/cluster.Time(x.Count))
				}
			}
		}
		for pass, cost := range [][]cluster.Time{c.Forward, c.Backward} {
			if list := times[pass]; len(list) > 0 {
				slices.Sort(list)
				cost[stage] = list[len(list)/2]
			}
		}
	}
	return c
}

// Repeat is when the passes of a measured timeline would have run by their dependencies alone: each as long as measured, as soon as
// its worker was free and its operands had arrived. send is as in Costs; without it messages take no time.
//
// Errors: those of Time.
func (s *Schedule) Repeat(t *Timeline, send []cluster.Time) (*Timeline, error) {
	type pass struct {
		backward     bool
		stage, piece int
	}
	took := map[pass]cluster.Time{}
	for _, x := range slices.Concat(t.Spans...) {
		took[pass{x.Backward, x.Stage, x.First}] = x.End - x.Start
	}
	return s.time(send, func(t Task) (sum cluster.Time) {
		for i := range t.Count {
			sum += took[pass{t.Backward, t.Stage, t.First + i}]
		}
		return sum
	})
}

// Expected is the mean of steps.
type Expected struct {
	End     cluster.Time
	Bubbles float64 // share of a step in which a worker is idle, mean over workers and steps
}

// Expect predicts steps from the passes of measured ones, by their dependencies (Repeat): the mean over these steps.
//
// Passes vary from step to step, and workers that wait for each other wait for the slower one each time. The idle share is therefore
// larger than that of passes of median length (Time of MeasuredCosts), most where the schedule leaves no idle time. Passes of
// one step belong together: they are slower while other programs run, and while other workers compute.
//
// Errors: those of Time.
func (s *Schedule) Expect(measured []*Timeline, send []cluster.Time) (mean Expected, err error) {
	n := len(measured)
	for _, t := range measured {
		x, err := s.Repeat(t, send)
		if err != nil {
			return mean, err
		}
		mean.End += x.End / cluster.Time(n)
		mean.Bubbles += x.MeanBubbles() / float64(n)
	}
	return mean, nil
}
