package layout

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Problem asks for one label per node such that the sum of all costs is
// minimal:
//
//	min over x of Σ_v Node[v].Cost[x_v] + Σ_e Edge[e].Cost[x_from][x_to]
type Problem struct {
	Nodes []Node
	Edges []Edge
}

// Node is a variable with len(Cost) labels. A cost of +Inf forbids a label.
type Node struct{ Cost []float64 }

// Edge is a cost of two nodes: Cost[a][b] for label a of From and label b of
// To. +Inf forbids the pair. Two nodes may have several edges.
type Edge struct {
	From, To int
	Cost     [][]float64
}

// Errors of Solve.
var (
	// ErrInfeasible is returned if every choice has an infinite cost.
	ErrInfeasible = errors.New("no feasible choice of layouts")
	// ErrTooWide is wrapped if an exact solution would need a table of more
	// than MaxTable entries.
	ErrTooWide = errors.New("the graph is too wide for an exact choice of layouts")
)

// MaxTable bounds the number of entries of one table.
const MaxTable = 1 << 22

// table is a joint cost of some nodes, row-major in their order.
type table struct {
	nodes []int // ascending
	cost  []float64
}

// elimination is an eliminated node: its best label for every joint label of
// the nodes that were its neighbours then.
type elimination struct {
	node       int
	neighbours []int // ascending
	label      []int32
}

// Solve returns the best label of every node and the total cost. Ties are
// resolved the same way in every run.
//
// It eliminates one node after the other. Elimination of v replaces all tables
// that contain v by one table over its neighbours N(v):
//
//	t(x_N) = min over x_v of Σ tables(x_v, x_N)
//
// After the last elimination the total cost is known. The labels follow in
// reverse order from the recorded minimisers.
//
// Errors: ErrInfeasible, ErrTooWide; an error that describes an invalid
// problem.
// Cost: Σ over nodes of the number of joint labels of the node and its
// neighbours at its elimination.
// Source: Bertelè and Brioschi 1972, Nonserial Dynamic Programming.
func (p *Problem) Solve() (labels []int, cost float64, err error) {
	if err := p.check(); err != nil {
		return nil, 0, err
	}
	if size, nodes := p.widest(); size > MaxTable {
		return nil, 0, fmt.Errorf("a table of %d entries over %d values: %w", size, nodes, ErrTooWide)
	}
	return p.solve(MaxTable)
}

// SolveApproximate solves problems of any width approximately. Where a table
// would exceed the given number of entries, it first fixes the label of the
// node with the most neighbours among those concerned: the label with the least
// cost if all neighbours suit it. The solution may not be optimal then.
//
// Errors: ErrInfeasible; an error that describes an invalid problem.
func (p *Problem) SolveApproximate(entries int) (labels []int, cost float64, err error) {
	if err := p.check(); err != nil {
		return nil, 0, err
	}
	return p.solve(entries)
}

// widest is the number of entries of the largest table that Solve would need,
// and its number of nodes. It stops at the first table that is too large. It
// simulates the elimination on the graph alone: eliminating a node connects all
// of its neighbours with each other. This is fast, and shows before any work
// whether an exact solution is feasible.
func (p *Problem) widest() (size, nodes int) {
	around := make([][]int, len(p.Nodes))
	join := func(v, w int) {
		if k, ok := slices.BinarySearch(around[v], w); !ok {
			around[v] = slices.Insert(around[v], k, w)
		}
	}
	for _, e := range p.Edges {
		join(e.From, e.To)
		join(e.To, e.From)
	}
	left := make([]bool, len(p.Nodes))
	for i := range left {
		left[i] = true
	}
	for range p.Nodes {
		v, n := p.next(left, func(v int) []int { return around[v] })
		left[v] = false
		if n > size {
			size, nodes = n, len(around[v])+1
		}
		if size > MaxTable {
			break
		}
		for _, w := range around[v] {
			around[w] = slices.DeleteFunc(around[w], func(u int) bool { return u == v })
			for _, u := range around[v] {
				if u != w {
					join(w, u)
				}
			}
		}
	}
	return size, nodes
}

