package setup

import (
	"errors"
	"fmt"
	"math"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/search"
)

// The network of nodes like this one, if none is described: 100 Gbit/s with the delay of a
// message through a kernel's path to its card. An assumption.
const assumedAlpha = 5 * cluster.Microsecond

// TypicalMachine is that on which a training chooses its mesh when it starts if train.machine describes
// none, with rates of a server of some ten cores. Only their ratios matter.
var TypicalMachine = search.Machine{FLOPs: 5e11, Bytes: 5e10, PerNode: 1,
	InterNode: search.Link{Alpha: assumedAlpha, Rate: cluster.FastCable.Rate}, IntraNode: search.Link{Alpha: cluster.Microsecond, Rate: 10_000_000_000},
	OverlapHalos: true, OverlapGradients: true}

// Adam is the optimiser that is planned for where no configuration names one.
var Adam = search.Optimiser{State: 2}

// OptimiserOf is that of a training.
func OptimiserOf(c *config.Training) search.Optimiser {
	o := Adam
	if c.Optimizer == "sgd" || c.Optimizer == "lars" {
		o.State = 1
	}
	if c.EMA > 0 {
		o.State++
	}
	o.Sharded = c.ShardOptimizer
	return o
}

// CanShard tells whether the pass that cuts graphs takes a mesh.
func CanShard(g *graph.Graph) func(spatial.Mesh) bool {
	return func(m spatial.Mesh) bool { return search.CheckExecutable(g, m) == nil }
}

// DescribeMachine is a machine as planning takes it.
func DescribeMachine(m *config.MachineConfig) search.Machine {
	link := func(alphaUs, gbs float64) search.Link {
		return search.Link{Alpha: cluster.Time(math.Round(alphaUs * float64(cluster.Microsecond))), Rate: cluster.Rate(math.Round(1e9 * gbs))}
	}
	return search.Machine{FLOPs: 1e9 * m.Rank.GFLOPs, Bytes: 1e9 * m.Rank.GBs, Memory: int64(m.Rank.Memory), PerNode: m.Node.Ranks,
		InterNode: link(m.Network.LatencyUs, m.Network.GBs), IntraNode: link(m.IntraNode.LatencyUs, m.IntraNode.GBs),
		OverlapGradients: TypicalMachine.OverlapGradients, OverlapHalos: TypicalMachine.OverlapHalos}
}

// NoMeshError is the error of a number of ranks that the fields of a network do not part into.
func NoMeshError(ranks int, at string, n search.Network) error {
	s := n.Layers[0].Out
	return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("no mesh of %d ranks", ranks), At: at,
		Why: fmt.Sprintf("a batch of %d samples on %d levels of %d×%d points does not part so", s[0], s[2], s[3], s[4]), Fix: "take fewer ranks, or raise train.batch_size"}
}

// autoMesh is what train.mesh says for the mesh that is predicted to take least time.
const autoMesh = "auto"

// MachineOf is the machine on which a training chooses its mesh.
func MachineOf(c *config.TrainConfig) search.Machine {
	if c.Machine == nil {
		return TypicalMachine
	}
	return DescribeMachine(c.Machine)
}

// FastestMesh is the mesh of so many ranks, with its changes, on which a step of a graph with
// a loss is predicted to take least time on a machine. It is the same in every process of
// one program.
//
// Errors: exit 64 if there is none, or none that fits into the memory of a rank.
func FastestMesh(g *graph.Graph, m search.Machine, ranks int, o search.Optimiser, at string) (spatial.Mesh, error) {
	n, err := search.Layers(g, o)
	if err != nil {
		return nil, err
	}
	r, err := search.Search(n, ranks, m, search.Options{PerStage: true, IsExecutable: CanShard(g)})
	switch {
	case errors.Is(err, search.ErrMesh):
		err = NoMeshError(ranks, at, n)
	case errors.Is(err, search.ErrMemory):
		err = MemoryError(exit.Usage, ranks, m, r.Best, at)
	}
	return r.Best.Mesh, err
}

// MemoryError is the error of ranks into whose memory no plan fits, with the leanest.
func MemoryError(code exit.Code, ranks int, m search.Machine, leanest search.Plan, at string) error {
	return &exit.Error{Code: code, What: fmt.Sprintf("no plan of %d ranks fits into memory", ranks), At: at,
		Why: fmt.Sprintf("a rank has %s, the leanest plan (%v) holds %s", config.Bytes(m.Memory), leanest.Mesh, config.Bytes(CeilMiB(leanest.Memory))),
		Fix: "take more ranks, or lower train.batch_size"}
}
