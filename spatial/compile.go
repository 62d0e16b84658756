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

// Plan is the part of a compiled graph that one rank computes. Inputs and outputs hold
// the rank's own parts.
type Plan struct {
	*engine.Plan
	*Sharded
	mesh Mesh
	rank int
	sums *gradientSums
	// devices are the exchanges whose values stay on devices; nil if the program exchanges all. Links says which, and
	// why, and nothing where there are no devices with memory of their own.
	devices   *devicePlan
	transport string
}

// Compile compiles the part of g that this rank of c computes, over a mesh of as many
// ranks. All ranks compile the same graph with the same options, and run their plans
// together, step by step.
//
// Errors: as for engine.Compile; exit.Usage for a mesh that does not fit the group or
// the network.
func Compile(g *graph.Graph, c *comm.Comm, m Mesh, o engine.Options) (*Plan, error) {
	return compile(g, c, m, o, nil)
}

// CompileShardedOptimiser is Compile for ranks that share an optimiser, Plan.Shards: each has the
// gradients of its own pieces of the parameters, in the shards, and the store has none.
func CompileShardedOptimiser(g *graph.Graph, c *comm.Comm, m Mesh, o engine.Options) (*Plan, error) {
	return compile(g, c, m, o, func(s *gradientSums) { s.sharded = true })
}

// compile is Compile; change, if not nil, sees how gradients are summed before the rest
// is made.
func compile(g *graph.Graph, c *comm.Comm, m Mesh, o engine.Options, change func(*gradientSums)) (*Plan, error) {
	if m.Size() != c.Size() {
		return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("a mesh of %d ranks (%v) for %d", m.Size(), m, c.Size()),
			Why: "every rank has one place in the mesh", Fix: "start as many ranks as the mesh has, or choose another mesh"}
	}
	groups, err := m.Groups(c)
	if err != nil {
		return nil, err
	}
	p := &Plan{mesh: m, rank: c.Rank(), sums: newGradientSums(c)}
	if change != nil {
		change(p.sums)
	}
	if o.Passes == nil {
		o.Passes = pass.List
	}
	at := slices.IndexFunc(o.Passes, func(p pass.Pass) bool { return p.Name == "add-gradients" })
	o.Passes = slices.Insert(slices.Clone(o.Passes), at+1, pass.Pass{Name: "shard", Required: true,
		Purpose: "compute this rank's part of every value, and exchange what it needs of others",
		Run: func(u *pass.Unit) error {
			var err error
			if p.Sharded, err = Shard(u.Graph, m, c.Rank()); err == nil {
				u.Graph = p.Local
			}
			return err
		}})
	if at = slices.IndexFunc(o.Passes, func(p pass.Pass) bool { return p.Name == "choose-layouts" }); at >= 0 {
		o.Passes = slices.Insert(o.Passes, at+1, pass.Pass{Name: "fuse-halos", Run: fuseHalos,
			Purpose: "let operations read halos apart from what they surround"})
		if c.Rank() == 0 {
			o.Passes = slices.Insert(o.Passes, at+1, broadcastLayouts(c))
		} else {
			o.Passes = slices.Insert(o.Passes, at, receiveLayouts(c))
		}
	}
	at = slices.IndexFunc(o.Passes, func(p pass.Pass) bool { return p.Name == "schedule" })
	o.Passes = slices.Insert(o.Passes, at, pass.Pass{Name: "defer-sums", Purpose: "let the sums of gradients over ranks run beside the backward pass",
		Run: func(u *pass.Unit) error {
			if p.sums.sharded {
				u.ExternalGrads = p.sums.lifetimes(u.ElemBytes)
			}
			return deferSums(u)
		}})
	e := &extension{plan: p, c: c, groups: groups, log: o.Log, buffers: &buffers{}}
	o.Extension = e
	if o.Backend != "" && o.Backend != "cpu" && o.Backend != "ref" {
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

// extension runs the operations between ranks of a plan, by the memory of the program.
type extension struct {
	engine.NoExtension
	plan    *Plan
	c       *comm.Comm
	groups  map[string]*comm.Comm
	log     *slog.Logger
	buffers *buffers
}

// Kernels are those of all operations of this package.
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

// Finish ends the sums of gradients.
func (e *extension) Finish(err error) error { return e.plan.sums.finish(err) }

// TakeGrad puts a gradient into the shards.
func (e *extension) TakeGrad(param string, x backend.Tensor) { e.plan.sums.shards.take(param, x) }

// SumCosts is what the sums of gradients have cost this rank so far.
func (p *Plan) SumCosts() SumCosts { return p.sums.costs }

// Groups are those of a rank along every set of axes of the mesh, by their names. All ranks
// of the mesh make them in step; no messages are sent.
func (m Mesh) Groups(c *comm.Comm) (map[string]*comm.Comm, error) {
	out := map[string]*comm.Comm{}
	for set := 1; set < 1<<len(m); set++ {
		var names []string
		for i, a := range m {
			if set>>i&1 == 1 {
				names = append(names, a.Name)
			}
		}
		var ranks []int // that stand where this one does on the other axes
		for r := range m.Size() {
			here := true
			for i, a := range m {
				here = here && (set>>i&1 == 1 || m.Coordinate(r, a.Name) == m.Coordinate(c.Rank(), a.Name))
			}
			if here {
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

// OwnedBox is the rank's own part of an input of the graph.
func (p *Plan) OwnedBox(input string, s graph.Shape) Box {
	return p.mesh.Owned(p.Inputs[input], s, p.rank)
}

// ExtractBox copies a rank's part of a whole value.
func ExtractBox(part, whole []float32, s graph.Shape, own Box) {
	at := 0
	c := subarray{own, s}
	c.eachRun(c.contiguousFrom(), func(i, n int) { at += copy(part[at:], whole[i:i+n]) })
}

// InsertBox copies a rank's part into a whole value.
func InsertBox(whole, part []float32, s graph.Shape, own Box) {
	at := 0
	c := subarray{own, s}
	c.eachRun(c.contiguousFrom(), func(i, n int) { at += copy(whole[i:i+n], part[at:]) })
}
