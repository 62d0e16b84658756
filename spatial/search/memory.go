package search

import (
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
)

// Optimiser describes the memory of the optimiser.
type Optimiser struct {
	State int // values per parameter, such as 2 for Adam
	// Sharded means that each rank has gradients and state of its share of the
	// parameters only.
	Sharded bool
}

// optimiserShards returns the number of ranks that share the optimiser.
func (p *costModel) optimiserShards() int {
	if p.n.Optimiser.Sharded {
		return p.mesh.Size()
	}
	return 1
}

// fixedMemory returns the memory of a rank that does not depend on the selected
// splits:
//
//	4·(n + n·(1 + State)/shards) + workspace
//
// with n parameters in float32, one gradient and State values of the optimiser per
// parameter. shards is the number of ranks for a sharded optimiser, else 1. The
// workspace is estimated for the splits by name.
//
// Unit: bytes.
func (p *costModel) fixedMemory() int64 {
	if p.fixed == 0 {
		own := p.n.Parameters * int64(1+p.n.Optimiser.State) / int64(p.optimiserShards())
		p.fixed = 4*(p.n.Parameters+own) + p.workspace()
	}
	return p.fixed
}

// optimiserTime returns the time of one sweep over parameters, gradients and state.
// All are read, and all but the gradients are written: 3 + 2·State accesses of 4
// bytes per parameter.
//
// Unit: bytes is the memory bandwidth in bytes per second.
func optimiserTime(parameters int64, state int, bytes float64) cluster.Time {
	return seconds(4 * float64(parameters) * float64(3+2*state) / bytes)
}

// optimiser returns the time after the passes: the update of the parameters and,
// with a sharded optimiser, their all-gather; and the bytes that a rank sends.
func (p *costModel) optimiser() (cluster.Time, int64) {
	shares := int64(p.optimiserShards())
	t, bytes := p.m.allGather(group{ranks: int(shares), stride: 1, intraNode: shares <= int64(p.m.perNode())}, p.n.Parameters)
	return t + optimiserTime(p.n.Parameters/shares, p.n.Optimiser.State, p.m.Bytes), bytes
}

// Workspace of a convolution: copies of its filters for Winograd's algorithm, and
// tiles. The values are the measured maxima of the kernels.
const (
	scratchFilters = 3
	scratchTiles   = 2 << 20
)

// scratch returns the workspace of the layer's kernels.
func (l *Layer) scratch() int64 {
	var most int64
	for _, w := range l.Filter {
		if w.Conv != nil {
			most = max(most, scratchFilters*w.Fixed+scratchTiles)
		}
	}
	return most
}

// workspace returns by how much the peak memory of the backward pass exceeds the
// values saved for it. The peak consists of
//
//   - saved values, freed layer by layer,
//   - gradients of fields, from the layer that computes them to the last reader,
//   - workspaces of kernels,
//   - unsharded gradients of parameters in buckets, if the optimiser is sharded,
//   - message buffers, for sending and for receiving.
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
		if l.Joined { // its gradient consists of those of its operands
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

// bucketsInFlight is the number of gradient buckets in memory at a time: one that
// is filled, and those whose sums are in progress.
const bucketsInFlight = 3
