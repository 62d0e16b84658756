package train

import (
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// rankCosts is what working together has cost a rank so far.
type rankCosts struct {
	sums spatial.SumCosts
	sent comm.Traffic
}

// costs are those of the present network; none for one rank alone.
func (t *trainer) costs() rankCosts {
	if t.ranks == nil {
		return rankCosts{}
	}
	return rankCosts{t.now.train.Part.SumCosts(), t.ranks.Comm.Traffic()}
}

// since is what was added to earlier costs, as values of an event.
func (c rankCosts) since(earlier rankCosts) []rundir.Value {
	return []rundir.Value{
		{Name: "sums_s", Value: (c.sums.Running - earlier.sums.Running).Seconds()},
		{Name: "sums_waited_s", Value: (c.sums.Exposed - earlier.sums.Exposed).Seconds()},
		{Name: "sent_bytes", Value: c.sent.Sub(earlier.sent).Bytes},
	}
}
