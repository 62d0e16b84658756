package pipeline

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Task is a forward or backward pass of one stage for consecutive pieces of the batch. A piece is a micro-batch, or half of
// one with HalveBackward.
type Task struct {
	Backward bool
	Pipe     int // copy of the network, see Schedule.Worker
	Stage    int
	First    int // first piece
	Count    int // number of pieces: 2 for a forward pass of DoubleForward and HalveBackward, else 1
}

// String is F or B with pipe, stage and pieces, such as F0.2[4] or F1.0[4:6].
func (t Task) String() string {
	kind, pieces := "F", fmt.Sprint(t.First)
	if t.Backward {
		kind = "B"
	}
	if t.Count > 1 {
		pieces = fmt.Sprintf("%d:%d", t.First, t.First+t.Count)
	}
	return fmt.Sprintf("%s%d.%d[%s]", kind, t.Pipe, t.Stage, pieces)
}

// Schedule is the order in which workers run the tasks of one training step. It is synchronous: the step ends when all
// backward passes are done, and then equals a step without a pipeline. As many workers as stages share it.
//
// Backward passes of a stage run in ascending order of pieces, so a running sum of their gradients has a fixed order.
type Schedule struct {
	Stages int      // D, also the number of workers
	Micro  int      // N micro-batches
	Split  int      // pieces of a micro-batch: 1, or 2 with HalveBackward
	Tasks  [][]Task // by worker, in order
	pipes  []pipe
	pipeOf []int // by piece
}

// pipe is one copy of the network: its stages are on consecutive workers, ascending or descending.
type pipe struct {
	shift int // worker of stage 0 if it ascends, of the last stage if it descends
	up    bool
}

// Pipes is the number of copies of the network, 2q for Chimera and 1 for other schedules. A worker holds one stage of each.
func (s *Schedule) Pipes() int { return len(s.pipes) }

// Pieces is the number of pieces of the batch.
func (s *Schedule) Pieces() int { return len(s.pipeOf) }

// PipeOf is the pipe that a piece passes.
func (s *Schedule) PipeOf(piece int) int { return s.pipeOf[piece] }

// Worker is the worker that holds a stage of a pipe.
func (s *Schedule) Worker(pipe, stage int) int {
	p := s.pipes[pipe]
	if p.up {
		stage = s.Stages - 1 - stage
	}
	return (stage + p.shift) % s.Stages
}

// Stage is the stage of a pipe that a worker holds: the inverse of Worker.
func (s *Schedule) Stage(pipe, worker int) int {
	p := s.pipes[pipe]
	stage := (worker - p.shift + s.Stages) % s.Stages
	if p.up {
		stage = s.Stages - 1 - stage
	}
	return stage
}

// newSchedule returns a schedule without tasks, whose pieces all pass pipe 0.
func newSchedule(stages, micro, split int, pipes []pipe) *Schedule {
	return &Schedule{Stages: stages, Micro: micro, Split: split, Tasks: make([][]Task, stages), pipes: pipes, pipeOf: make([]int, micro*split)}
}

// checkSizes refuses empty schedules.
//
// Errors: exit.Usage.
func checkSizes(stages, micro int) error {
	if stages < 1 || micro < 1 {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("no schedule of %d stages and %d micro-batches", stages, micro),
			Why: "a pipeline has at least one of each", Fix: fmt.Sprintf("use %d stages and %d micro-batches", max(stages, 1), max(micro, 1))}
	}
	return nil
}

// slotted is a task with its slot. Slots have the length of a task of one piece.
type slotted struct {
	slot int
	Task
}

// order sets the tasks of the workers from their slots.
//
// Errors: two tasks of a worker in one slot.
func (s *Schedule) order(tasks []slotted) error {
	by := make([][]slotted, s.Stages)
	for _, t := range tasks {
		w := s.Worker(t.Pipe, t.Stage)
		by[w] = append(by[w], t)
	}
	for w, list := range by {
		slices.SortStableFunc(list, func(a, b slotted) int { return a.slot - b.slot })
		for i, t := range list {
			if i > 0 && list[i-1].slot == t.slot {
				return fmt.Errorf("pipeline: worker %d has %v and %v in slot %d", w, list[i-1].Task, t.Task, t.slot)
			}
			s.Tasks[w] = append(s.Tasks[w], t.Task)
		}
	}
	return nil
}
