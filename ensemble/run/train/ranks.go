package train

import (
	"errors"

	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// openRunDir opens the run directory on the leading rank; the others look on.
func openRunDir(t *team.Team, o Options, identity string) (*rundir.Dir, rundir.State, error) {
	var dir *rundir.Dir
	state := rundir.Fresh
	if t.Leads() {
		var err error
		if dir, state, err = rundir.Open(o.RunDir, rundir.Options{Identity: identity, Resume: o.Resume != "", Overwrite: o.Overwrite}); err != nil {
			return nil, state, err
		}
	}
	s, err := t.Agree(int64(state))
	if err != nil && dir != nil {
		err = errors.Join(err, dir.Close())
	}
	if dir == nil {
		dir = rundir.View(o.RunDir)
	}
	return dir, rundir.State(s), err
}

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
	return rankCosts{t.net.Part.SumCosts(), t.ranks.Comm.Traffic()}
}

// since is what was added to earlier costs, as values of an event.
func (c rankCosts) since(earlier rankCosts) []rundir.Value {
	return []rundir.Value{
		{Name: "sums_s", Value: (c.sums.Running - earlier.sums.Running).Seconds()},
		{Name: "sums_waited_s", Value: (c.sums.Exposed - earlier.sums.Exposed).Seconds()},
		{Name: "sent_bytes", Value: c.sent.Sub(earlier.sent).Bytes},
	}
}

// OfPart are the options of one of the parts of a process: one alone is told to stop, and
// shows what is done.
func (o Options) OfPart(t *team.Team) Options {
	if !t.Speaks() {
		o.Stop, o.Progress, o.Warn = nil, nil, nil
	}
	return o
}
