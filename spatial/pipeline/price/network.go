package price

import (
	"context"
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
	"github.com/ensemble-weather/ensemble/spatial/pipeline"
	"github.com/ensemble-weather/ensemble/spatial/search"
)

// Network is a training graph, with the samples of one micro-batch of a data rank, of which pipelines are priced.
type Network struct {
	g      *graph.Graph
	m      search.Machine
	o      search.Optimiser
	layers []pipeline.Layer // with the times of their operations
	steps  map[string]search.Plan
	layerFactors
}

// layerFactors are the layers with their Kronecker factors, and the times of these.
type layerFactors struct {
	maxSide int // 0 before they are priced
	list    []pass.LayerFactors
	times   []cluster.Time
}

// factors prices the Kronecker factors of sides of at most maxSide.
func (n *Network) factors(maxSide int) (layerFactors, error) {
	if n.maxSide != maxSide {
		list, times, err := n.m.FactorTimes(n.g, maxSide)
		if err != nil {
			return layerFactors{}, err
		}
		n.layerFactors = layerFactors{maxSide, list, times}
	}
	return n.layerFactors, nil
}

// NewNetwork returns a network on a machine. The optimiser has no sharded or sparse sums, and the memory of K-FAC is not part of it.
func NewNetwork(g *graph.Graph, m search.Machine, o search.Optimiser) *Network {
	o.Sharded, o.Compression, o.Curvature = false, nil, 0
	return &Network{g: g, m: m.Unlimited(), o: o, steps: map[string]search.Plan{},
		layers: pipeline.Layers(g, func(n *graph.Node) cluster.Time { return m.OperationTime(g, n) })}
}

// step prices a step without a pipeline on the ranks of a mesh, with Kronecker factors of sides of at most maxSide; 0 for none.
func (n *Network) step(ctx context.Context, mesh spatial.Mesh, maxSide int) (search.Plan, error) {
	key := fmt.Sprint(mesh, maxSide)
	if p, ok := n.steps[key]; ok {
		return p, nil
	}
	p, err := search.CostWithFactors(ctx, n.g, n.m, n.o, mesh, maxSide)
	if err == nil {
		n.steps[key] = p
	}
	return p, err
}

// Pipeline is a network in stages.
type Pipeline struct {
	Division  *pipeline.Division
	Recompute bool // backward passes compute the forward pass again, as with train.pipeline.recompute; set by the caller

	network *Network
	mesh    spatial.Mesh   // of the ranks of a stage
	whole   search.Plan    // a step of the ranks of a stage with the same samples, without a pipeline
	costs   pipeline.Costs // of a micro-batch
}

// Divide divides the layers of the network into stages, each for the ranks of a mesh, and prices their passes.
//
// The computation of a stage is its share, by the layers' operations, of that of a step on one rank, which is priced after the
// compiler's passes, or on the mesh of the ranks that compute a stage together; nil is one rank. These sum gradients in each backward
// pass. Ranks along its axis data have pipelines of their own. The slowest link of the ranks determines the cuts.
//
// Errors: exit.Usage for more stages than layers; a mesh on which the graph cannot be computed; that of the context.
func (n *Network) Divide(ctx context.Context, stages int, mesh spatial.Mesh) (*Pipeline, error) {
	whole, err := n.step(ctx, mesh.Fields(), 0)
	if err != nil {
		return nil, err
	}
	layers := slices.Clone(n.layers)
	var all cluster.Time
	for _, l := range layers {
		all += l.Cost
	}
	forward, backward := whole.Forward, whole.Backward+whole.Gradients
	for i := range layers {
		layers[i].Cost = scaled(forward+backward, float64(layers[i].Cost)/float64(all))
	}
	each, shards := mesh.Size(), int64(mesh.Fields().Size()) // each rank sends its shard to one rank of the next stage
	send := func(from, to int, bytes int64) cluster.Time {
		return n.m.MessageTime(from*each, to*each, each, bytes/shards)
	}
	d, err := pipeline.Divide(layers, stages, func(bytes int64) cluster.Time { return send(0, stages-1, bytes) })
	if err != nil {
		return nil, err
	}
	p := &Pipeline{Division: d, network: n, mesh: mesh, whole: whole, costs: pipeline.EqualCosts(stages, 0, 0, 0)}
	for k := range stages {
		p.costs.Forward[k], p.costs.Backward[k] = scaled(forward, d.Share(k)), scaled(backward, d.Share(k))
		if k < stages-1 {
			p.costs.Send[k] = send(k, k+1, d.Crossing(k))
		}
	}
	return p, nil
}

