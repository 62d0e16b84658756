package spatial

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Plan is the part of a compiled graph that one rank computes. Inputs and outputs
// are the rank's shards.
type Plan struct {
	*engine.Plan
	*Sharded
	mesh Mesh
	rank int
	sums *gradientSums
	// shard divides the graph: Shard, or in tests with cuts at other places.
	shard func(*graph.Graph, Mesh, int) (*Sharded, error)
	// devices holds the exchanges between devices. It is nil if messages go through
	// host memory. Plan.transport describes the transport and is empty for a
	// backend without device memory.
	devices   *devicePlan
	transport string
}

// Compile compiles the part of g that this rank of c computes on mesh m. All ranks
// compile the same graph with the same options, and run their plans in step.
//
// It inserts these passes into those of the engine:
//
//	shard              after add-factors: the part of this rank, with communication
//	receive-layouts    before choose-layouts, on ranks other than 0
//	broadcast-layouts  after choose-layouts, on rank 0
//	fuse-halos         after choose-layouts
//	defer-sums         before schedule
//
// Errors: those of engine.Compile; exit.Usage if the mesh does not match the size
// of c or the network.
func Compile(g *graph.Graph, c *comm.Comm, m Mesh, o engine.Options) (*Plan, error) {
	return compile(g, c, m, o, nil)
}

// CompileShardedOptimiser is Compile for a sharded optimiser, Plan.Shards. Each
// rank holds the summed gradients of its own pieces of the parameters only; the
// gradient store of the plan is empty.
//
// Source: Rajbhandari et al. 2020, arXiv:1910.02054, stage 2 (gradients and
// optimiser state).
func CompileShardedOptimiser(g *graph.Graph, c *comm.Comm, m Mesh, o engine.Options) (*Plan, error) {
	return compile(g, c, m, o, func(p *Plan) { p.sums.sharded = true })
}

// compile implements Compile. If change is not nil, it adjusts the plan before the
// passes run. Tests use it to change the size of buckets, to make sums blocking and
// to cut fields at other places.
func compile(g *graph.Graph, c *comm.Comm, m Mesh, o engine.Options, change func(*Plan)) (*Plan, error) {
	if m.Size() != c.Size() {
		return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("mesh %[2]v has %[1]d ranks, the job has %[3]d", m.Size(), m, c.Size()),
			Why: "every rank has exactly one position in the mesh", Fix: "start as many ranks as the mesh has, or change the mesh"}
	}
	groups, err := m.Groups(c)
	if err != nil {
		return nil, err
	}
	p := &Plan{mesh: m, rank: c.Rank(), sums: newGradientSums(c), shard: Shard}
	if change != nil {
		change(p)
	}
	onHost := o.Backend == "" || o.Backend == "cpu" || o.Backend == "ref"
	if o.Passes == nil {
		o.Passes = pass.List
	}
	if o.Passes, err = pass.Without(o.Passes, o.Without); err != nil {
		return nil, err
	}
	o.Passes = trainingPasses(o.Passes, pass.Pass{Name: "shard",
		Purpose: "compute this rank's shard of every value and insert the communication",
		Run: func(u *pass.Unit) error {
			var err error
			if p.Sharded, err = p.shard(u.Graph, m, c.Rank()); err == nil {
				u.Graph = p.Local
			}
			return err
		}}, pass.Pass{Name: "defer-sums", Purpose: "sum gradients over ranks during the backward pass",
		Run: func(u *pass.Unit) error { return p.sums.deferIn(u, m, c.Rank(), onHost) }})
	if at := slices.IndexFunc(o.Passes, func(p pass.Pass) bool { return p.Name == "choose-layouts" }); at >= 0 {
		o.Passes = slices.Insert(o.Passes, at+1, pass.Pass{Name: "fuse-halos", Run: fuseHalos,
			Purpose: "let convolutions read the halo and the shard from separate buffers, without a copy of the shard"})
		if c.Rank() == 0 {
			o.Passes = slices.Insert(o.Passes, at+1, broadcastLayouts(c))
		} else {
			o.Passes = slices.Insert(o.Passes, at, receiveLayouts(c))
		}
	}
	e := &extension{plan: p, c: c, groups: groups, log: o.Log, buffers: &buffers{}}
	o.Extension = e
	if !onHost {
		o.Extension = &deviceExtension{e}
	}
	if p.Plan, err = engine.Compile(g, o); err != nil {
		return nil, err
	}
	if p.devices != nil {
		if err := p.devices.dev.(backend.Backend).Do(p.devices.allocate); err != nil {
			return nil, errors.Join(err, p.Close())
		}
	}
	if err := p.sums.assignGroups(groups); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	if p.sums.sharded {
		if p.sums.shards, err = newShards(p.sums, p.Plan); err != nil {
			return nil, errors.Join(err, p.Close())
		}
	}
	return p, nil
}

