package layout

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// Network is operators that read and write values, each of which can be made
// in one of Labels layouts and be copied into others.
type Network struct {
	Labels int // at most 16
	Values []Value
	Ops    []Op
}

// Value is what operators read and write.
type Value struct {
	// Transpose[a][b] is the cost of a copy in layout b of what was made in a;
	// +Inf if there is none. The diagonal is not looked at. A copy is paid once,
	// however many operators read it, and is made of the value itself, never of
	// another copy.
	Transpose [][]float64
	// Given lists the layouts in which a value that no operator writes may come;
	// empty means any.
	Given []int
	// Required lists layouts in which the value must exist in the end, as that of
	// an output of the graph.
	Required []int
}

// Op is an operator: it reads the values In, in any number, and writes Out, in
// one of several ways.
type Op struct {
	In       []int
	Out      int
	Variants []Variant
}

// Variant is one form of an operator: the layouts of its operands and of its
// result, and what it costs.
type Variant struct {
	In   []int
	Out  int
	Cost float64
}

// Choice is the answer.
type Choice struct {
	Variants    []int  // by operator
	Layouts     []int  // by value: the layout in which it is made
	Copies      []Copy // transposes, by value and layout
	Cost        float64
	Approximate bool // the answer need not be the cheapest: the graph is too wide for an exact one (Problem.SolveApproximate)
}

// approximateTable is the most entries of a table where an exact answer is out of reach: enough that few nodes are
// decided beforehand, and solved in some milliseconds.
const approximateTable = 1 << 14

// Copy is the transpose of one value to one layout.
type Copy struct{ Value, To int }

// producer is who makes a value: an operator, or the outside, with the layout of
// the result for each label of its node.
type producer struct {
	node    int
	layouts []int
}

// Solve chooses one way for every operator and the copies that follow.
//
// In the Problem below it, an operator is a node with its ways as labels, and a
// value is a node whose labels are the sets of layouts in which it is read: what
// a set costs depends on the way of the operator that makes it, and a reader is
// bound to ways whose layout is in the set. That keeps a copy for several
// readers exact with costs of pairs only.
//
// Errors: ErrNone; an error that describes what is no network.
func (n *Network) Solve() (*Choice, error) {
	made, err := n.check()
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
		if o := made[v]; o >= 0 {
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
		if len(sets[v]) == 0 { // nobody reads it
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

// check refuses what does not fit, and gives the operator that makes each value,
// −1 for none.
func (n *Network) check() ([]int, error) {
	if n.Labels < 1 || n.Labels > 16 {
		return nil, fmt.Errorf("%d layouts, want 1 to 16", n.Labels)
	}
	label := func(l int) bool { return l >= 0 && l < n.Labels }
	made := make([]int, len(n.Values))
	for v, val := range n.Values {
		made[v] = -1
		if len(val.Transpose) != n.Labels || slices.ContainsFunc(val.Transpose, func(row []float64) bool { return len(row) != n.Labels }) {
			return nil, fmt.Errorf("value %d: the costs of its transposes are not %d by %d", v, n.Labels, n.Labels)
		}
		for _, l := range slices.Concat(val.Given, val.Required) {
			if !label(l) {
				return nil, fmt.Errorf("value %d: there is no layout %d", v, l)
			}
		}
	}
	for i, o := range n.Ops {
		for _, v := range append(slices.Clone(o.In), o.Out) {
			if v < 0 || v >= len(n.Values) {
				return nil, fmt.Errorf("operator %d: there is no value %d", i, v)
			}
		}
		if made[o.Out] >= 0 {
			return nil, fmt.Errorf("operators %d and %d both make value %d", made[o.Out], i, o.Out)
		}
		made[o.Out] = i
		for k, w := range o.Variants {
			if len(w.In) != len(o.In) || !label(w.Out) || slices.ContainsFunc(w.In, func(l int) bool { return !label(l) }) {
				return nil, fmt.Errorf("operator %d: way %d has layouts %v to %d for %d operands", i, k, w.In, w.Out, len(o.In))
			}
		}
	}
	for v, val := range n.Values {
		if made[v] >= 0 && len(val.Given) > 0 {
			return nil, fmt.Errorf("value %d is given and made by operator %d", v, made[v])
		}
	}
	return made, nil
}

// readLayouts is the set of layouts in which a way of operator o reads value v.
func readLayouts(o Op, w Variant, v int) uint {
	var set uint
	for i, in := range o.In {
		if in == v {
			set |= 1 << w.In[i]
		}
	}
	return set
}

// layoutSets lists the sets of layouts in which value v can be needed at once,
// ascending: unions of what is wanted in the end with one way of every reader.
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

// addValue adds the node of value v: the cost of its copies, and the bond to its
// readers.
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

// needed is the set of layouts in which value v is read or wanted.
func (n *Network) needed(v int, readers, ways []int) uint {
	var set uint
	for _, l := range n.Values[v].Required {
		set |= 1 << l
	}
	for _, r := range readers {
		set |= readLayouts(n.Ops[r], n.Ops[r].Variants[ways[r]], v)
	}
	return set
}
