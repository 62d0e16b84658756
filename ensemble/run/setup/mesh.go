package setup

import (
	"context"
	"fmt"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/spatial"
)

// ArrangeOnMesh arranges a team on the configured mesh, or on the fastest one for its fields, and assigns every
// rank its slab.
//
// Errors: exit 64 for a mesh with fewer ranks than processes.
func ArrangeOnMesh(ctx context.Context, t *team.Team, c *config.TrainConfig, grid *ensemble.Grid) error {
	if t == nil {
		return nil
	}
	t.ShardedOptimiser = c.Train.Train.ShardOptimizer && t.Comm.Size() > 1
	n, batch := t.Comm.Size(), c.Train.Train.BatchSize
	var err error
	if text := c.Train.Train.Mesh; text != "" && text != autoMesh {
		t.Mesh, err = spatial.ParseMesh(text)
	} else {
		t.Mesh, err = fastestMesh(ctx, t, c, grid)
	}
	if err != nil {
		return err
	}
	if t.Mesh.Size() != n {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("a mesh of %d ranks (%v) in a job of %d processes", t.Mesh.Size(), t.Mesh, n), At: "train.mesh",
			Why: "every process needs a rank of the mesh", Fix: "change train.mesh, or start at most as many processes as it has ranks"}
	}
	return AssignSlabs(t, SpecOf(c), TaskOf(c), grid, batch)
}

// fastestMesh returns the mesh that rank 0 predicts to be fastest.
func fastestMesh(ctx context.Context, t *team.Team, c *config.TrainConfig, grid *ensemble.Grid) (spatial.Mesh, error) {
	var text string
	var err error
	if t.IsRoot() {
		text, err = fastestMeshText(ctx, t.Comm.Size(), c, grid)
	}
	if err := t.AgreeOnError(err); err != nil {
		return nil, err
	}
	if text, err = team.Broadcast(t, text); err != nil {
		return nil, err
	}
	return spatial.ParseMesh(text)
}

// fastestMeshText returns the mesh of a number of ranks as text.
func fastestMeshText(ctx context.Context, ranks int, c *config.TrainConfig, grid *ensemble.Grid) (string, error) {
	k := PlaceholderTask(TaskOf(c))
	g, err := SpecOf(c).Graph(&k, grid, c.Train.Train.BatchSize, uint64(c.Train.Train.Seed), true)
	if err != nil {
		return "", err
	}
	m, err := FastestMesh(ctx, g, MachineOf(c), ranks, OptimiserOf(&c.Train.Train), "train.mesh")
	return m.String(), err
}

// AssignSlabs assigns every rank of a team its slab of a network's fields, as the network will be divided for
// batches of n samples.
func AssignSlabs(t *team.Team, s network.Spec, k task.Task, g *ensemble.Grid, n int) error {
	if t == nil {
		return nil
	}
	if k.ErrorScale == nil {
		k = PlaceholderTask(k)
	}
	gr, err := s.Graph(&k, g, n, 0, true)
	if err != nil {
		return err
	}
	return t.AssignShards(gr, g, n)
}

// MeshRanks is the number of ranks of a mesh; 0: equal to the number of processes.
//
// Errors: exit 64 for an invalid mesh.
func MeshRanks(mesh string) (int, error) {
	if mesh == "" || mesh == autoMesh {
		return 0, nil
	}
	m, err := spatial.ParseMesh(mesh)
	return m.Size(), err
}

// DescribeRanks describes the number of ranks, and of the processes that host them if it differs.
func DescribeRanks(processes, ranks int) string {
	if ranks == processes {
		return humanise.Count(ranks, "rank")
	}
	return fmt.Sprintf("%s on %s", humanise.Count(ranks, "rank"), humanise.Count(processes, "process"))
}
