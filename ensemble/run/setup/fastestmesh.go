package setup

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/optim/kfac"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/search"
)

// assumedAlpha is the assumed message latency between nodes like this one, through the kernel's network
// stack; the assumed bandwidth is 100 Gbit/s. Used if no machine is described.
const assumedAlpha = 5 * cluster.Microsecond

// TypicalMachine is the machine for which a training chooses its mesh if train.machine describes none:
// servers of some ten cores. Only the ratios of its rates matter.
var TypicalMachine = search.Machine{FLOPs: 5e11, Bytes: 5e10, PerNode: 1,
	InterNode: search.Link{Alpha: assumedAlpha, Rate: cluster.FastCable.Rate}, IntraNode: search.Link{Alpha: cluster.Microsecond, Rate: 10_000_000_000},
	OverlapHalos: true, OverlapGradients: true}

// Adam is the optimiser that plans assume without a configuration.
var Adam = search.Optimiser{State: 2}

// OptimiserOf returns the cost model of a training's optimiser. The memory of K-FAC depends on the network, a graph with a loss.
func OptimiserOf(c *config.Training, g *graph.Graph) (search.Optimiser, error) {
	o := Adam
	rule := c.Optimizer
	if rule == config.KFACOptimizer {
		rule = c.KFAC.Rule
	}
	if rule == "sgd" || rule == "lars" {
		o.State = 1
	}
	o.Average, o.Sharded = c.EMA.IsEnabled(), c.ShardOptimizer
	o.Compression = CompressionOf(c)
	if c.Optimizer == config.KFACOptimizer {
		layers, err := search.Factors(g, c.KFAC.MaxSide)
		if err != nil {
			return o, err
		}
		o.Curvature = kfac.Bytes(layers, KFACOptions(c))
	}
	return o, nil
}

// KFACOptions are the options of K-FAC on one rank.
func KFACOptions(c *config.Training) kfac.Options {
	return kfac.Options{Damping: c.KFAC.Damping, Decay: c.KFAC.Decay, History: c.KFAC.Adaptive, Delayed: c.KFAC.Delay > 0}
}

// ImbalanceOf returns the imbalance of the ranks of a described machine.
func ImbalanceOf(m *config.MachineConfig) search.Imbalance {
	if m == nil {
		return search.Imbalance{}
	}
	return search.Imbalance{Ranks: m.Imbalance.Ranks, Slowest: m.Imbalance.Slowest, Persistent: m.Imbalance.Persistent, Times: m.Imbalance.Times}
}

// DescribeMachine converts a machine configuration for the mesh search.
func DescribeMachine(m *config.MachineConfig) search.Machine {
	link := func(alphaUs, gbs float64) search.Link {
		return search.Link{Alpha: cluster.Time(math.Round(alphaUs * float64(cluster.Microsecond))), Rate: cluster.Rate(math.Round(1e9 * gbs))}
	}
	return search.Machine{FLOPs: 1e9 * m.Rank.GFLOPs, Bytes: 1e9 * m.Rank.GBs, Memory: int64(m.Rank.Memory), PerNode: m.Node.Ranks,
		InterNode: link(m.Network.LatencyUs, m.Network.GBs), IntraNode: link(m.IntraNode.LatencyUs, m.IntraNode.GBs),
		OverlapGradients: TypicalMachine.OverlapGradients, OverlapHalos: TypicalMachine.OverlapHalos}
}

// NoMeshError returns the error for a number of ranks into which a network's fields cannot be divided.
func NoMeshError(ranks int, at string, g *graph.Graph) error {
	why := fmt.Sprintf("the network has no field that %d ranks can divide", ranks)
	if i := slices.IndexFunc(g.Nodes, func(n *graph.Node) bool { return n.Kind == graph.KindInput && len(n.Shape) == len(search.AxisNames) }); i >= 0 {
		s := g.Nodes[i].Shape
		why = fmt.Sprintf("a batch of %d samples on %d levels of %d×%d points cannot be divided over %d ranks", s[0], s[2], s[3], s[4], ranks)
	}
	return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("no mesh of %d ranks", ranks), At: at, Why: why, Fix: "use fewer ranks, or raise train.batch_size"}
}

// autoMesh is the value of train.mesh that selects the mesh with the least predicted time.
const autoMesh = "auto"

// MachineOf returns the machine for which a training chooses its mesh.
func MachineOf(c *config.TrainConfig) search.Machine {
	if c.Machine == nil {
		return TypicalMachine
	}
	return DescribeMachine(c.Machine)
}

// FastestMesh returns the mesh of the ranks on which a training step is predicted to be fastest on a
// machine. The result is the same in every process of one program.
//
// Errors: exit 64 if no mesh exists, or none fits into the memory of a rank; that of the context.
func FastestMesh(ctx context.Context, g *graph.Graph, m search.Machine, ranks int, o search.Optimiser, at string) (spatial.Mesh, error) {
	r, err := search.Search(ctx, g, ranks, m, o, search.Options{PerStage: true})
	switch {
	case errors.Is(err, search.ErrMesh):
		err = NoMeshError(ranks, at, g)
	case errors.Is(err, search.ErrMemory):
		err = MemoryError(exit.Usage, ranks, m, r.Best, at)
	}
	return r.Best.Mesh, err
}

// MemoryError returns the error for ranks into whose memory no plan fits; leanest is the plan with the least
// memory.
func MemoryError(code exit.Code, ranks int, m search.Machine, leanest search.Plan, at string) *exit.Error {
	return &exit.Error{Code: code, What: fmt.Sprintf("no plan of %d ranks fits into memory", ranks), At: at,
		Why: fmt.Sprintf("a rank has %s, the plan with the least memory (%v) needs %s", config.Bytes(m.Memory), leanest.Mesh, config.Bytes(CeilMiB(leanest.Memory))),
		Fix: "use more ranks, or lower train.batch_size"}
}
