package filler

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/pipeline"
)

// Margin is the part of its time that a piece must leave free in an idle time, since measured times vary.
const Margin = 0.05

// Place is when a piece of an item runs.
type Place struct {
	Item, Piece int
	Step        int          // of the round
	Start       cluster.Time // from the start of the step
}

// Worker is the assignment of the work of one worker.
type Worker struct {
	Items  []Item
	Places []Place // in order of time
	Steps  int     // that the work takes
	// Overrun is the time of pieces that fit into no idle time. They run at the end of the last step, which they prolong.
	Overrun cluster.Time

	worker int
}

// Plan is the assignment of all workers.
type Plan struct {
	Workers []Worker
	Refresh int // R, the steps of a round: the most of all workers
}

// Assign places the items of each worker, given the timeline of a step. It walks the idle times of a step from left to right,
// and in each takes the first item whose next piece is ready and fits until none does; then those of further steps. If a further
// step takes none, the rest runs at its end.
//
// margin is the part of a piece's time that must be left free (Margin).
//
// Errors: exit.Usage for items whose After is not earlier in the list, or without pieces.
func Assign(t *pipeline.Timeline, items func(worker int) []Item, margin float64) (*Plan, error) {
	p := &Plan{Refresh: 1}
	for w := range t.Spans {
		list := items(w)
		for i, item := range list {
			for _, before := range item.After {
				if before < 0 || before >= i {
					return nil, usage(item, fmt.Sprintf("it runs after item %d of the list, which must be an earlier one", before), "order the items by what they wait for")
				}
			}
			if item.Pieces < 1 || item.Time < 0 {
				return nil, usage(item, fmt.Sprintf("it has %d pieces of %v", item.Pieces, item.Time), "give it pieces with a time, or leave it out")
			}
		}
		a := &assigning{Worker: Worker{Items: list, worker: w}, t: t, next: make([]int, len(list)), margin: margin}
		a.run()
		p.Workers = append(p.Workers, a.Worker)
		p.Refresh = max(p.Refresh, a.Steps)
	}
	return p, nil
}

// Fill places the items of one worker into idle times alone: what fits into none is left, for a time in which no other worker waits
// for it. Pieces leave Margin free.
//
// Errors: those of Assign.
func Fill(t *pipeline.Timeline, worker int, items []Item) (Worker, error) {
	p, err := Assign(t, func(w int) []Item {
		if w == worker {
			return items
		}
		return nil
	}, Margin)
	if err != nil {
		return Worker{}, err
	}
	w := p.Workers[worker]
	w.Places = slices.DeleteFunc(w.Places, func(x Place) bool { return x.Start >= t.End })
	w.Overrun = 0
	return w, nil
}

// Left is the time of the pieces that have no place in the first steps of a round.
func (w *Worker) Left(steps int) cluster.Time {
	left := w.Work()
	for _, p := range w.Places {
		if p.Step < steps {
			left -= w.Items[p.Item].Time
		}
	}
	return left
}

// usage is the error of an item.
func usage(item Item, why, fix string) error {
	return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("work %q cannot be placed into idle times", item.Name), Why: why, Fix: fix}
}

// assigning is the state of placing the items of a worker.
type assigning struct {
	Worker
	t      *pipeline.Timeline
	next   []int // by item: next piece
	margin float64
}

// run places all pieces.
func (a *assigning) run() {
	gaps := a.t.Gaps(a.worker)
	for left := a.left(); left; left = a.left() {
		placed := len(a.Places)
		for _, g := range gaps {
			at := g.Start
			for i := a.fitting(g, at); i >= 0; i = a.fitting(g, at) {
				a.place(i, at)
				at += a.Items[i].Time
			}
		}
		if len(a.Places) == placed && a.Steps > 0 {
			a.Steps-- // the last step with work
			a.overrun()
		}
		a.Steps++
	}
}

// left reports whether pieces are left.
func (a *assigning) left() bool {
	for i, item := range a.Items {
		if a.next[i] < item.Pieces {
			return true
		}
	}
	return false
}

// fitting returns the first item whose next piece is ready in a gap and fits from a time on; −1 if there is none.
func (a *assigning) fitting(g pipeline.Gap, at cluster.Time) int {
	for i, item := range a.Items {
		need := item.Time + cluster.Time(a.margin*float64(item.Time))
		if a.next[i] < item.Pieces && a.isReady(i, g.Start) && at+need <= g.End {
			return i
		}
	}
	return -1
}

// isReady reports whether the next piece of an item can run at a time of the current step.
func (a *assigning) isReady(i int, at cluster.Time) bool {
	item := &a.Items[i]
	for _, before := range item.After {
		if a.next[before] < a.Items[before].Pieces {
			return false
		}
	}
	if item.Waits == Nothing || a.Steps > 0 {
		return true
	}
	passes := 0
	for _, s := range a.t.Spans[a.worker] {
		if s.Backward == (item.Waits == Backward) && s.End <= at && (item.Pipe == AnyPipe || item.Pipe == s.Pipe) {
			passes += s.Count
		}
	}
	return passes > a.next[i]
}

// place places the next piece of an item.
func (a *assigning) place(i int, at cluster.Time) {
	a.Places = append(a.Places, Place{Item: i, Piece: a.next[i], Step: a.Steps, Start: at})
	a.next[i]++
}

// overrun places what is left after the last task of the current step.
func (a *assigning) overrun() {
	for i, item := range a.Items {
		for a.next[i] < item.Pieces {
			a.place(i, a.t.End+a.Overrun)
			a.Overrun += item.Time
		}
	}
}

// Work is the time of all items, T_k.
func (w *Worker) Work() (sum cluster.Time) {
	for _, item := range w.Items {
		sum += cluster.Time(item.Pieces) * item.Time
	}
	return sum
}

// LowerBound is the least possible number of steps of a round, the work over the idle time of a step, rounded up; 0 if there is
// work but no idle time.
func (w *Worker) LowerBound(t *pipeline.Timeline) int {
	idle := t.End - t.Busy(w.worker)
	if idle == 0 {
		return 0
	}
	return int((w.Work() + idle - 1) / idle)
}

// Utilisation is the share of time in which the worker computes, without and with the work: in a round of Steps steps, each of
// which is longer by grown (such as preconditioning, which does not count as work).
func (w *Worker) Utilisation(t *pipeline.Timeline, grown cluster.Time) (before, after float64) {
	busy, steps := float64(t.Busy(w.worker)), float64(w.Steps)
	total := steps*float64(t.End+grown) + float64(w.Overrun)
	return busy / float64(t.End), (steps*busy + float64(w.Work())) / total
}

// Before lists what the worker runs in a step of the round before each of its tasks, and, in the last element, after them: the work
// of pipeline.Worker.Between. What has its place between two passes of a task runs after both.
func (w *Worker) Before(t *pipeline.Timeline, tasks []pipeline.Task, step int) [][]Place {
	spans := t.Spans[w.worker]
	out := make([][]Place, len(tasks)+1)
	for _, p := range w.Places {
		if p.Step != step {
			continue
		}
		passes := 0
		for k := 0; k < len(spans) && spans[k].End <= p.Start; k++ {
			passes += spans[k].Count
		}
		task := 0
		for ; passes > 0; task++ {
			passes -= tasks[task].Count
		}
		out[task] = append(out[task], p)
	}
	return out
}
