package search

import (
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
)

// Optimiser is what the training keeps beside parameters and gradients.
type Optimiser struct {
	State int // values for each parameter
	// Sharded tells that each rank has gradients and state of its share of the parameters only.
	Sharded bool
}

// optimiserShards is among how many ranks gradients and state of the optimiser are shared out.
func (p *costModel) optimiserShards() int {
	if p.n.Optimiser.Sharded {
		return p.mesh.Size()
	}
	return 1
}

// fixedMemory is what a rank holds on a mesh whatever the spreads of stages: parameters,
// gradients, state, and the room of a step, for which the spreads that the mesh names stand.
func (p *costModel) fixedMemory() int64 {
	if p.fixed == 0 {
		own := p.n.Parameters * int64(1+p.n.Optimiser.State) / int64(p.optimiserShards())
		p.fixed = 4*(p.n.Parameters+own) + p.workspace()
	}
	return p.fixed
}

// optimiserTime is that of a sweep over parameters, gradients and state, all read and
// all but the gradients written.
func optimiserTime(parameters int64, state int, bytes float64) cluster.Time {
	return seconds(4 * float64(parameters) * float64(3+2*state) / bytes)
}

// optimiser is the time behind the passes: moving parameters, and gathering them where each
// rank moves its own, with the bytes that a rank sends.
func (p *costModel) optimiser() (cluster.Time, int64) {
	shares := int64(p.optimiserShards())
	t, bytes := p.m.allGather(group{ranks: int(shares), stride: 1, intraNode: shares <= int64(p.m.perNode())}, p.n.Parameters)
	return t + optimiserTime(p.n.Parameters/shares, p.n.Optimiser.State, p.m.Bytes), bytes
}

// Scratch of a convolution: its filters as Winograd's products read and write them, and
// tiles. By measurement the most that kernels take.
const (
	scratchFilters = 3
	scratchTiles   = 2 << 20
)

// scratch is what the kernels of a layer need for themselves.
func (l *Layer) scratch() int64 {
	var most int64
	for _, w := range l.Filter {
		if w.Conv != nil {
			most = max(most, scratchFilters*w.Fixed+scratchTiles)
		}
	}
	return most
}

// workspace is by how much the most that lives at one time in the backward pass is more than all
// that is kept for it: gradients of fields between the layer that makes them and the last that
// reads them, scratch, and whole gradients of parameters in buckets, if ranks keep shares. What
// is kept is given up layer by layer. Messages have room of their own, there and back.
func (p *costModel) workspace() int64 {
	to := make([]stageSplit, len(p.cuts.stages))
	for i := range to {
		to[i] = make(stageSplit, len(p.mesh))
		for k := range to[i] {
			to[i][k] = byName
		}
	}
	part := func(f splitField) int64 {
		return int64(4 * float64(f.shape.Size()) * share(p.cuts.layout(p.mesh, to[p.cuts.stage(f.shape)], f), f.shape, nil))
	}
	kept := make([]int64, len(p.n.Layers))
	var live, all, messages int64
	for v := range p.n.Layers {
		c := p.stageCost(v, to)
		kept[v] = c.memory
		all += c.memory
		messages = max(messages, c.haloBytes+c.shuffleBytes)
	}
	live = all
	gradients := make([]int64, len(p.n.Layers)) // of results
	var most, filters int64
	for v := len(p.n.Layers) - 1; v >= 0; v-- {
		l := &p.n.Layers[v]
		if gradients[v] == 0 {
			gradients[v] = part(l.result())
			live += gradients[v]
		}
		if l.Joined { // parts of its gradient are those of its operands
			live -= gradients[v]
			gradients[v] = 0
		}
		for _, e := range l.From {
			if e.From != Input && gradients[e.From] == 0 {
				gradients[e.From] = part(e.operand())
				live += gradients[e.From]
			}
		}
		if filters += 4 * l.GradientValues; p.optimiserShards() == 1 {
			filters = 4 * l.GradientValues
		}
		most = max(most, live+l.scratch()+min(filters, bucketsInFlight*spatial.BucketBytes))
		live -= gradients[v] + kept[v]
	}
	return most - all + 2*messages
}

// bucketsInFlight is how many buckets of gradients there are at a time: one that fills, and
// those whose sums run.
const bucketsInFlight = 3
