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

// waitOf returns the time that this rank waits in a step for those with the same samples, because kernels do not take the same time on
// all of them, or because they take turns on a processor: in each interval all wait for the slowest. own has the intervals of
// steps that this rank has computed at the same time as the others, without waiting. It is the median over steps.
//
// Errors: those of messages.
func waitOf(c *comm.Comm, mesh spatial.Mesh, own [][]time.Duration) (time.Duration, error) {
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
	group := mesh.Group(c.Rank(), axes)
	waited := make([]time.Duration, len(own))
	for i, t := range flat {
		slowest := t
		for _, r := range group {
			slowest = max(slowest, all[r*len(flat)+i])
		}
		waited[i/len(own[0])] += time.Duration(slowest - t)
	}
	return time.Duration(benchstats.TimesOf(waited).Median * float64(time.Millisecond)), nil
}
