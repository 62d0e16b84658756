package pass

import (
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// An order of execution with repetitions lists operations by node ID. An operation
// that occurs twice is computed twice, and its readers use the latest result. An
// order without repetitions is a Sequence. If the device has copy engines
// (links.go), numbers above the node IDs fetch a result. Its copy to host memory
// follows the last reader before the fetch.

// orderModel is the model of a graph for comparing orders of execution: sizes,
// times and dependencies. It does not change while orders are compared.
type orderModel struct {
	g       *graph.Graph // the graph before the pass
	size    []int        // elements in the arena, by result; 0 for values elsewhere
	opOf    []int        // operation of a number
	reads   [][]int      // results that an operation reads, by memory root, each once
	inPlace [][]int      // operands whose memory the result may reuse
	stays   []bool       // results that are outputs of the graph
	// forward marks the operations of the forward pass. again marks those whose
	// result may be recomputed, since it is not an output and no communication
	// between ranks.
	forward, recomputable []bool
	cost                  []float64                                       // seconds per operation, by the cost model
	cheap                 []bool                                          // operations bounded by memory traffic
	fixed                 int                                             // elements of inputs and constants, which are always in memory
	externalGrads         func(g *graph.Graph, sequence []int) GradMemory // Unit.ExternalGrads
	donateInputs          bool                                            // inputs are free after their last reader
	links                 *links                                          // nil if there are no copy engines

	// memory for the comparison of orders
	now, freed   []int
	flags, moved []bool
}

// The machine of the cost model: one core of a current processor. Only the
// ratio affects the choice.
const (
	modelFLOPs = 200e9 // per second
	modelBytes = 10e9  // per second
)

// seconds is the time of an operation by the roofline model: that of arithmetic
// or of memory traffic, whichever is longer. cheap reports the latter.
func seconds(g *graph.Graph, n *graph.Node) (s float64, cheap bool) {
	in := g.InShapes(n)
	compute := float64(n.Op.FLOPs(in, n.Shape, n.Attrs)) / modelFLOPs
	traffic := float64(n.Op.Bytes(in, n.Shape, n.Attrs)) / modelBytes
	return max(compute, traffic), traffic >= compute
}

// newOrderModel builds the model for the graph of u.
func newOrderModel(u *Unit) *orderModel {
	g := u.Graph
	n := len(g.Nodes)
	p := &orderModel{g: g, externalGrads: u.ExternalGrads, donateInputs: u.DonateInputs, size: make([]int, n), opOf: make([]int, n), reads: make([][]int, n), inPlace: make([][]int, n),
		recomputable: make([]bool, n), cost: make([]float64, n), cheap: make([]bool, n), now: make([]int, n), flags: make([]bool, n)}
	_, p.stays = readers(g)
	buffer := placeFixed(g, &Memory{Places: make([]Place, n)}, true)
	p.forward = g.Needed(forwardRoots(g))
	for i, nd := range g.Nodes {
		p.opOf[i] = i
		if buffer[i] >= 0 {
			p.size[i] = roundUp(nd.ArenaElems())
		}
		if nd.Kind != graph.KindOp {
			p.fixed += p.size[i]
			continue
		}
		if nd.Op.Alias {
			continue
		}
		p.cost[i], p.cheap[i] = seconds(g, nd)
		p.recomputable[i] = p.forward[i] && !p.stays[i] && !p.g.Nodes[i].Op.Ordered
		for _, r := range rootsOf(g, nd) {
			if g.Nodes[r].Kind == graph.KindOp {
				p.reads[i] = append(p.reads[i], r)
			}
		}
		for k, in := range nd.In {
			r := g.AliasRoot(in)
			if g.Nodes[r].Kind == graph.KindOp && p.size[r] > 0 && g.Nodes[r].SameStorage(nd) && nd.Op.InPlace(k, nd.Attrs) {
				p.inPlace[i] = append(p.inPlace[i], r)
			}
		}
	}
	return p
}

// forwardRoots are the roots of the forward pass: outputs, assigned values and
// the loss.
func forwardRoots(g *graph.Graph) []int {
	var ids []int
	for _, o := range g.Outputs {
		ids = append(ids, o.ID)
	}
	for _, a := range g.Assigns {
		ids = append(ids, a.Value)
	}
	if g.Loss >= 0 {
		ids = append(ids, g.Loss)
	}
	return ids
}

// measuredOrder is an order of execution with its memory and time.
type measuredOrder struct {
	order []int // operations by number
	// by position: the last position that reads this result; len(order) if it
	// stays, its own if none
	last      []int
	live      []int   // by position: elements in use while the operation runs
	repeated  []bool  // by position: computed before
	peak      int     // largest of live
	peakAt    int     // first position of the peak
	peakCount int     // number of positions of the peak
	cost      float64 // seconds
}

// less reports whether a needs less memory than b.
func (a *measuredOrder) less(b *measuredOrder) bool {
	return a.peak < b.peak || a.peak == b.peak && a.peakCount < b.peakCount
}

// reset returns a slice of n zeros, in the memory of s if it suffices.
func reset[T any](s []T, n int) []T {
	s = slices.Grow(s[:0], n)[:n]
	clear(s)
	return s
}

// measured measures an order. It keeps the slice.
func (p *orderModel) measured(order []int) *measuredOrder {
	a := &measuredOrder{order: order}
	p.measure(a)
	return a
}

// measure computes memory and time for the order of a. The first sweep finds
// the last reader of each computed result. The second sweep adds the size of
// each result where it is computed, and subtracts it after its last reader. If
// an operation can reuse the memory of an operand that it reads last, the two
// count once. Values outside of the order, such as inputs and constants, count
// all the time.
func (p *orderModel) measure(a *measuredOrder) {
	n := len(a.order)
	a.last, a.live, a.repeated = reset(a.last, n), reset(a.live, n), reset(a.repeated, n)
	a.peak, a.peakAt, a.peakCount, a.cost = 0, -1, 0, 0
	now := p.now // position where a result was last computed
	for i := range now {
		now[i] = -1
	}
	// First sweep: the last reader of each result. A repetition starts a new
	// lifetime, so the earlier result ends with its own last reader.
	for t, id := range a.order {
		for _, r := range p.reads[id] {
			a.last[now[r]] = max(a.last[now[r]], t)
		}
		r := p.opOf[id]
		a.repeated[t], now[r], a.last[t] = now[r] >= 0, t, t
		if p.stays[id] {
			a.last[t] = n
		}
		a.cost += p.cost[id]
	}
	// Results that are offloaded cannot be overwritten in place: the copy to
	// the host still reads them. A fetched copy has no such restriction.
	var copied []bool
	if p.links != nil {
		copied = p.fetched(a.order)
	}
	// Second sweep: memory in use. It is counted while an operation runs, when
	// operands and result are both in memory.
	p.freed = reset(p.freed, n+1) // elements freed after the operation at a position
	live := p.fixed
	for t, id := range a.order {
		live += p.size[id]
		p.freed[a.last[t]] += p.size[id]
		a.live[t] = live
		now[p.opOf[id]] = t
		for _, r := range p.inPlace[id] {
			if a.last[now[r]] == t && !p.stays[r] && (copied == nil || !copied[r] || a.repeated[now[r]]) { // in place: operand and result share memory
				a.live[t] -= p.size[id]
				break
			}
		}
		live -= p.freed[t]
		switch {
		case a.live[t] > a.peak:
			a.peak, a.peakAt, a.peakCount = a.live[t], t, 1
		case a.live[t] == a.peak:
			a.peakCount++
		}
	}
}

// tidy removes operations whose result is not read, and moves recomputed
// operations directly before their first reader, which shortens lifetimes. It
// works in the memory of order. A backward sweep finds the unread results: an
// operation resets the mark of its own result and sets those of its operands. A
// result that is fetched later is kept in any case.
func (p *orderModel) tidy(order []int) []int {
	read := reset(p.flags, len(p.g.Nodes))
	first, wanted := p.firstComputes(order)
	// Backward sweep. Operations that are kept move to the end of the slice.
	keep := len(order)
	for t := len(order) - 1; t >= 0; t-- {
		id := order[t]
		r := p.opOf[id]
		if !read[r] && !p.stays[id] && (p.links == nil || !first[t] || !wanted[r]) {
			continue
		}
		if id != r {
			wanted[r] = true // fetched later, so it must be computed once, even if it is not read
		}
		read[r] = false // earlier results are read only by operations before this one
		for _, r := range p.reads[id] {
			read[r] = true
		}
		keep--
		order[keep] = id
	}
	order = slices.Delete(order, 0, keep)
	// Move each repetition forward, past operations that do not read it. A run
	// of repetitions is not reordered, since that would change nothing.
	seen := reset(p.flags, len(p.g.Nodes))
	p.moved = reset(p.moved, len(order))
	repeated := p.moved
	for t, id := range order {
		repeated[t], seen[p.opOf[id]] = seen[p.opOf[id]], true
	}
	for t := len(order) - 1; t >= 0; t-- {
		if !repeated[t] {
			continue
		}
		id, to, others := order[t], t, false
		for !slices.Contains(p.reads[order[to+1]], p.opOf[id]) {
			to++
			others = others || !repeated[to]
		}
		if others {
			copy(order[t:to], order[t+1:to+1])
			copy(repeated[t:to], repeated[t+1:to+1])
			order[to], repeated[to] = id, true
		}
	}
	return order
}

// repeats counts the recomputed operations of order and sums their floating
// point operations.
func (p *orderModel) repeats(order []int) (n int, flops int64) {
	seen := make([]bool, len(p.g.Nodes))
	for _, id := range order {
		if id >= len(seen) {
			continue
		}
		if seen[id] {
			nd := p.g.Nodes[id]
			n++
			flops += nd.Op.FLOPs(p.g.InShapes(nd), nd.Shape, nd.Attrs)
		}
		seen[id] = true
	}
	return n, flops
}

// write builds the graph in which every repetition is a node of its own. Its
// nodes are in order of execution; the second result is its sequence.
func (p *orderModel) write(order []int) (*graph.Graph, []int) { return p.emit(p.blockingSteps(order)) }

// emit is write for steps. Nodes that are not operations come first. Each
// operation reads the latest copies of its operands. Aliases are not part of
// orders: they are written when an operation first reads them after a new copy
// of their operand. Outputs, assignments and gradients refer to the last
// copies.
func (p *orderModel) emit(steps []step) (*graph.Graph, []int) {
	g := p.g
	out := &graph.Graph{Loss: -1, Seed: g.Seed, Notes: g.Notes}
	to := make([]int, len(g.Nodes)) // current copy of a node
	copies := make([]int, len(g.Nodes))
	add := func(n *graph.Node, in []int) {
		c := *n
		c.ID, c.In = len(out.Nodes), in
		to[n.ID] = c.ID
		copies[n.ID]++
		out.Nodes = append(out.Nodes, &c)
	}
	// of returns the current copy of a node. An alias follows the latest copy of
	// its operand.
	var of func(id int) int
	of = func(id int) int {
		n := g.Nodes[id]
		if n.Kind == graph.KindOp && n.Op.Alias {
			if r := g.AliasRoot(id); copies[id] < max(copies[r], 1) {
				in := []int{of(n.In[0])}
				for _, o := range n.In[1:] {
					in = append(in, of(o))
				}
				add(n, in)
				copies[id] = max(copies[r], 1)
			}
		}
		return to[id]
	}
	// Inputs, parameters, states and constants precede all operations.
	for _, n := range g.Nodes {
		if n.Kind != graph.KindOp {
			add(n, nil)
		}
	}
	var sequence []int
	moves := copyWriter{out: out, source: make([]int, len(g.Nodes)), host: make([]int, len(g.Nodes)), fetching: make([]int, len(g.Nodes))}
	for _, s := range steps {
		id := s.op
		n := g.Nodes[id]
		if s.kind != compute {
			v := moves.add(n, s.kind, to[id])
			if s.kind == endFetch {
				to[id] = v
				copies[id]++
			}
			sequence = append(sequence, v)
			continue
		}
		in := make([]int, len(n.In))
		for k, o := range n.In {
			in[k] = of(o)
		}
		add(n, in)
		sequence = append(sequence, to[id])
	}
	for _, o := range g.Outputs {
		out.Outputs = append(out.Outputs, graph.Output{Name: o.Name, ID: of(o.ID)})
	}
	for _, a := range g.Assigns {
		out.Assigns = append(out.Assigns, graph.Assign{State: of(a.State), Value: of(a.Value)})
	}
	for _, d := range g.Grads {
		out.Grads = append(out.Grads, graph.Grad{Param: of(d.Param), Value: of(d.Value)})
	}
	if g.Loss >= 0 {
		out.Loss = of(g.Loss)
	}
	return out, sequence
}
