package train

import (
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// communicationCosts is what working together has cost a rank so far.
type communicationCosts struct {
	allReduce spatial.SumCosts
	traffic   comm.Traffic
}

// communicationCosts are those of the present network; none for one rank alone.
func (t *trainer) communicationCosts() communicationCosts {
	if t.ranks == nil {
		return communicationCosts{}
	}
	return communicationCosts{t.current.train.Shard.SumCosts(), t.ranks.Comm.Traffic()}
}

// since is what was added to earlier costs, as values of an event.
func (c communicationCosts) since(earlier communicationCosts) []rundir.Value {
	return []rundir.Value{
		{Name: "sums_s", Value: (c.allReduce.Running - earlier.allReduce.Running).Seconds()},
		{Name: "sums_waited_s", Value: (c.allReduce.Exposed - earlier.allReduce.Exposed).Seconds()},
		{Name: "sent_bytes", Value: c.traffic.Sub(earlier.traffic).Bytes},
	}
}
