package pipeline

// chimeraDoubled schedules forward passes of two pieces and backward passes of one, all of them one slot long, by list
// scheduling: in each slot a worker runs one of the tasks that are ready,
//
//	backward passes before forward passes,
//	later stages before earlier ones, then earlier pieces before later ones,
//
// where forward passes are ready only while stage s of a pipe holds fewer than 3D/2 − s pieces. Without that bound early stages
// run ahead, and the other direction waits. All steps from 2D pieces on, in multiples of 2D, then have D−2 slots of bubbles, as
// few as the first unit of a concatenation.
//
// A unit of 2D pieces gives D consecutive ones to each pipe.
func chimeraDoubled(stages, micro int, scaling Scaling, pipes []pipe) (*Schedule, error) {
	split := 1
	if scaling == HalveBackward {
		split = 2
	}
	s := newSchedule(stages, micro, split, pipes)
	l := &listScheduler{s: s, pieces: make([][]int, len(pipes)), next: make([][2][]int, len(pipes))}
	for i := range s.pipeOf {
		k := i / stages % len(pipes)
		s.pipeOf[i] = k
		l.pieces[k] = append(l.pieces[k], i)
	}
	for k := range l.next {
		l.next[k] = [2][]int{make([]int, stages), make([]int, stages)}
	}
	var tasks []slotted
	for slot := 0; len(tasks) < stages*s.Pieces()*3/2; slot++ {
		var now []Task
		for w := range stages {
			if t, ok := l.pick(w); ok {
				now = append(now, t)
			}
		}
		for _, t := range now {
			tasks = append(tasks, slotted{slot, t})
			l.next[t.Pipe][index(t.Backward)][t.Stage] += t.Count
		}
	}
	return s, s.order(tasks)
}

// listScheduler is the state of chimeraDoubled.
type listScheduler struct {
	s      *Schedule
	pieces [][]int    // by pipe, in order
	next   [][2][]int // by pipe, forward or backward, stage: number of pieces that are done
}

// index is 0 for forward and 1 for backward passes.
func index(backward bool) int {
	if backward {
		return 1
	}
	return 0
}

// pick returns the task that a worker runs in a slot, given those of earlier slots.
func (l *listScheduler) pick(worker int) (best Task, ok bool) {
	for k, pieces := range l.pieces {
		stage := l.s.Stage(k, worker)
		forward, backward := l.next[k][0], l.next[k][1]
		if at := backward[stage]; at < len(pieces) && l.isReady(k, stage, true, at) {
			best, ok = l.better(best, ok, Task{Backward: true, Pipe: k, Stage: stage, First: pieces[at], Count: 1})
		}
		at := forward[stage]
		if at < len(pieces) && at-backward[stage] < 3*l.s.Stages/2-stage && l.isReady(k, stage, false, at) {
			best, ok = l.better(best, ok, Task{Pipe: k, Stage: stage, First: pieces[at], Count: 2})
		}
	}
	return best, ok
}

// isReady reports whether the pass before that of a piece is done: the forward pass of the stage before, the backward pass of
// the stage after, or the forward pass of the last stage.
func (l *listScheduler) isReady(pipe, stage int, backward bool, piece int) bool {
	forward := l.next[pipe][0]
	switch {
	case backward && stage == l.s.Stages-1:
		return forward[stage] > piece
	case backward:
		return l.next[pipe][1][stage+1] > piece
	}
	return stage == 0 || forward[stage-1] > piece
}

// better returns the task of higher priority.
func (l *listScheduler) better(a Task, ok bool, b Task) (Task, bool) {
	switch {
	case !ok:
		return b, true
	case a.Backward != b.Backward:
		if a.Backward {
			return a, true
		}
		return b, true
	case a.Stage < b.Stage || a.Stage == b.Stage && a.First > b.First:
		return b, true
	}
	return a, true
}
