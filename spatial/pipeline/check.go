package pipeline

import "fmt"

// Check returns an error unless the schedule is a training step: every piece passes all stages of its pipe forward and
// backward exactly once, on the workers that hold them; backward passes of a stage are in ascending order of pieces; and no
// task waits without limit.
func (s *Schedule) Check() error {
	var seen [2]map[[2]int]int // by stage and piece
	seen[0], seen[1] = map[[2]int]int{}, map[[2]int]int{}
	for w, tasks := range s.Tasks {
		last := map[[2]int]int{} // by pipe and stage: last piece backward
		for _, t := range tasks {
			if t.Pipe < 0 || t.Pipe >= s.Pipes() || t.Stage < 0 || t.Stage >= s.Stages || s.Worker(t.Pipe, t.Stage) != w {
				return fmt.Errorf("pipeline: worker %d does not hold the stage of %v", w, t)
			}
			for i := t.First; i < t.First+t.Count; i++ {
				if i < 0 || i >= s.Pieces() || s.pipeOf[i] != t.Pipe {
					return fmt.Errorf("pipeline: piece %d of %v does not pass pipe %d", i, t, t.Pipe)
				}
				seen[index(t.Backward)][[2]int{t.Stage, i}]++
				if !t.Backward {
					continue
				}
				if before, ok := last[[2]int{t.Pipe, t.Stage}]; ok && before > i {
					return fmt.Errorf("pipeline: worker %d runs %v after the backward pass of piece %d", w, t, before)
				}
				last[[2]int{t.Pipe, t.Stage}] = i
			}
		}
	}
	for pass, counts := range seen {
		for stage := range s.Stages {
			for i := range s.Pieces() {
				if n := counts[[2]int{stage, i}]; n != 1 {
					return fmt.Errorf("pipeline: piece %d passes stage %d %d times %s, want once", i, stage, n, [...]string{"forward", "backward"}[pass])
				}
			}
		}
	}
	_, err := s.Time(EqualCosts(s.Stages, 1, 1, 0))
	return err
}

// PeakActivations is, by worker, the largest number of pieces whose activations it keeps: from the forward pass to the
// backward pass. Pieces count once for each stage of the worker.
func (s *Schedule) PeakActivations() []int {
	return peakOf(s, func(int) int { return 1 })
}

// PeakBytes is, by worker, the largest memory of kept activations, given the bytes that a stage keeps of a micro-batch.
func (s *Schedule) PeakBytes(kept []int64) []int64 {
	return peakOf(s, func(stage int) int64 { return kept[stage] / int64(s.Split) })
}

// peakOf is, by worker, the largest sum over kept pieces of a quantity of their stage.
func peakOf[T int | int64](s *Schedule, of func(stage int) T) []T {
	peaks := make([]T, len(s.Tasks))
	for w, tasks := range s.Tasks {
		var now T
		for _, t := range tasks {
			x := T(t.Count) * of(t.Stage)
			if t.Backward {
				x = -x
			}
			now += x
			peaks[w] = max(peaks[w], now)
		}
	}
	return peaks
}
