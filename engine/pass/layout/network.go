package layout

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// Network is a set of operators that read and write values. A value is produced
// in one of Labels layouts and may be copied to others.
type Network struct {
	Labels int // number of layouts, 1 to 16
	Values []Value
	Ops    []Op
}

// Value is an operand or a result of operators.
type Value struct {
	// Transpose[a][b] is the cost of a copy in layout b of a value produced in
	// layout a, +Inf if there is none. The diagonal is not used. A copy is paid
	// once, however many operators read it. Copies are made of the value
	// itself, never of another copy.
	Transpose [][]float64
	// Given lists the layouts in which a value that no operator writes may be
	// provided. Empty means any.
	Given []int
	// Required lists the layouts in which the value must be available, as
	// outputs of the graph must.
	Required []int
}

// Op is an operator: it reads the values In and writes the value Out, in one of
// several variants.
type Op struct {
	In       []int
	Out      int
	Variants []Variant
}

// Variant is one variant of an operator: the layouts of its operands and of its
// result, and its cost.
type Variant struct {
	In   []int
	Out  int
	Cost float64
}

// Choice is a solution.
type Choice struct {
	Variants []int   // index of the variant, by operator
	Layouts  []int   // layout in which each value is produced
	Copies   []Copy  // transposes, by value and layout
	Cost     float64 // total cost
	// Approximate reports that the solution may not be optimal, since the graph
	// is too wide for an exact one (Problem.SolveApproximate).
	Approximate bool
}

// approximateTable is the largest number of table entries in an approximate
// solution. It is large enough that few nodes are fixed heuristically, and
// small enough to solve in milliseconds.
const approximateTable = 1 << 14

// Copy is the transpose of one value to one layout.
type Copy struct{ Value, To int }

// producer is the producer of a value: the node of an operator or of an input,
// with the layout of the result for each of its labels.
type producer struct {
	node    int
	layouts []int
}

// Solve chooses one variant for every operator, and the copies that follow.
//
// In the Problem, an operator is a node whose labels are its variants. A value
// is a node whose labels are the sets of layouts in which it is read. The cost
// of a set depends on the variant of the producer. A reader is restricted to
// variants whose layout is in the set. So a copy that several readers share is
// counted once, with pairwise costs only.
//
// Errors: ErrInfeasible; an error that describes an invalid network.
func (n *Network) Solve() (*Choice, error) {
	writers, err := n.check()
	if err != nil {
		return nil, err
	}
	var p Problem
	for _, o := range n.Ops {
		node := Node{Cost: make([]float64, len(o.Variants))}
		for k, w := range o.Variants {
			node.Cost[k] = w.Cost
		}
		p.Nodes = append(p.Nodes, node)
	}
	sources := make([]producer, len(n.Values))
	for v, val := range n.Values {
		if o := writers[v]; o >= 0 {
			sources[v].node = o
			for _, w := range n.Ops[o].Variants {
				sources[v].layouts = append(sources[v].layouts, w.Out)
			}
			continue
		}
		given := val.Given
		if len(given) == 0 {
			for l := range n.Labels {
				given = append(given, l)
			}
		}
		sources[v] = producer{len(p.Nodes), given}
		p.Nodes = append(p.Nodes, Node{Cost: make([]float64, len(given))})
	}
	readers := make([][]int, len(n.Values)) // operators, each once
	for i, o := range n.Ops {
		for _, v := range o.In {
			if !slices.Contains(readers[v], i) {
				readers[v] = append(readers[v], i)
			}
		}
	}
	sets := make([][]uint, len(n.Values))
	for v := range n.Values {
		sets[v] = n.layoutSets(v, readers[v])
		if len(sets[v]) == 0 { // no reader
			continue
		}
		p.addValue(n, v, sources[v], readers[v], sets[v])
	}
	labels, cost, err := p.Solve()
	wide := errors.Is(err, ErrTooWide)
	if wide {
		labels, cost, err = p.SolveApproximate(approximateTable)
	}
	if err != nil {
		return nil, err
	}
	c := &Choice{Approximate: wide, Variants: labels[:len(n.Ops)], Layouts: make([]int, len(n.Values)), Cost: cost}
	for v := range n.Values {
		c.Layouts[v] = sources[v].layouts[labels[sources[v].node]]
		need := n.needed(v, readers[v], labels)
		for l := range n.Labels {
			if need&(1<<l) != 0 && l != c.Layouts[v] {
				c.Copies = append(c.Copies, Copy{v, l})
			}
		}
	}
	return c, nil
}