// extension runs the communication operations of a plan on values in host memory.
type extension struct {
	engine.NoExtension
	plan    *Plan
	c       *comm.Comm
	groups  map[string]*comm.Comm
	log     *slog.Logger
	buffers *buffers
}

// Kernels returns the kernel constructors of the operations of this package, by
// name.
func (e *extension) Kernels() map[string]func(backend.Request) (backend.Kernel, error) {
	return map[string]func(backend.Request) (backend.Kernel, error){
		gather.Name:     func(q backend.Request) (backend.Kernel, error) { return gatherKernel(e.c, e.buffers, q) },
		gatherHalo.Name: func(q backend.Request) (backend.Kernel, error) { return gatherHaloKernel(e.c, e.buffers, q) },
		crop.Name:       cropKernel,
		sumRanks.Name: func(q backend.Request) (backend.Kernel, error) {
			return sumKernel(e.groups[q.Attrs.(meshAxes).String()], q)
		},
		sumRanksDeferred.Name: e.plan.sums.prepare,
		joinMoments.Name: func(q backend.Request) (backend.Kernel, error) {
			return joinMomentsKernel(e.groups[q.Attrs.(joinMomentsAttrs).String()], q)
		},
	}
}

// Finish waits for the gradient sums of a run.
func (e *extension) Finish(err error) error { return e.plan.sums.finish(err) }

// TakeGrad copies the rank's pieces of a gradient to the shards.
func (e *extension) TakeGrad(param string, x backend.Tensor) { e.plan.sums.shards.take(param, x) }

// SumCosts returns the communication costs of this rank so far.
func (p *Plan) SumCosts() SumCosts { return p.sums.costs }

// Groups returns the process groups of a rank along every non-empty set of mesh
// axes, by their space-separated names. All ranks of the mesh call it in step. It
// sends no messages.
func (m Mesh) Groups(c *comm.Comm) (map[string]*comm.Comm, error) {
	out := map[string]*comm.Comm{}
	for set := 1; set < 1<<len(m); set++ {
		var names []string
		for i, a := range m {
			if set>>i&1 == 1 {
				names = append(names, a.Name)
			}
		}
		var ranks []int // with the same coordinates on all other axes
		for r := range m.Size() {
			same := true
			for i, a := range m {
				same = same && (set>>i&1 == 1 || m.Coordinate(r, a.Name) == m.Coordinate(c.Rank(), a.Name))
			}
			if same {
				ranks = append(ranks, r)
			}
		}
		group, err := c.Group(ranks)
		if err != nil {
			return nil, err
		}
		out[strings.Join(names, " ")] = group
	}
	return out, nil
}

// OwnedBox returns the box of an input of shape s that the rank owns.
func (p *Plan) OwnedBox(input string, s graph.Shape) Box {
	return p.mesh.Owned(p.Inputs[input], s, p.rank)
}

// ExtractBox copies the box own of an array of shape s to part, in row-major order.
//
// Shape: whole s; part the shape of own.
func ExtractBox(part, whole []float32, s graph.Shape, own Box) {
	at := 0
	c := subarray{own, s}
	c.eachRun(c.contiguousFrom(), func(i, n int) { at += copy(part[at:], whole[i:i+n]) })
}

// InsertBox copies part into the box own of an array of shape s. It is the inverse
// of ExtractBox.
//
// Shape: whole s; part the shape of own.
func InsertBox(whole, part []float32, s graph.Shape, own Box) {
	at := 0
	c := subarray{own, s}
	c.eachRun(c.contiguousFrom(), func(i, n int) { at += copy(whole[i:i+n], part[at:]) })
}
