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
	// ErrNone means that every choice has an infinite cost.
	ErrNone = errors.New("no choice of layouts is possible")
	// ErrWide means that the nodes are too entangled for an exact answer: a
	// table over more than MaxTable choices would be needed.
	ErrWide = errors.New("the graph is too wide for an exact choice of layouts")
)

// MaxTable bounds the number of entries of one table.
const MaxTable = 1 << 22

// table is a cost of some nodes together, row-major in their order.
type table struct {
	nodes []int // ascending
	cost  []float64
}

// removed is a node that was eliminated: its best label for every choice of
// labels of the nodes that were its neighbours then.
type removed struct {
	node       int
	neighbours []int // ascending
	label      []int32
}

// Solve gives the best label of every node and the sum of the costs. Among equal
// sums the answer is always the same.
//
// Errors: ErrNone, ErrWide; an error that describes what is no problem.
// Cost: Σ over nodes of the number of joint labels of the node and the
// neighbours that it has when it is eliminated.
func (p *Problem) Solve() (labels []int, cost float64, err error) {
	if err := p.check(); err != nil {
		return nil, 0, err
	}
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
	order := make([]removed, 0, len(p.Nodes))
	for range p.Nodes {
		v, neighbours, size := p.next(of, left)
		if size > MaxTable {
			return nil, 0, fmt.Errorf("%d choices of %d values depend on each other: %w", size, len(neighbours)+1, ErrWide)
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
		return nil, 0, ErrNone
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

// next is the node whose elimination makes the smallest table, its neighbours
// ascending, and the number of entries of that table.
func (p *Problem) next(of [][]*table, left []bool) (best int, neighbours []int, size int) {
	best = -1
	for v := range p.Nodes {
		if !left[v] {
			continue
		}
		around := p.neighbours(v, of[v])
		n := 1
		for _, w := range around {
			if n *= len(p.Nodes[w].Cost); n > MaxTable {
				n = math.MaxInt32
				break
			}
		}
		if best < 0 || n < size {
			best, neighbours, size = v, around, n
		}
	}
	return best, neighbours, size
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
func (p *Problem) eliminate(v int, neighbours []int, tables []*table, size int) (*table, removed) {
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
	r := removed{node: v, neighbours: neighbours, label: make([]int32, size)}
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