// check validates the network. It returns the operator that produces each
// value, or −1. Every value has at most one producer, and a value with given
// layouts has none.
func (n *Network) check() ([]int, error) {
	if n.Labels < 1 || n.Labels > 16 {
		return nil, fmt.Errorf("got %d layouts, want 1 to 16", n.Labels)
	}
	label := func(l int) bool { return l >= 0 && l < n.Labels }
	writers := make([]int, len(n.Values))
	for v, val := range n.Values {
		writers[v] = -1
		if len(val.Transpose) != n.Labels || slices.ContainsFunc(val.Transpose, func(row []float64) bool { return len(row) != n.Labels }) {
			return nil, fmt.Errorf("value %d: transpose costs are not a %d×%d matrix", v, n.Labels, n.Labels)
		}
		for _, l := range slices.Concat(val.Given, val.Required) {
			if !label(l) {
				return nil, fmt.Errorf("value %d: layout %d is out of range", v, l)
			}
		}
	}
	for i, o := range n.Ops {
		for _, v := range append(slices.Clone(o.In), o.Out) {
			if v < 0 || v >= len(n.Values) {
				return nil, fmt.Errorf("operator %d: value %d is out of range", i, v)
			}
		}
		if writers[o.Out] >= 0 {
			return nil, fmt.Errorf("operators %d and %d both write value %d", writers[o.Out], i, o.Out)
		}
		writers[o.Out] = i
		for k, w := range o.Variants {
			if len(w.In) != len(o.In) || !label(w.Out) || slices.ContainsFunc(w.In, func(l int) bool { return !label(l) }) {
				return nil, fmt.Errorf("operator %d: variant %d has invalid layouts %v to %d for %d operands", i, k, w.In, w.Out, len(o.In))
			}
		}
	}
	for v, val := range n.Values {
		if writers[v] >= 0 && len(val.Given) > 0 {
			return nil, fmt.Errorf("value %d has given layouts, but operator %d writes it", v, writers[v])
		}
	}
	return writers, nil
}

// readLayouts is the set of layouts, as a bit mask, in which variant w of
// operator o reads value v.
func readLayouts(o Op, w Variant, v int) uint {
	var set uint
	for i, in := range o.In {
		if in == v {
			set |= 1 << w.In[i]
		}
	}
	return set
}

// layoutSets lists the sets of layouts in which value v may be needed,
// ascending: unions of the required layouts with one variant of every reader.
func (n *Network) layoutSets(v int, readers []int) []uint {
	var wanted uint
	for _, l := range n.Values[v].Required {
		wanted |= 1 << l
	}
	if wanted == 0 && len(readers) == 0 {
		return nil
	}
	all := []uint{wanted}
	for _, r := range readers {
		var next []uint
		for _, s := range all {
			for _, w := range n.Ops[r].Variants {
				next = append(next, s|readLayouts(n.Ops[r], w, v))
			}
		}
		slices.Sort(next)
		all = slices.Compact(next)
	}
	return all
}

// addValue adds the node of value v: the cost of its copies, and the
// restrictions of its readers. A label of the node is a set of layouts, as a
// bit mask. The edge to the producer holds the cost of copies to the layouts of
// the set in which it was not produced. The edge to a reader is infinite for
// variants that read a layout outside of the set.
func (p *Problem) addValue(n *Network, v int, from producer, readers []int, sets []uint) {
	at := len(p.Nodes)
	p.Nodes = append(p.Nodes, Node{Cost: make([]float64, len(sets))})
	copies := make([][]float64, len(from.layouts))
	for k, a := range from.layouts {
		for _, s := range sets {
			var sum float64
			for rest := s &^ (1 << a); rest != 0; rest &= rest - 1 {
				sum += n.Values[v].Transpose[a][bits.TrailingZeros(rest)]
			}
			copies[k] = append(copies[k], sum)
		}
	}
	p.Edges = append(p.Edges, Edge{From: from.node, To: at, Cost: copies})
	for _, r := range readers {
		bond := make([][]float64, len(sets))
		for k, s := range sets {
			for _, w := range n.Ops[r].Variants {
				c := 0.0
				if readLayouts(n.Ops[r], w, v)&^s != 0 {
					c = math.Inf(1)
				}
				bond[k] = append(bond[k], c)
			}
		}
		p.Edges = append(p.Edges, Edge{From: at, To: r, Cost: bond})
	}
}

// needed is the set of layouts in which value v is read or required.
func (n *Network) needed(v int, readers, variants []int) uint {
	var set uint
	for _, l := range n.Values[v].Required {
		set |= 1 << l
	}
	for _, r := range readers {
		set |= readLayouts(n.Ops[r], n.Ops[r].Variants[variants[r]], v)
	}
	return set
}