// solve eliminates one node after the other with tables of at most that many
// entries. It then assigns labels in reverse order.
func (p *Problem) solve(most int) (labels []int, cost float64, err error) {
	of := make([][]*table, len(p.Nodes)) // tables by node
	add := func(t *table) {
		for _, n := range t.nodes {
			of[n] = append(of[n], t)
		}
	}
	for i, n := range p.Nodes {
		add(&table{nodes: []int{i}, cost: n.Cost})
	}
	for _, e := range p.Edges {
		add(p.edgeTable(e))
	}
	left := make([]bool, len(p.Nodes))
	for i := range left {
		left[i] = true
	}
	order := make([]elimination, 0, len(p.Nodes))
	for range p.Nodes {
		v, size := p.next(left, func(v int) []int { return p.neighbours(v, of[v]) })
		neighbours := p.neighbours(v, of[v])
		if size > most {
			r, least := p.fixLabel(p.mostConnected(append(neighbours, v), of), of)
			left[r.node] = false
			cost += least
			order = append(order, r)
			continue
		}
		t, r := p.eliminate(v, neighbours, of[v], size)
		left[v] = false
		for _, n := range neighbours {
			of[n] = slices.DeleteFunc(of[n], func(t *table) bool { return slices.Contains(t.nodes, v) })
		}
		if len(neighbours) == 0 {
			cost += t.cost[0]
		}
		add(t)
		order = append(order, r)
	}
	if math.IsInf(cost, 1) {
		return nil, 0, ErrInfeasible
	}
	labels = make([]int, len(p.Nodes))
	for _, r := range slices.Backward(order) {
		at := 0
		for _, n := range r.neighbours {
			at = at*len(p.Nodes[n].Cost) + labels[n]
		}
		labels[r.node] = int(r.label[at])
	}
	return labels, cost, nil
}

// mostConnected is the node with the most neighbours, among nodes with more
// than one label.
func (p *Problem) mostConnected(nodes []int, of [][]*table) int {
	best, most := nodes[0], -1
	for _, v := range nodes {
		if n := len(p.neighbours(v, of[v])); len(p.Nodes[v].Cost) > 1 && n > most {
			best, most = v, n
		}
	}
	return best
}

// fixLabel fixes the label of v for which the sum of its tables is least, each
// table at its best labels of the other nodes. It restricts the tables of its
// neighbours to this label. cost is the remaining cost of v alone.
func (p *Problem) fixLabel(v int, of [][]*table) (r elimination, cost float64) {
	labels := len(p.Nodes[v].Cost)
	least := make([]float64, labels)
	along := func(t *table) (step int) { // stride of v in the table
		step = 1
		for k := len(t.nodes) - 1; t.nodes[k] != v; k-- {
			step *= len(p.Nodes[t.nodes[k]].Cost)
		}
		return step
	}
	for _, t := range of[v] {
		step, lowest := along(t), make([]float64, labels)
		for x := range lowest {
			lowest[x] = math.Inf(1)
		}
		for i, c := range t.cost {
			x := i / step % labels
			lowest[x] = min(lowest[x], c)
		}
		for x, c := range lowest {
			least[x] += c
		}
	}
	label := 0
	for x, c := range least {
		if c < least[label] {
			label = x
		}
	}
	for _, t := range of[v] {
		step := along(t)
		restricted := &table{nodes: slices.DeleteFunc(slices.Clone(t.nodes), func(n int) bool { return n == v })}
		for i, c := range t.cost {
			if i/step%labels == label {
				restricted.cost = append(restricted.cost, c)
			}
		}
		if len(restricted.nodes) == 0 {
			cost += restricted.cost[0]
		}
		for _, n := range restricted.nodes {
			of[n][slices.Index(of[n], t)] = restricted
		}
	}
	return elimination{node: v, label: []int32{int32(label)}}, cost
}

