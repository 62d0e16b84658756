package run

import (
	"errors"
	"fmt"
	"github.com/ensemble-weather/ensemble/internal/phrase"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// openRunDir opens the run directory on the leading rank; the others look on.
func openRunDir(t *team.Team, o TrainOptions, identity string) (*rundir.Dir, rundir.State, error) {
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

// joinMesh lays a team out on the mesh of the configuration, or the one that suits its
// fields best, and gives every rank its slab of them.
//
// Errors: exit 64 for a mesh of fewer parts than ranks.
func joinMesh(t *team.Team, c *config.TrainConfig, grid *ensemble.Grid) error {
	if t == nil {
		return nil
	}
	t.Shared = c.Train.Train.ShardOptimizer
	n, batch := t.Comm.Size(), c.Train.Train.BatchSize
	var err error
	if text := c.Train.Train.Mesh; text != "" && text != autoMesh {
		t.Mesh, err = spatial.ParseMesh(text)
	} else {
		t.Mesh, err = fastest(t, c, grid)
	}
	if err != nil {
		return err
	}
	if t.Mesh.Size() != n {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("a mesh of %d ranks (%v) in a job of %d", t.Mesh.Size(), t.Mesh, n), At: "train.mesh",
			Why: "every rank has a part of the mesh", Fix: "change train.mesh, or start as many ranks as it has parts, or fewer"}
	}
	return layOut(t, specOf(c), taskOf(c), grid, batch)
}

// fastest is the mesh on which a step is predicted to take least time, as rank 0 finds it.
func fastest(t *team.Team, c *config.TrainConfig, grid *ensemble.Grid) (spatial.Mesh, error) {
	k := unfitted(taskOf(c))
	g, err := specOf(c).Graph(&k, grid, c.Train.Train.BatchSize, uint64(c.Train.Train.Seed), true)
	if err != nil {
		return nil, err
	}
	m, err := fastestMesh(g, machineOf(c), t.Comm.Size(), optimiserOf(&c.Train.Train), "train.mesh")
	if err != nil {
		return nil, err
	}
	text, err := team.FromLeader(t, m.String())
	if err != nil {
		return nil, err
	}
	return spatial.ParseMesh(text)
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

// layOut gives every rank of a team its slab of a network's fields, as the network will
// be cut for batches of n samples.
func layOut(t *team.Team, s model.Spec, k model.Task, g *ensemble.Grid, n int) error {
	if t == nil {
		return nil
	}
	if k.ErrorScale == nil {
		k = unfitted(k)
	}
	gr, err := s.Graph(&k, g, n, 0, true)
	if err != nil {
		return err
	}
	return t.LayOut(gr, g, n)
}

// partsOf is the number of parts of a mesh that was given; 0 leaves it to the number of
// ranks.
func partsOf(mesh string) (int, error) {
	if mesh == "" || mesh == autoMesh {
		return 0, nil
	}
	m, err := spatial.ParseMesh(mesh)
	return m.Size(), err
}

// ranksOf says how many ranks there are, and how many parts they have.
func ranksOf(ranks, parts int) string {
	if parts == ranks {
		return phrase.Count(ranks, "rank")
	}
	return fmt.Sprintf("%s on %s", phrase.Count(parts, "part"), phrase.Count(ranks, "rank"))
}

// ofPart are the options of one of the parts of a process: one alone is told to stop, and
// shows what is done.
func (o TrainOptions) ofPart(t *team.Team) TrainOptions {
	if !t.Speaks() {
		o.Stop, o.Progress, o.Warn = nil, nil, nil
	}
	return o
}
