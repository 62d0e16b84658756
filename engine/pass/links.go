package pass

import (
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/pass/offload"
)

// links are the copies between the memory of a device and that of the program, one engine
// in each direction, that work beside the kernels. A result leaves for a while: it is
// copied to the program's memory once, behind the operation that computes it, its room is
// free from the end of that copy on, and it takes room again where the copy back begins.
type links struct {
	toHost, fromHost float64   // elements a second
	time             []float64 // seconds of a kernel, by the number in an order; 0 of a fetch
	free, wanted     []bool    // memory for the comparison of orders
}

// copyWeights are the parts of the time of a copy that count while orders are compared: copies
// that cost nothing, as while they are hidden, so much that there are none unless nothing
// else is left, and what lies between. If the first two find nothing that fits there is
// nothing; else all are tried.
var copyWeights = []float64{0, 1e3, 0.25, 1, 4}

// enableCopies lets orders fetch results, and takes times from the backend. The cost of an
// operation is then that of the device.
func (p *orderModel) enableCopies(u *Unit, toHost, fromHost float64) {
	n := len(p.g.Nodes)
	l := &links{toHost: toHost / float64(u.ElemBytes), fromHost: fromHost / float64(u.ElemBytes)}
	if u.Seconds != nil {
		for i, nd := range p.g.Nodes {
			if nd.Kind == graph.KindOp && !nd.Op.Alias {
				p.cost[i] = u.Seconds(requestOf(p.g, nd))
			}
		}
	}
	l.time = append(slices.Clone(p.cost), make([]float64, n)...)
	p.size = append(p.size, p.size...)
	p.recomputable = append(p.recomputable, p.recomputable...)
	p.cost = append(p.cost, make([]float64, n)...)
	p.reads = append(p.reads, make([][]int, n)...)
	p.inPlace = append(p.inPlace, make([][]int, n)...)
	p.stays = append(p.stays, make([]bool, n)...)
	p.forward = append(p.forward, make([]bool, n)...)
	p.cheap = append(p.cheap, make([]bool, n)...)
	for i := range n {
		p.opOf = append(p.opOf, i)
	}
	p.links = l
}

// fetchNumber is the number of the fetch of a result in orders.
func (p *orderModel) fetchNumber(id int) int { return id + len(p.g.Nodes) }

// setCopyWeight sets what the time of a copy counts while orders are compared.
func (p *orderModel) setCopyWeight(weight float64) {
	l := p.links
	for id := range p.g.Nodes {
		p.cost[p.fetchNumber(id)] = weight * float64(p.size[id]) / min(l.toHost, l.fromHost)
	}
}

// fetched tells of each operation whether an order fetches its result.
func (p *orderModel) fetched(order []int) []bool {
	l := p.links
	l.free = reset(l.free, len(p.g.Nodes))
	for _, id := range order {
		if id != p.opOf[id] {
			l.free[id-len(p.g.Nodes)] = true
		}
	}
	return l.free
}

// firstComputes marks the places of an order that compute a result for the first time, and gives
// room for a mark of each operation; nothing if there are no links.
func (p *orderModel) firstComputes(order []int) (first, wanted []bool) {
	if p.links == nil {
		return nil, nil
	}
	first = make([]bool, len(order))
	p.links.wanted = reset(p.links.wanted, len(p.g.Nodes))
	for t, id := range order {
		first[t] = !p.links.wanted[p.opOf[id]]
		p.links.wanted[p.opOf[id]] = true
	}
	clear(p.links.wanted)
	return first, p.links.wanted
}

// isFetched tells whether a part of an order fetches a result.
func (p *orderModel) isFetched(order []int, id int) bool {
	return p.links != nil && slices.Contains(order, p.fetchNumber(id))
}

// fetchAt fetches a result right before place q of the order of a. The order is written to the
// memory of to.
func (p *orderModel) fetchAt(a *measuredOrder, id, q int, to []int) []int {
	order := append(append(to[:0], a.order[:q]...), p.fetchNumber(id))
	return p.tidy(append(order, a.order[q:]...))
}

// planLetters are those that plans of blocks may use.
func (p *orderModel) planLetters() string {
	if p.links == nil {
		return string([]byte{offload.Keep, offload.Recompute})
	}
	return string([]byte{offload.Keep, offload.Recompute, offload.Swap})
}

// machine is what package offload plans for, with so many elements for interiors.
func (p *orderModel) machine(memory float64) offload.Machine {
	m := offload.Machine{Memory: memory}
	if p.links != nil {
		m.ToHost, m.FromHost = p.links.toHost, p.links.fromHost
	}
	return m
}

// stepKind is what a step of a written order does.
type stepKind uint8

const (
	compute      stepKind = iota
	beginOffload          // copies a result to the program's memory, beside the steps that follow
	endOffload            // waits for that; the room of the result is free behind it
	beginFetch            // copies it back, to room that is taken from here on
	endFetch              // waits for that; who reads the result stands behind it
)

// step is one operation, or one end of a copy of its result.
type step struct {
	kind stepKind
	op   int
}

// lastReads gives the last place that reads the result of each place of an order.
func (p *orderModel) lastReads(order []int) []int {
	last, now := make([]int, len(order)), make([]int, len(p.g.Nodes))
	for t, id := range order {
		for _, r := range p.reads[id] {
			last[now[r]] = t
		}
		now[p.opOf[id]], last[t] = t, t
	}
	return last
}

// blockingSteps are the steps of an order whose copies begin and end in one place, so that the
// memory is the least: to the program right behind the last reader before, and back right
// before the next.
func (p *orderModel) blockingSteps(order []int) []step {
	steps := make([]step, 0, len(order))
	if p.links == nil {
		for _, id := range order {
			steps = append(steps, step{compute, id})
		}
		return steps
	}
	leaves := slices.Clone(p.fetched(order))
	last := p.lastReads(order)
	behind := map[int][]int{}
	for t, id := range order {
		if r := p.opOf[id]; r != id {
			steps = append(steps, step{beginFetch, r}, step{endFetch, r})
		} else {
			steps = append(steps, step{compute, id})
			if leaves[id] {
				leaves[id] = false
				behind[last[t]] = append(behind[last[t]], id)
			}
		}
		for _, r := range behind[t] {
			steps = append(steps, step{beginOffload, r}, step{endOffload, r})
		}
	}
	return steps
}

// copyWriter writes copies as nodes of a graph.
type copyWriter struct {
	out                    *graph.Graph
	source, host, fetching []int // by operation: what leaves, where it lies, and what comes back
}

// add writes one step of a copy of n, whose present copy is now.
func (m *copyWriter) add(n *graph.Node, what stepKind, now int) int {
	id := len(m.out.Nodes)
	c := &graph.Node{ID: id, Kind: graph.KindOp, Attrs: struct{}{}, Shape: n.Shape, DType: n.DType, Layout: n.Layout, Distribution: n.Distribution, At: n.At}
	switch what {
	case beginOffload:
		c.Op, c.In = op.OffloadStartOp, []int{now}
		m.source[n.ID], m.host[n.ID] = now, id
	case endOffload:
		c.Op, c.In = op.OffloadDoneOp, []int{m.host[n.ID], m.source[n.ID]}
		m.host[n.ID] = id
	case beginFetch:
		c.Op, c.In = op.FetchStartOp, []int{m.host[n.ID]}
		m.fetching[n.ID] = id
	case endFetch:
		c.Op, c.In = op.FetchDoneOp, []int{m.fetching[n.ID]}
	}
	m.out.Nodes = append(m.out.Nodes, c)
	return id
}
