package search

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
)

// Plan is a distribution of every layer over a mesh, with what a step is predicted to
// take.
type Plan struct {
	Mesh   spatial.Mesh
	Layers []graph.Dist // of the results of the layers
	// Uniform plans cut every layer along the axes that the mesh names where it has enough
	// points: package spatial executes these, and no others.
	Uniform bool
	Estimate
	// Fits tells whether Memory is within the limit of the machine.
	Fits bool

	to []spread // by layer
}

// Estimate is what a step is predicted to take. Times of messages are those that computing
// waits for; what is hidden comes beside them. Bytes are those of the rank that has most, in
// a step.
type Estimate struct {
	Step, Forward, Backward, Optimiser cluster.Time
	Compute                            cluster.Time // in both passes
	Halos, HalosHidden                 cluster.Time
	Shuffles                           cluster.Time
	Sums                               cluster.Time // of statistics, within the passes
	Gradients, GradientsHidden         cluster.Time

	HaloBytes, ShuffleBytes, SumBytes, GradientBytes int64
	// Memory is parameters, gradients, state of the optimiser and what the backward pass
	// reads, without the scratch of kernels.
	Memory int64
}

// price is the cost of a layer of a plan, with that of its operands.
func (p *pricer) price(v int, to []spread) cost {
	c := p.layer(v, to[v])
	for i, e := range p.n.Layers[v].From {
		c = c.add(p.edge(v, i, from(to, e), to[v]))
	}
	return c
}

// evaluate goes through a step whose layers cost so much.
func (p *pricer) evaluate(price func(v int) cost) Estimate {
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
		if p.m.HideGradients {
			queue = max(queue, now)
		}
		queue += reduce[v]
	}
	exposed := queue
	if p.m.HideGradients {
		exposed = max(0, queue-now)
	}
	return Estimate{
		Step: all.forward + all.backward + exposed + p.optimiser(), Forward: all.forward, Backward: all.backward, Optimiser: p.optimiser(),
		Compute: all.compute, Halos: all.halo, HalosHidden: all.hidden, Shuffles: all.shuffle, Sums: all.sums,
		Gradients: exposed, GradientsHidden: all.reduce - exposed,
		HaloBytes: all.haloBytes, ShuffleBytes: all.shuffleBytes, SumBytes: all.sumBytes, GradientBytes: all.grads,
		Memory: all.memory + p.fixedMemory(),
	}
}

// from is the spread of the layer at the other end of an edge, nil for an input.
func from(to []spread, e Edge) spread {
	if e.From == Input {
		return nil
	}
	return to[e.From]
}

// optimiserTime is that of a sweep over parameters, gradients and state, all read and
// all but the gradients written.
func optimiserTime(parameters int64, state int, bytes float64) cluster.Time {
	return seconds(4 * float64(parameters) * float64(3+2*state) / bytes)
}

func (p *pricer) optimiser() cluster.Time { return optimiserTime(p.n.Parameters, p.n.State, p.m.Bytes) }

// fixedMemory is what every rank holds whatever the plan.
func (p *pricer) fixedMemory() int64 { return 4 * p.n.Parameters * int64(2+p.n.State) }

// plan completes a choice.
func (p *pricer) plan(to []spread) Plan {
	out := Plan{Mesh: p.mesh, to: to, Estimate: p.evaluate(func(v int) cost { return p.price(v, to) }), Uniform: true}
	out.Fits = p.m.Memory == 0 || out.Memory <= p.m.Memory
	usual := natural(p.mesh)
	for v, l := range p.n.Layers {
		cut := p.cuts.layout(p.mesh, to[v], l.Out)
		out.Uniform = out.Uniform && cut.same(p.cuts.layout(p.mesh, usual, l.Out))
		d := graph.Dist{Cuts: make([]graph.Cut, fieldAxes)}
		for axis, c := range cut {
			if c.mesh != none {
				d.Cuts[axis] = graph.Cut{Mesh: p.mesh[c.mesh].Name, Starts: c.starts}
			}
		}
		out.Layers = append(out.Layers, d)
	}
	return out
}

// uniform cuts all layers as the mesh names its axes.
func (p *pricer) uniform() Plan {
	to := make([]spread, len(p.n.Layers))
	for v := range to {
		to[v] = natural(p.mesh)
	}
	return p.plan(to)
}

// choices lists the spreads of each layer that differ there.
func (p *pricer) choices() [][]spread {
	all := make([][]spread, len(p.n.Layers))
	for v, l := range p.n.Layers {
		var seen []layout
	next:
		for _, s := range spreads(p.mesh) {
			cut := p.cuts.layout(p.mesh, s, l.Out)
			for _, other := range seen {
				if cut.same(other) {
					continue next
				}
			}
			seen = append(seen, cut)
			all[v] = append(all[v], s)
		}
	}
	return all
}

// Exhaustive tries all plans of a mesh. It judges the dynamic programme on small networks.
func Exhaustive(n Network, m Machine, mesh spatial.Mesh) Plan {
	p := newPricer(n, &m, mesh, newCutter(n))
	choices := p.choices()
	at := make([]int, len(choices))
	to := make([]spread, len(choices))
	known := map[string]cost{}
	price := func(v int) cost { // depends on the choices of the layer and of those that it reads
		key := fmt.Sprint(v, at[v])
		for _, e := range n.Layers[v].From {
			if e.From != Input {
				key += fmt.Sprint(" ", at[e.From])
			}
		}
		c, ok := known[key]
		if !ok {
			c = p.price(v, to)
			known[key] = c
		}
		return c
	}
	var best Plan
	for first := true; ; first = false {
		for v, i := range at {
			to[v] = choices[v][i]
		}
		e := p.evaluate(price)
		if fits := m.Memory == 0 || e.Memory <= m.Memory; first || fits && (!best.Fits || e.Step < best.Step) {
			best = p.plan(slices.Clone(to))
		}
		v := len(at) - 1
		for ; v >= 0; v-- {
			if at[v]++; at[v] < len(choices[v]) {
				break
			}
			at[v] = 0
		}
		if v < 0 {
			return best
		}
	}
}
