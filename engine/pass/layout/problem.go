package layout

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Problem asks for one label per node such that the sum of all costs is least.
type Problem struct {
	Nodes []Node
	Edges []Edge
}

// Node is a variable with len(Cost) labels. A cost of +Inf forbids a label.
type Node struct{ Cost []float64 }

// Edge is the cost of the labels of two nodes together: Cost[a][b] for label a
// of From and b of To. +Inf forbids the pair. Two nodes may have several edges.
type Edge struct {
	From, To int
	Cost     [][]float64
}

// The ways in which Solve fails.
var (
	// ErrInfeasible means that every choice has an infinite cost.
	ErrInfeasible = errors.New("no choice of layouts is possible")
	// ErrTooWide means that the nodes are too entangled for an exact answer: a
	// table over more than MaxTable choices would be needed.
	ErrTooWide = errors.New("the graph is too wide for an exact choice of layouts")
)

// MaxTable bounds the number of entries of one table.
const MaxTable = 1 << 22

// table is a cost of some nodes together, row-major in their order.
type table struct {
	nodes []int // ascending
	cost  []float64
}

// elimination is a node that was eliminated: its best label for every choice of
// labels of the nodes that were its neighbours then.
type elimination struct {
	node       int
	neighbours []int // ascending
	label      []int32
}

// Solve gives the best label of every node and the sum of the costs. Among equal
// sums the answer is always the same.
//
// Errors: ErrInfeasible, ErrTooWide; an error that describes what is no problem.
// Cost: Σ over nodes of the number of joint labels of the node and the
// neighbours that it has when it is eliminated.
func (p *Problem) Solve() (labels []int, cost float64, err error) {
	if err := p.check(); err != nil {
		return nil, 0, err
	}
	if size, nodes := p.widest(); size > MaxTable {
		return nil, 0, fmt.Errorf("%d choices of %d values depend on each other: %w", size, nodes, ErrTooWide)
	}
	return p.solve(MaxTable)
}

// SolveApproximate is Solve for problems of any width: where a table would have more than so many entries,
// the node with the most neighbours among those concerned is decided beforehand, by the label for which its own
// costs are least if its neighbours suit it. The answer need not be the best then.
func (p *Problem) SolveApproximate(entries int) (labels []int, cost float64, err error) {
	if err := p.check(); err != nil {
		return nil, 0, err
	}
	return p.solve(entries)
}

// widest is the number of entries of the largest table that Solve would make, and of its nodes, up to
// the first that is too large: elimination without costs, which is quick.
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

// solve eliminates one node after the other with tables of at most so many entries.
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

// mostConnected is the node with the most neighbours among nodes that have a choice.
func (p *Problem) mostConnected(nodes []int, of [][]*table) int {
	best, most := nodes[0], -1
	for _, v := range nodes {
		if n := len(p.neighbours(v, of[v])); len(p.Nodes[v].Cost) > 1 && n > most {
			best, most = v, n
		}
	}
	return best
}

// fixLabel gives v the label for which the sum of its tables, each with the labels of other nodes that suit it best, is
// least, holds the tables of its neighbours to it, and gives the cost that is left of v alone.
func (p *Problem) fixLabel(v int, of [][]*table) (r elimination, cost float64) {
	labels := len(p.Nodes[v].Cost)
	least := make([]float64, labels)
	along := func(t *table) (step int) { // distance of two entries along v
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
		held := &table{nodes: slices.DeleteFunc(slices.Clone(t.nodes), func(n int) bool { return n == v })}
		for i, c := range t.cost {
			if i/step%labels == label {
				held.cost = append(held.cost, c)
			}
		}
		if len(held.nodes) == 0 {
			cost += held.cost[0]
		}
		for _, n := range held.nodes {
			of[n][slices.Index(of[n], t)] = held
		}
	}
	return elimination{node: v, label: []int32{int32(label)}}, cost
}

// check refuses tables of other sizes than the nodes have.
func (p *Problem) check() error {
	for i, n := range p.Nodes {
		if len(n.Cost) == 0 {
			return fmt.Errorf("node %d has no label", i)
		}
	}
	for _, e := range p.Edges {
		if e.From < 0 || e.To < 0 || e.From >= len(p.Nodes) || e.To >= len(p.Nodes) || e.From == e.To {
			return fmt.Errorf("edge from %d to %d of %d nodes", e.From, e.To, len(p.Nodes))
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

// next is the node whose elimination makes the smallest table, and the number of entries of that table.
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

// eliminate gives the least cost over the labels of v of the sum of its tables,
// for all labels of its neighbours.
func (p *Problem) eliminate(v int, neighbours []int, tables []*table, size int) (*table, elimination) {
	// Of every table: the distance of two entries along v and along each neighbour.
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
		for j := len(digit) - 1; j >= 0; j-- { // count on, the last neighbour fastest
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
