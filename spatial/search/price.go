package search

import (
	"errors"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/cluster"
)

// Estimate is the predicted cost of a training step. Communication times are the
// exposed ones; the overlapped times are separate. Bytes per step are those that the slowest rank sends.
//
// Unit: times in picoseconds, the rest in bytes.
// Step = Forward + Backward + Gradients + Optimiser, to the picosecond; Compute, Halos, Shuffles and Sums are
// contained in Forward and Backward.
type Estimate struct {
	Step, Forward, Backward, Optimiser cluster.Time
	Compute                            cluster.Time // of both passes
	Halos, HalosOverlapped             cluster.Time
	Shuffles                           cluster.Time
	Sums                               cluster.Time // of statistics, within the passes
	Gradients, GradientsOverlapped     cluster.Time
	Gathers                            cluster.Time // of parameters by a sharded optimiser, within Optimiser

	HaloBytes, ShuffleBytes, SumBytes, GradientBytes int64
	// Memory per rank: parameters, gradients, optimiser state, the values of the step, workspace and messages.
	Memory int64
}

// pricer prices the scripts of a mesh with closed forms: all ranks do the same at the same time, and messages contend
// at the links of their own rank and node only.
type pricer struct {
	m         *Machine
	o         Optimiser
	mesh      spatial.Mesh
	strides   []int  // by mesh axis: difference between neighbouring ranks
	intraNode []bool // by mesh axis: ranks that differ along it share a node
}

// newPricer returns the pricer of a mesh. Ranks are placed as launchers place them: consecutive ones share a node, and
// the last axis of the mesh varies fastest.
func newPricer(m *Machine, o Optimiser, mesh spatial.Mesh) *pricer {
	p := &pricer{m: m, o: o, mesh: mesh, strides: make([]int, len(mesh)), intraNode: make([]bool, len(mesh))}
	stride := 1
	for k := len(mesh) - 1; k >= 0; k-- {
		p.strides[k] = stride
		stride *= mesh[k].Size
		p.intraNode[k] = mesh.Size() <= m.perNode() || m.perNode()%stride == 0
	}
	return p
}

// price compiles the step of a rank and returns its cost, with the memory if the values of the step can be addressed.
//
// Errors: a mesh on which the graph cannot be computed; graph.ErrShape for values that are too large for a rank.
func (p *pricer) price(g *graph.Graph, rank int) (Estimate, *spatial.RankStep, error) {
	s, step, err := newScript(g, p.m, p.o, p.mesh, rank)
	if err != nil {
		return Estimate{}, nil, err
	}
	e := p.time(s, rank)
	arena, err := step.ArenaBytes(workspaceOf)
	switch {
	case errors.Is(err, graph.ErrShape) && p.mesh.Size() == 1 && p.m.Memory == 0: // the reference of efficiencies may be too large for any machine
		return e, step, nil
	case err != nil:
		return e, step, err
	}
	e.Memory = p.memory(s, rank, arena)
	return e, step, nil
}

// over returns the group of ranks along mesh axes. Its stride is that of the axis that varies fastest, because a ring
// visits the ranks in ascending order.
func (p *pricer) over(axes []string) group {
	g := group{ranks: 1, stride: p.mesh.Size(), intraNode: true}
	for k, a := range p.mesh {
		for _, name := range axes {
			if a.Name == name {
				g.ranks *= a.Size
				g.stride = min(g.stride, p.strides[k])
				g.intraNode = g.intraNode && p.intraNode[k]
			}
		}
	}
	return g
}

// exchange returns the time of the transfers of one exchange for a rank: those that it receives or those that it
// sends, whichever take longer. Messages are in transit together, so their latency counts once:
//
//	t = max over links and directions of α + sharing·Σ bytes/rate
//
// with sharing 1 within the node, and the ranks of a node between nodes, which send at the same time. The bytes that
// the rank keeps itself cost nothing here; their copy is part of the operation.
func (p *pricer) exchange(s *script, rank, tag int) (t cluster.Time, sent int64) {
	var links [2]struct{ in, out linkLoad } // within the node, and between nodes
	node := func(r int) int { return r / p.m.perNode() }
	for _, v := range s.moves[tag] {
		if v.From == v.To {
			continue
		}
		at := 0
		if node(v.From) != node(v.To) {
			at = 1
		}
		if v.To == rank {
			links[at].in.add(v)
		} else {
			links[at].out.add(v)
			sent += 4 * int64(v.At.Size())
		}
	}
	for at, l := range links {
		link, sharing := p.m.IntraNode, 1.0
		if at == 1 {
			link, sharing = p.m.InterNode, float64(min(p.m.perNode(), p.mesh.Size()))
		}
		for _, load := range []linkLoad{l.in, l.out} {
			if load.messages > 0 {
				t = max(t, seconds(link.time(1, load.bytes, sharing)))
			}
		}
	}
	return t, sent
}

