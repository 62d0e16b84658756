package pipeline

// GPipe returns the schedule in which each worker runs all forward passes, then all backward passes. It keeps the
// activations of N micro-batches. Bubbles are (D−1)/(N+D−1) of a step of equal stages.
//
// Errors: exit.Usage for fewer than one stage or micro-batch.
// Source: Huang et al. 2019, arXiv:1811.06965.
func GPipe(stages, micro int) (*Schedule, error) {
	return oneDirection(stages, micro, func(int) int { return micro })
}

// OneFOneB returns the schedule in which stage s runs up to D−s forward passes, then one backward and one forward pass in
// turn (1F1B with flush, DAPPLE). It keeps the activations of at most D−s micro-batches. Bubbles are those of GPipe.
//
// Errors: exit.Usage for fewer than one stage or micro-batch.
// Source: Fan et al. 2021, arXiv:2007.01045; Narayanan et al. 2019, doi:10.1145/3341301.3359646 (PipeDream, 1F1B).
func OneFOneB(stages, micro int) (*Schedule, error) {
	return oneDirection(stages, micro, func(stage int) int { return min(stages-stage, micro) })
}

// oneDirection returns a schedule with one pipe. Stage s runs ahead(s) forward passes before the first backward pass, and
// from then on a forward pass after each backward pass.
func oneDirection(stages, micro int, ahead func(stage int) int) (*Schedule, error) {
	if err := checkSizes(stages, micro); err != nil {
		return nil, err
	}
	s := newSchedule(stages, micro, 1, []pipe{{}})
	for stage := range stages {
		task := func(backward bool, i int) {
			s.Tasks[stage] = append(s.Tasks[stage], Task{Backward: backward, Stage: stage, First: i, Count: 1})
		}
		n := ahead(stage)
		for i := range n {
			task(false, i)
		}
		for i := range micro {
			task(true, i)
			if n+i < micro {
				task(false, n+i)
			}
		}
	}
	return s, nil
}
