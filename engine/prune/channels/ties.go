package channels

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// ties records which indices of which axes denote the same channel. An index that is removed from
// one value is removed from all values in its set. Every index of every axis of every value is a
// slot. A union-find structure joins slots to sets. The root of a set is its lowest slot, so the
// sets depend on the graph alone.
//
// Source: Tarjan and van Leeuwen 1984, doi:10.1145/62.2160 (union of sets, with path
// halving).
type ties struct {
	g           *graph.Graph
	firstSlot   [][]int          // first slot of each node and axis
	parent      []int32          // of each slot; a root is its own parent
	reason      []int32          // of each root: index in reasons of what pins the set; 0 for none
	reasons     []string         // reasons; the first is empty
	reasonIndex map[string]int32 // index in reasons by text
}

// newTies applies the rules of all operations of a graph. A state and the value assigned to it
// (running statistics) are the same channels.
func newTies(g *graph.Graph) *ties {
	t := &ties{g: g, reasons: []string{""}, reasonIndex: map[string]int32{}}
	slots := 0
	for _, n := range g.Nodes {
		at := make([]int, len(n.Shape))
		for i, d := range n.Shape {
			at[i] = slots
			slots += d
		}
		t.firstSlot = append(t.firstSlot, at)
	}
	t.parent, t.reason = make([]int32, slots), make([]int32, slots)
	for i := range t.parent {
		t.parent[i] = int32(i)
	}
	for _, o := range g.Outputs { // before all others, as a set keeps its first reason
		t.pinAll(o.ID, "output "+o.Name)
	}
	for _, n := range g.Nodes {
		t.applyRule(n)
	}
	for _, a := range g.Assigns {
		t.tieAll(a.State, a.Value)
	}
	for _, n := range g.Nodes { // an axis of size 1 cannot become smaller
		for axis, d := range n.Shape {
			if d == 1 {
				t.pinAxis(n.ID, axis, "only channel at "+n.At)
			}
		}
	}
	return t
}

// set returns the set of an index of an axis of a node.
func (t *ties) set(node, axis, index int) int { return t.root(t.firstSlot[node][axis] + index) }

// root returns the root of a slot's set, and halves the path to it.
func (t *ties) root(slot int) int {
	for int(t.parent[slot]) != slot {
		t.parent[slot] = t.parent[t.parent[slot]]
		slot = int(t.parent[slot])
	}
	return slot
}

// pinned returns the reason why a set cannot be removed; empty if it can.
func (t *ties) pinned(set int) string { return t.reasons[t.reason[set]] }

// tie joins n consecutive indices from a on with as many from b on. Their values are nodes.
func (t *ties) tie(a, b graph.Index, n int) {
	for i := range n {
		x, y := t.set(a.Value, a.Axis, a.At+i), t.set(b.Value, b.Axis, b.At+i)
		if x == y {
			continue
		}
		if y < x {
			x, y = y, x
		}
		t.parent[y] = int32(x)
		if t.reason[x] == 0 {
			t.reason[x] = t.reason[y]
		}
	}
}

// tieAxis joins an axis of a with an axis of b of the same size.
func (t *ties) tieAxis(a, axisA, b, axisB int) {
	t.tie(graph.Index{Value: a, Axis: axisA}, graph.Index{Value: b, Axis: axisB}, t.g.Nodes[a].Shape[axisA])
}

// tieAll joins all axes of two values of the same shape.
func (t *ties) tieAll(a, b int) {
	for axis := range t.g.Nodes[a].Shape {
		t.tieAxis(a, axis, b, axis)
	}
}

// pinAxis pins all indices of an axis.
func (t *ties) pinAxis(node, axis int, why string) {
	for i := range t.g.Nodes[node].Shape[axis] {
		t.pinIndex(node, axis, i, why)
	}
}

// pinIndex pins one index.
func (t *ties) pinIndex(node, axis, index int, why string) {
	id, ok := t.reasonIndex[why]
	if !ok {
		id = int32(len(t.reasons))
		t.reasons, t.reasonIndex[why] = append(t.reasons, why), id
	}
	if r := t.set(node, axis, index); t.reason[r] == 0 {
		t.reason[r] = id
	}
}

// pinAxes pins all indices of some axes. Axes that the value does not have are ignored.
func (t *ties) pinAxes(node int, why string, axes ...int) {
	for _, axis := range axes {
		if axis < len(t.g.Nodes[node].Shape) {
			t.pinAxis(node, axis, why)
		}
	}
}

// pinAll pins all axes of a value.
func (t *ties) pinAll(node int, why string) {
	for axis := range t.g.Nodes[node].Shape {
		t.pinAxis(node, axis, why)
	}
}

// operation implements graph.Ties, with which the rule of an operation joins and pins indices.
type operation struct {
	*ties
	n *graph.Node
}

// id is the node of operand v, or of the result.
func (o operation) id(v int) int {
	if v == graph.Result {
		return o.n.ID
	}
	return o.n.In[v]
}

// Tie implements graph.Ties.
func (o operation) Tie(a, b graph.Index, n int) {
	a.Value, b.Value = o.id(a.Value), o.id(b.Value)
	o.tie(a, b, n)
}

// TieAxes implements graph.Ties.
func (o operation) TieAxes(a, axisA, b, axisB int) { o.tieAxis(o.id(a), axisA, o.id(b), axisB) }

// PinAxes implements graph.Ties.
func (o operation) PinAxes(v int, why string, axes ...int) { o.pinAxes(o.id(v), why, axes...) }

// PinIndex implements graph.Ties.
func (o operation) PinIndex(v, axis, index int, why string) { o.pinIndex(o.id(v), axis, index, why) }

// Location implements graph.Ties.
func (o operation) Location() string { return o.n.At }

// Description implements graph.Ties.
func (o operation) Description() string { return fmt.Sprintf("%s at %s", o.n.Op.Name, o.n.At) }

// applyRule applies the rule of an operation. An operation without a rule and without a scalar
// formula pins its operands and results, as keeping a channel is always correct.
func (t *ties) applyRule(n *graph.Node) {
	switch {
	case n.Kind == graph.KindInput:
		t.pinAll(n.ID, "input "+n.Name)
	case n.Kind != graph.KindOp:
	case n.Op.TieChannels != nil:
		n.Op.TieChannels(operation{t, n}, t.g.InShapes(n), n.Shape, n.Attrs)
	case n.Op.Scalar != nil:
		t.tieElementwise(n)
	default:
		why := fmt.Sprintf("%s at %s has no rule for channels", n.Op.Name, n.At)
		t.pinAll(n.ID, why)
		for _, in := range n.In {
			t.pinAll(in, why)
		}
	}
}

// tieElementwise joins the axes of the operands of an elementwise operation with those of the
// result. A broadcast axis, of size 1, is not joined.
func (t *ties) tieElementwise(n *graph.Node) {
	for _, in := range n.In {
		for axis, d := range t.g.Nodes[in].Shape {
			if d == n.Shape[axis] {
				t.tieAxis(in, axis, n.ID, axis)
			}
		}
	}
}
