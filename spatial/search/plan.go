package search

import (
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
)

// Plan is a distribution of every layer over a mesh, with its predicted costs.
type Plan struct {
	Mesh   spatial.Mesh         // with overrides
	Layers []graph.Distribution // distributions of the results of the layers
	Estimate
	Fits bool // whether Memory is within the limit of the machine
}

// IsUniform reports whether every layer is split along the axes that the mesh
// names, where it has enough points.
func (p Plan) IsUniform() bool {
	return !slices.ContainsFunc(p.Mesh, func(a spatial.MeshAxis) bool { return len(a.Overrides) > 0 })
}

// Estimate is the predicted cost of a training step. Communication times are the
// exposed ones; the overlapped times are separate. Bytes per step are those of the
// rank with most.
type Estimate struct {
	Step, Forward, Backward, Optimiser cluster.Time
	Compute                            cluster.Time // of both passes
	Halos, HalosOverlapped             cluster.Time
	Shuffles                           cluster.Time
	Sums                               cluster.Time // of statistics, within the passes
	Gradients, GradientsOverlapped     cluster.Time

	HaloBytes, ShuffleBytes, SumBytes, GradientBytes int64
	// Memory per rank: parameters, gradients, optimiser state, saved fields, and
	// the peak of gradients, workspaces and messages.
	Memory int64
}

// stageCost returns the cost of a layer with that of its operands, for a split of
// each stage. The cost of a step is the sum over the layers, apart from the queue
// of gradient sums.
func (p *costModel) stageCost(v int, to []stageSplit) cost {
	l := &p.n.Layers[v]
	own := to[p.cuts.stage(l.Out)]
	c := p.layerCost(v, own)
	for i, e := range l.From {
		c = c.add(p.edgeCost(v, i, to[p.cuts.stage(e.Shape)], own))
	}
	return c
}

// evaluate simulates a step whose layers have the given costs: the forward pass,
// then the backward pass with the queue of gradient sums. now is the end of the
// backward pass up to a layer, queue the end of the sums:
//
//	queue = max(queue, now) + reduce
//
// With overlap the exposed time of the sums is max(0, queue − now), otherwise all
// of it.
func (p *costModel) evaluate(price func(v int) cost) Estimate {
	var all cost
	backward := make([]cluster.Time, len(p.n.Layers))
	reduce := make([]cluster.Time, len(p.n.Layers))
	for v := range p.n.Layers {
		c := price(v)
		backward[v], reduce[v] = c.backward, c.reduce
		all = all.add(c)
	}
	var now, queue cluster.Time
	for v := len(backward) - 1; v >= 0; v-- {
		now += backward[v]
		if p.m.OverlapGradients {
			queue = max(queue, now)
		}
		queue += reduce[v]
	}
	exposed := queue
	if p.m.OverlapGradients {
		exposed = max(0, queue-now)
	}
	optimiser, gathered := p.optimiser()
	return Estimate{
		Step: all.forward + all.backward + exposed + optimiser, Forward: all.forward, Backward: all.backward, Optimiser: optimiser,
		Compute: all.compute, Halos: all.halo, HalosOverlapped: all.overlapped, Shuffles: all.shuffle, Sums: all.sums,
		Gradients: exposed, GradientsOverlapped: all.reduce - exposed,
		HaloBytes: all.haloBytes, ShuffleBytes: all.shuffleBytes, SumBytes: all.sumBytes, GradientBytes: all.grads + gathered,
		Memory: all.memory + p.fixedMemory(),
	}
}

// plan returns the plan of the given splits, by stage.
func (p *costModel) plan(to []stageSplit) Plan {
	out := Plan{Mesh: p.cuts.withOverrides(p.mesh, to), Estimate: p.evaluate(func(v int) cost { return p.stageCost(v, to) })}
	out.Fits = p.m.Memory == 0 || out.Memory <= p.m.Memory
	for i := range p.n.Layers {
		l := &p.n.Layers[i]
		d := graph.Distribution{Axes: make([]graph.AxisPartition, fieldAxes)}
		for axis, c := range p.cuts.layout(p.mesh, to[p.cuts.stage(l.Out)], l.result()) {
			if c.mesh != noAxis {
				d.Axes[axis] = graph.AxisPartition{MeshAxis: p.mesh[c.mesh].Name, Starts: c.starts}
			}
		}
		out.Layers = append(out.Layers, d)
	}
	return out
}
