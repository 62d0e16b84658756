package bench

import (
	"time"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/internal/benchstats"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// intervals returns the times of the last step of a plan from each convolution to the next: between two of them ranks exchange halos.
func intervals(p *engine.Plan) (all []time.Duration) {
	var begin, end time.Duration
	for _, k := range p.Timeline(engine.Peaks{}) {
		if k.Class == engine.Contraction {
			all, begin = append(all, k.Start-begin), k.Start
		}
		end = k.Start + k.Duration
	}
	return append(all, end-begin)
}

// inLockstep returns the time of a step of the ranks of a mesh, without messages, if ranks with the same samples wait for the slowest of them in
// each interval, and all ranks for the slowest at the end, where gradients are summed. own has the intervals of steps that this rank
// has computed at the same time as the others, without waiting. It is the median over steps, the same on all ranks.
//
// Errors: those of messages.
func inLockstep(c *comm.Comm, mesh spatial.Mesh, own [][]time.Duration) (time.Duration, error) {
	var flat []int64
	for _, step := range own {
		for _, t := range step {
			flat = append(flat, t.Nanoseconds())
		}
	}
	all, err := comm.AllGather(c, flat)
	if err != nil {
		return 0, err
	}
	var axes []string
	for _, a := range mesh.Fields() {
		axes = append(axes, a.Name)
	}
	steps := make([]time.Duration, len(own))
	for rank := range c.Size() {
		group := mesh.Group(rank, axes)
		took := make([]time.Duration, len(own))
		for i := range flat {
			slowest := int64(0)
			for _, r := range group {
				slowest = max(slowest, all[r*len(flat)+i])
			}
			took[i/len(own[0])] += time.Duration(slowest)
		}
		for i, t := range took {
			steps[i] = max(steps[i], t)
		}
	}
	return time.Duration(benchstats.TimesOf(steps).Median * float64(time.Millisecond)), nil
}