// linkLoad is what a rank sends or receives over a link.
type linkLoad struct{ messages, bytes float64 }

// add adds a transfer.
func (l *linkLoad) add(v spatial.Move) {
	l.messages++
	l.bytes += 4 * float64(v.At.Size())
}

// time returns the cost of a script without its memory. Exchanges use the link of the rank one after the other:
//
//	link = max(link, now) + t       at the start of an exchange, which arrives then
//	now  = max(now, link)           at the wait; the difference is its exposed time
//
// Gradients are summed in a queue:
//
//	queue = max(queue, now) + time of the sum
//
// The exposed time of the sums is max(0, queue − now) after the last action.
//
// Source: Dryden et al. 2019, arXiv:1903.06681, section V (queue of gradient sums).
func (p *pricer) time(s *script, rank int) (e Estimate) {
	var now, link, queue, deferred cluster.Time
	arrives, lasts := map[int]cluster.Time{}, map[int]cluster.Time{} // by tag
	spend := func(a *action, t cluster.Time) {
		now += t
		if a.backward {
			e.Backward += t
		} else {
			e.Forward += t
		}
	}
	for i := range s.actions {
		a := &s.actions[i]
		switch a.kind {
		case computes:
			e.Compute += a.time
			spend(a, a.time)
		case starts:
			t, sent := p.exchange(s, rank, a.tag)
			link = max(link, now) + t
			arrives[a.tag], lasts[a.tag] = link, t
			if s.shuffles[a.tag] {
				e.ShuffleBytes += sent
			} else {
				e.HaloBytes += sent
			}
		case waits:
			exposed := max(0, arrives[a.tag]-now)
			spend(a, exposed)
			if s.shuffles[a.tag] {
				e.Shuffles += exposed
			} else {
				e.Halos += exposed
				e.HalosOverlapped += max(0, lasts[a.tag]-exposed)
			}
		case sums, gathers:
			g := p.over(a.axes)
			t, bytes := p.sum(a)
			if a.kind == gathers {
				t, bytes = p.m.allGather(g, int64(a.values*g.ranks))
			}
			e.Sums += t
			e.SumBytes += bytes
			spend(a, t)
		case defers:
			t, bytes := p.sum(a)
			if p.o.shares(p.mesh) > 1 { // a sharded optimiser needs only the reduce-scatter
				t, bytes = t/2, bytes/2
			}
			queue = max(queue, now) + t
			deferred += t
			e.GradientBytes += bytes
		}
	}
	e.Gradients = max(0, queue-now)
	e.GradientsOverlapped = deferred - e.Gradients
	shares := int64(p.o.shares(p.mesh))
	t, bytes := p.m.allGather(group{ranks: int(shares), stride: 1, intraNode: shares <= int64(p.m.perNode())}, s.parameters)
	e.Gathers = t
	e.Optimiser = t + p.m.optimiserTime(s.parameters/shares, p.o.updated())
	e.GradientBytes += bytes
	e.Step = now + e.Gradients + e.Optimiser
	return e
}

// memory returns the memory of a rank:
//
//	4·(n + n·State/shares + average + gradients + residuals) + curvature + arena + messages
//
// with n parameters in float32 and State values of the optimiser per parameter. A moving average has n values,
// and so have the residuals of sparse sums and their momentum. shares is the number of ranks for
// a sharded optimiser, whose gradients are part of the arena; else it is 1, and n gradients are outside. The arena
// includes workspace. Buffers of messages are shared by all exchanges; the largest one determines them.
//
// Unit: bytes.
func (p *pricer) memory(s *script, rank int, arena int64) int64 {
	shares := int64(p.o.shares(p.mesh))
	bytes := p.o.bytes(s.parameters, shares) + arena
	if p.mesh.HasDataRanks() {
		bytes += 4 * p.o.residuals() * s.parameters
	}
	var messages int64
	for _, tag := range s.tags() {
		messages = max(messages, s.sentBytes(rank, tag))
	}
	return bytes + 2*messages
}
