package channels

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// ties says which indices of the axes of all values of a graph belong together: an index that
// leaves one value leaves all values in which it is the same channel. Every index of every
// axis is a slot; slots that are tied form a set (union by index, so that the sets and their
// names depend on the graph alone).
type ties struct {
	g           *graph.Graph
	firstSlot   [][]int // of each node and axis, its first slot
	parent      []int32
	reason      []int32 // of the root of a set, what pins it: an index of why; 0 for nothing
	reasons     []string
	reasonIndex map[string]int32 // reasons by their text
}

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
	for _, o := range g.Outputs { // first, as the first reason is the one that is told
		t.pinAll(o.ID, "it is the output "+o.Name)
	}
	for _, n := range g.Nodes {
		t.applyRule(n)
	}
	for _, a := range g.Assigns {
		t.tieAll(a.State, a.Value)
	}
	for _, n := range g.Nodes { // the only channel there is, of a slice or a join too
		for axis, d := range n.Shape {
			if d == 1 {
				t.pinAxis(n.ID, axis, "it is the only one at "+n.At)
			}
		}
	}
	return t
}

// set is the set of an index of an axis of a node.
func (t *ties) set(node, axis, index int) int { return t.root(t.firstSlot[node][axis] + index) }

func (t *ties) root(slot int) int {
	for int(t.parent[slot]) != slot {
		t.parent[slot] = t.parent[t.parent[slot]]
		slot = int(t.parent[slot])
	}
	return slot
}

// pinned says why a set cannot leave; empty if it can.
func (t *ties) pinned(set int) string { return t.reasons[t.reason[set]] }

// tie joins n indices from a on with as many from b on; their values are nodes.
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

// tieAxis joins an axis of a with one of b of the same size.
func (t *ties) tieAxis(a, axisA, b, axisB int) {
	t.tie(graph.Index{Value: a, Axis: axisA}, graph.Index{Value: b, Axis: axisB}, t.g.Nodes[a].Shape[axisA])
}

// tieAll joins all axes of values of the same shape.
func (t *ties) tieAll(a, b int) {
	for axis := range t.g.Nodes[a].Shape {
		t.tieAxis(a, axis, b, axis)
	}
}

// pinAxis keeps all of an axis for a reason.
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

// pinAxes keeps some axes of a value.
func (t *ties) pinAxes(node int, why string, axes ...int) {
	for _, axis := range axes {
		if axis < len(t.g.Nodes[node].Shape) {
			t.pinAxis(node, axis, why)
		}
	}
}

// pinAll keeps all axes of a value.
func (t *ties) pinAll(node int, why string) {
	for axis := range t.g.Nodes[node].Shape {
		t.pinAxis(node, axis, why)
	}
}

// operation is a node with what it says of its channels (graph.Ties).
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

func (o operation) Tie(a, b graph.Index, n int) {
	a.Value, b.Value = o.id(a.Value), o.id(b.Value)
	o.tie(a, b, n)
}
func (o operation) TieAxes(a, axisA, b, axisB int)          { o.tieAxis(o.id(a), axisA, o.id(b), axisB) }
func (o operation) PinAxes(v int, why string, axes ...int)  { o.pinAxes(o.id(v), why, axes...) }
func (o operation) PinIndex(v, axis, index int, why string) { o.pinIndex(o.id(v), axis, index, why) }
func (o operation) Location() string                        { return o.n.At }
func (o operation) Description() string                     { return fmt.Sprintf("%s at %s", o.n.Op.Name, o.n.At) }

// applyRule applies the rule of an operation. One that has none, and no scalar formula, pins all that it
// reads and gives: to leave a channel in is never wrong.
func (t *ties) applyRule(n *graph.Node) {
	switch {
	case n.Kind == graph.KindInput:
		t.pinAll(n.ID, "it is the input "+n.Name)
	case n.Kind != graph.KindOp:
	case n.Op.TieChannels != nil:
		n.Op.TieChannels(operation{t, n}, t.g.InShapes(n), n.Shape, n.Attrs)
	case n.Op.Scalar != nil:
		t.tieElementwise(n)
	default:
		why := fmt.Sprintf("%s at %s is not followed", n.Op.Name, n.At)
		t.pinAll(n.ID, why)
		for _, in := range n.In {
			t.pinAll(in, why)
		}
	}
}

// tieElementwise ties what a result that follows its operands point by point has in common with them.
func (t *ties) tieElementwise(n *graph.Node) {
	for _, in := range n.In {
		for axis, d := range t.g.Nodes[in].Shape {
			if d == n.Shape[axis] {
				t.tieAxis(in, axis, n.ID, axis)
			}
		}
	}
}