// check returns an error if a table does not match the labels of its nodes.
func (p *Problem) check() error {
	for i, n := range p.Nodes {
		if len(n.Cost) == 0 {
			return fmt.Errorf("node %d has no label", i)
		}
	}
	for _, e := range p.Edges {
		if e.From < 0 || e.To < 0 || e.From >= len(p.Nodes) || e.To >= len(p.Nodes) || e.From == e.To {
			return fmt.Errorf("edge from node %d to node %d is invalid for %d nodes", e.From, e.To, len(p.Nodes))
		}
		if len(e.Cost) != len(p.Nodes[e.From].Cost) {
			return fmt.Errorf("edge from %d to %d: %d rows, the node has %d labels", e.From, e.To, len(e.Cost), len(p.Nodes[e.From].Cost))
		}
		for _, row := range e.Cost {
			if len(row) != len(p.Nodes[e.To].Cost) {
				return fmt.Errorf("edge from %d to %d: %d columns, the node has %d labels", e.From, e.To, len(row), len(p.Nodes[e.To].Cost))
			}
		}
	}
	return nil
}

// edgeTable is the cost of an edge as a table.
func (p *Problem) edgeTable(e Edge) *table {
	t := &table{nodes: []int{min(e.From, e.To), max(e.From, e.To)}}
	a, b := len(p.Nodes[t.nodes[0]].Cost), len(p.Nodes[t.nodes[1]].Cost)
	t.cost = make([]float64, 0, a*b)
	for i := range a {
		for j := range b {
			if e.From < e.To {
				t.cost = append(t.cost, e.Cost[i][j])
			} else {
				t.cost = append(t.cost, e.Cost[j][i])
			}
		}
	}
	return t
}

// next is the node whose elimination needs the smallest table, and the size of
// that table. This is the min-weight heuristic for elimination orders; an
// optimal order is NP-hard to find.
func (p *Problem) next(left []bool, around func(v int) []int) (best, size int) {
	best = -1
	for v := range p.Nodes {
		if !left[v] {
			continue
		}
		n := 1
		for _, w := range around(v) {
			if n *= len(p.Nodes[w].Cost); n > MaxTable {
				n = math.MaxInt32
				break
			}
		}
		if best < 0 || n < size {
			best, size = v, n
		}
	}
	return best, size
}

// neighbours are the nodes that share a table with v, ascending.
func (p *Problem) neighbours(v int, tables []*table) []int {
	var out []int
	for _, t := range tables {
		for _, n := range t.nodes {
			if n != v {
				out = append(out, n)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// eliminate minimises the sum of the tables of v over its labels, for every
// joint label of its neighbours. The joint labels are enumerated like digits of
// a counter, and the offset of each table is updated by its strides. So no
// index is computed from scratch.
func (p *Problem) eliminate(v int, neighbours []int, tables []*table, size int) (*table, elimination) {
	// For every table: the strides of v and of each neighbour.
	along, step := make([]int, len(tables)), make([][]int, len(tables))
	for i, t := range tables {
		step[i] = make([]int, len(neighbours))
		for k, d := len(t.nodes)-1, 1; k >= 0; k-- {
			n := t.nodes[k]
			if j, ok := slices.BinarySearch(neighbours, n); ok {
				step[i][j] = d
			} else {
				along[i] = d
			}
			d *= len(p.Nodes[n].Cost)
		}
	}
	out := &table{nodes: neighbours, cost: make([]float64, size)}
	r := elimination{node: v, neighbours: neighbours, label: make([]int32, size)}
	at, digit := make([]int, len(tables)), make([]int, len(neighbours))
	for k := range out.cost {
		least, which := math.Inf(1), 0
		for x := range p.Nodes[v].Cost {
			var sum float64
			for i, t := range tables {
				sum += t.cost[at[i]+x*along[i]]
			}
			if sum < least {
				least, which = sum, x
			}
		}
		out.cost[k], r.label[k] = least, int32(which)
		for j := len(digit) - 1; j >= 0; j-- { // next joint label, the last neighbour varying fastest
			digit[j]++
			full := digit[j] == len(p.Nodes[neighbours[j]].Cost)
			for i := range at {
				at[i] += step[i][j]
				if full {
					at[i] -= digit[j] * step[i][j]
				}
			}
			if !full {
				break
			}
			digit[j] = 0
		}
	}
	return out, r
}
