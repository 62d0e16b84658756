// Package filler places work into the idle times of a pipelined training step: a static assignment, made once from the timeline
// of a plain step, that every rank follows in every step.
//
//	t, err := schedule.Time(costs)             // or measured times
//	items := filler.KFAC(filler.KFACTimes{...}) // or validation passes, checkpoints, scores of masks
//	p, err := filler.Assign(t, func(worker int) []filler.Item { return items }, filler.Margin)
//	fmt.Println(p.Refresh, p.Workers[0].Utilisation(t, 0))
//
// The work of one round (a refresh, of second-order information) takes R steps, the most of all workers. Its results are
// published at the end of the round, at the same step on all ranks (Versions). Work that reads the micro-batches of a step reads
// those of the first step of its round.
//
// Source: Osawa, Li and Hoefler 2023, arXiv:2211.14133 (PipeFisher).
package filler
