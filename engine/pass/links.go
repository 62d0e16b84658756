package pass

import (
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/pass/offload"
)

// Links describes the copies between a device and where results go that its memory cannot keep.
type Links struct {
	ToHost, FromHost float64 // bytes per second; 0: no copies
	// Lost is the time that kernels lose to a copy, in seconds per byte of either direction: a copy that needs a processor
	// takes it from them if none is idle.
	Lost float64
	// Margin is the share of the time that a plan with copies has to save over one that only recomputes. It covers rates
	// that vary from step to step.
	Margin float64
}

// links models the copy engines between device memory and host memory, one per
// direction, which run concurrently with kernels. An offloaded result is copied
// to the host once, after the operation that computes it. Its device memory is
// free from the end of this copy to the start of the copy back.
type links struct {
	toHost, fromHost float64   // elements per second
	lost             float64   // seconds of kernels per element
	margin           float64   // of Links
	time             []float64 // seconds of a kernel, by number in an order; 0 for a fetch
	free, wanted     []bool    // scratch memory for comparisons of orders
}

// copyWeights are the factors on the time of copies while orders are compared.
// 0 means that copies are free, as if they were always hidden by kernels. 1000
// avoids copies unless nothing else is left. The other factors lie in between,
// and are tried only if one of the first two leads to an order that fits.
var copyWeights = []float64{0, 1e3, 0.25, 1, 4}

// enableCopies enables fetches in orders, and takes kernel times from the
// backend where it knows them instead of the cost model.
func (p *orderModel) enableCopies(u *Unit, by Links) {
	n := len(p.g.Nodes)
	bytes := float64(u.ElemBytes)
	l := &links{toHost: by.ToHost / bytes, fromHost: by.FromHost / bytes, lost: by.Lost * bytes, margin: by.Margin}
	if u.Seconds != nil {
		for i, nd := range p.g.Nodes {
			if nd.Kind == graph.KindOp && !nd.Op.Alias {
				if s := u.Seconds(requestOf(p.g, nd)); s > 0 {
					p.cost[i] = s
				}
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

// fetchNumber is the number that stands for the fetch of a result in orders.
func (p *orderModel) fetchNumber(id int) int { return id + len(p.g.Nodes) }

// setCopyWeight sets the factor on the time of copies.
func (p *orderModel) setCopyWeight(weight float64) {
	l := p.links
	for id := range p.g.Nodes {
		p.cost[p.fetchNumber(id)] = float64(p.size[id]) * (weight/min(l.toHost, l.fromHost) + 2*l.lost) // there and back
	}
}

// fetched marks the operations whose result an order fetches.
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

// firstComputes marks the positions of an order that compute a result for the
// first time, and returns memory for one mark per operation. Both are nil if
// there are no copy engines.
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

// isFetched reports whether a part of an order fetches a result.
func (p *orderModel) isFetched(order []int, id int) bool {
	return p.links != nil && slices.Contains(order, p.fetchNumber(id))
}

// fetchAt fetches a result directly before position q of the order of a. The
// order is written to the memory of to.
func (p *orderModel) fetchAt(a *measuredOrder, id, q int, to []int) []int {
	order := append(append(to[:0], a.order[:q]...), p.fetchNumber(id))
	return p.tidy(append(order, a.order[q:]...))
}

// planLetters are the actions that block plans may use.
func (p *orderModel) planLetters() string {
	if p.links == nil {
		return string([]byte{offload.Keep, offload.Recompute})
	}
	return string([]byte{offload.Keep, offload.Recompute, offload.Swap})
}

// machine is the machine for block plans, with the given memory in elements for
// interiors.
func (p *orderModel) machine(memory float64) offload.Machine {
	m := offload.Machine{Memory: memory}
	if p.links != nil {
		m.ToHost, m.FromHost = p.links.toHost, p.links.fromHost
	}
	return m
}

// stepKind is the action of a step.
type stepKind uint8

// The actions of a step.
const (
	compute      stepKind = iota // runs an operation
	beginOffload                 // starts the copy of a result to host memory
	endOffload                   // waits for its end, after which the device memory is free
	beginFetch                   // starts the copy back, to newly allocated memory
	endFetch                     // waits for its end; readers of the result follow
)

// step is one operation, or the start or end of a copy of its result.
type step struct {
	kind stepKind
	op   int
}

// lastReads returns, by position of an order, the last position that reads the
// result.
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

// blockingSteps returns the steps of an order whose copies start and end at one
// position, which needs least memory: to the host directly after the last
// reader before the fetch, and back directly before the next reader.
func (p *orderModel) blockingSteps(order []int) []step {
	steps := make([]step, 0, len(order))
	if p.links == nil {
		for _, id := range order {
			steps = append(steps, step{compute, id})
		}
		return steps
	}
	offloaded := slices.Clone(p.fetched(order))
	last := p.lastReads(order)
	copies := map[int][]int{}
	for t, id := range order {
		if r := p.opOf[id]; r != id {
			steps = append(steps, step{beginFetch, r}, step{endFetch, r})
		} else {
			steps = append(steps, step{compute, id})
			if offloaded[id] {
				offloaded[id] = false
				copies[last[t]] = append(copies[last[t]], id)
			}
		}
		for _, r := range copies[t] {
			steps = append(steps, step{beginOffload, r}, step{endOffload, r})
		}
	}
	return steps
}

// copyWriter writes copies as nodes of a graph.
type copyWriter struct {
	out *graph.Graph
	// by operation: node on the device, node in host memory, node being fetched
	source, host, fetching []int
}

// add writes one step of a copy of n. now is the present node of its result.
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