// scaled is a share of a time.
func scaled(t cluster.Time, share float64) cluster.Time { return cluster.Time(share * float64(t)) }

// Check refuses a pipeline whose stages cannot be computed.
//
// Errors: exit.Usage, those of pipeline.Split.
func (p *Pipeline) Check() error {
	_, err := pipeline.Split(p.network.g, p.Division)
	return err
}

// passes are the times of the passes of a micro-batch. If backward passes compute the forward pass again, the last stage computes it
// only then.
func (p *Pipeline) passes() pipeline.Costs {
	if !p.Recompute {
		return p.costs
	}
	c := pipeline.Costs{Forward: slices.Clone(p.costs.Forward), Backward: slices.Clone(p.costs.Backward), Send: p.costs.Send}
	for k, f := range c.Forward {
		c.Backward[k] += f
	}
	c.Forward[len(c.Forward)-1] = 0
	return c
}

// owners are the parameters that each rank of a stage updates.
type owners struct {
	sums   []pipeline.Sum
	values [][]int64 // by sum and rank of the worker that sums
}

// own divides the parameters of each sum over the ranks of its worker: chunks in turn, or as turns states for a parameter.
func (p *Pipeline) own(s *pipeline.Schedule, turns map[string]int) owners {
	each := p.mesh.Size()
	o := owners{sums: p.Division.Sums(p.network.g, s)}
	of := map[string]int{} // sum of a parameter
	for i, x := range o.sums {
		o.values = append(o.values, make([]int64, each))
		for _, name := range x.Params {
			of[name] = i
		}
	}
	chunk := 0 // counted over all parameters in the order of the graph, as trainings do
	for _, n := range p.network.g.Nodes {
		if n.Kind != graph.KindParam {
			continue
		}
		i, isRead := of[n.Name]
		for _, size := range optim.ChunkSizes(n.Shape.Size()) {
			turn, ok := turns[n.Name]
			if !ok {
				turn = chunk % each
			}
			if chunk++; isRead {
				o.values[i][turn] += int64(size)
			}
		}
	}
	return o
}

// byRank are the values that each rank of the job updates.
func (p *Pipeline) byRank(s *pipeline.Schedule, o owners) []int64 {
	each := p.mesh.Size()
	out := make([]int64, s.Stages*each)
	for i, x := range o.sums {
		for r, n := range o.values[i] {
			out[x.Workers(s)[0]*each+r] += n
		}
	}
	return out
}

// exchange lists the messages that give updated parameters to the ranks that hold a copy.
func (p *Pipeline) exchange(s *pipeline.Schedule, o owners) (all []search.Transfer) {
	each := p.mesh.Size()
	for i, x := range o.sums {
		workers := x.Workers(s)
		for r, n := range o.values[i] {
			for _, w := range workers {
				if n > 0 {
					all = append(all, search.Transfer{From: workers[0]*each + r, First: w * each, Count: each, Bytes: 4 * n})
				}
			}
		}
	}
	return all
}

// parameters is the number of trained values of the network.
func (n *Network) parameters() (all int64) {
	for _, x := range n.g.Nodes {
		if x.Kind == graph.KindParam {
			all += int64(x.Shape.Size())
		}
	}
	return all
}
