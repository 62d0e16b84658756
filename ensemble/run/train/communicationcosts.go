package train

import (
	"github.com/ensemble-weather/ensemble/ensemble/run/train/pipelined"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// communicationCosts is the cumulative cost of communication on this rank.
type communicationCosts struct {
	allReduce spatial.SumCosts
	traffic   comm.Traffic
	pipeline  pipelined.Times
}

// communicationCosts returns the costs of the current network so far; zero on a single rank.
func (t *trainer) communicationCosts() communicationCosts {
	n := t.current
	switch {
	case t.ranks == nil:
		return communicationCosts{}
	case n.pipeline != nil:
		return communicationCosts{n.pipeline.SumCosts(), t.ranks.Comm.Traffic(), n.pipeline.Times()}
	}
	costs := communicationCosts{traffic: t.ranks.Comm.Traffic()}
	if shard := t.current.train.Shard; shard != nil { // a group of one rank has none
		costs.allReduce = shard.SumCosts()
	}
	return costs
}

// since returns the difference to earlier costs as values of an event: time of all-reduces of gradients, the
// part of it that did not overlap with computation, and bytes sent; of these the bytes sent to sum gradients, and those
// that dense sums would have sent.
func (c communicationCosts) since(earlier communicationCosts) []rundir.Value {
	values := []rundir.Value{
		{Name: "allreduce_s", Value: (c.allReduce.Running - earlier.allReduce.Running).Seconds()},
		{Name: "allreduce_exposed_s", Value: (c.allReduce.Exposed - earlier.allReduce.Exposed).Seconds()},
		{Name: "sent_bytes", Value: c.traffic.Sub(earlier.traffic).Bytes},
		{Name: "gradient_sent_bytes", Value: c.allReduce.Sent - earlier.allReduce.Sent},
		{Name: "gradient_dense_bytes", Value: c.allReduce.Dense - earlier.allReduce.Dense},
	}
	if c.pipeline.Steps > 0 {
		values = append(values, rundir.Value{Name: "pipeline_s", Value: (c.pipeline.Steps - earlier.pipeline.Steps).Seconds()},
			rundir.Value{Name: "passes_s", Value: (c.pipeline.Passes - earlier.pipeline.Passes).Seconds()})
	}
	if c.pipeline.HasFactors {
		values = append(values, rundir.Value{Name: "filled_s", Value: (c.pipeline.Filled - earlier.pipeline.Filled).Seconds()},
			rundir.Value{Name: "exposed_s", Value: (c.pipeline.Exposed - earlier.pipeline.Exposed).Seconds()})
	}
	return values
}
