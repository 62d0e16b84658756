package channels

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// ties says which indices of the axes of all values of a graph belong together: an index that
// leaves one value leaves all values in which it is the same channel. Every index of every
// axis is a slot; slots that are tied form a set (union by index, so that the sets and their
// names depend on the graph alone).
type ties struct {
	g      *graph.Graph
	first  [][]int // of each node and axis, its first slot
	parent []int32
	reason []int32 // of the root of a set, what pins it: an index of why; 0 for nothing
	why    []string
	known  map[string]int32 // reasons by their text
}

func newTies(g *graph.Graph) *ties {
	t := &ties{g: g, why: []string{""}, known: map[string]int32{}}
	slots := 0
	for _, n := range g.Nodes {
		at := make([]int, len(n.Shape))
		for i, d := range n.Shape {
			at[i] = slots
			slots += d
		}
		t.first = append(t.first, at)
	}
	t.parent, t.reason = make([]int32, slots), make([]int32, slots)
	for i := range t.parent {
		t.parent[i] = int32(i)
	}
	for _, o := range g.Outputs { // first, as the first reason is the one that is told
		t.pinAll(o.ID, "it is the output "+o.Name)
	}
	for _, n := range g.Nodes {
		t.node(n)
	}
	for _, a := range g.Assigns {
		t.tieAll(a.State, a.Value)
	}
	for _, n := range g.Nodes { // the only channel there is, of a slice or a join too
		for axis, d := range n.Shape {
			if d == 1 {
				t.pin(n.ID, axis, "it is the only one at "+n.At)
			}
		}
	}
	return t
}

// set is the set of an index of an axis of a node.
func (t *ties) set(node, axis, index int) int { return t.root(t.first[node][axis] + index) }

func (t *ties) root(slot int) int {
	for int(t.parent[slot]) != slot {
		t.parent[slot] = t.parent[t.parent[slot]]
		slot = int(t.parent[slot])
	}
	return slot
}

// pinned says why a set cannot leave; empty if it can.
func (t *ties) pinned(set int) string { return t.why[t.reason[set]] }

// tie joins n indices of an axis of a, from lo on, with as many of an axis of b.
func (t *ties) tie(a, axisA, loA, b, axisB, loB, n int) {
	for i := range n {
		x, y := t.set(a, axisA, loA+i), t.set(b, axisB, loB+i)
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

// whole joins an axis of a with one of b of the same size.
func (t *ties) whole(a, axisA, b, axisB int) {
	t.tie(a, axisA, 0, b, axisB, 0, t.g.Nodes[a].Shape[axisA])
}

// tieAll joins all axes of values of the same shape.
func (t *ties) tieAll(a, b int) {
	for axis := range t.g.Nodes[a].Shape {
		t.whole(a, axis, b, axis)
	}
}

// pin keeps all of an axis for a reason.
func (t *ties) pin(node, axis int, why string) {
	for i := range t.g.Nodes[node].Shape[axis] {
		t.keep(node, axis, i, why)
	}
}

// keep pins one index.
func (t *ties) keep(node, axis, index int, why string) {
	id, ok := t.known[why]
	if !ok {
		id = int32(len(t.why))
		t.why, t.known[why] = append(t.why, why), id
	}
	if r := t.set(node, axis, index); t.reason[r] == 0 {
		t.reason[r] = id
	}
}

// pinAxes keeps some axes of a value.
func (t *ties) pinAxes(node int, why string, axes ...int) {
	for _, axis := range axes {
		if axis < len(t.g.Nodes[node].Shape) {
			t.pin(node, axis, why)
		}
	}
}

// pinAll keeps all axes of a value.
func (t *ties) pinAll(node int, why string) {
	for axis := range t.g.Nodes[node].Shape {
		t.pin(node, axis, why)
	}
}

// rules are the operations through which channels are followed. Any other pins all that it
// reads and gives: to leave a channel in is never wrong.
var rules = map[string]func(t *ties, n *graph.Node){
	"conv3d": func(t *ties, n *graph.Node) {
		x, w := n.In[0], n.In[1]
		t.whole(x, 0, n.ID, 0)
		t.whole(x, 1, w, 1)
		t.whole(w, 0, n.ID, 1)
		t.geometry(n, x, w)
	},
	"conv3d_grad_data": func(t *ties, n *graph.Node) { // transposed convolution
		w, x := n.In[0], n.In[1]
		t.whole(x, 0, n.ID, 0)
		t.whole(x, 1, w, 0)
		t.whole(w, 1, n.ID, 1)
		t.geometry(n, x, w)
	},
	"bias": func(t *ties, n *graph.Node) {
		t.tieAll(n.In[0], n.ID)
		t.whole(n.In[1], 0, n.ID, 1)
	},
	"channel_moments": func(t *ties, n *graph.Node) {
		for _, of := range []struct{ in, axis int }{{0, 1}, {1, 0}, {2, 0}} {
			t.whole(n.In[of.in], of.axis, n.ID, 1)
		}
		t.pin(n.ID, 0, "mean and variance stand there")
		for axis := range t.g.Nodes[n.In[0]].Shape {
			if axis != 1 {
				t.pin(n.In[0], axis, t.sums(n))
			}
		}
	},
	"channel_norm": func(t *ties, n *graph.Node) {
		t.tieAll(n.In[0], n.ID)
		t.whole(n.In[1], 1, n.ID, 1)
		t.whole(n.In[2], 0, n.ID, 1)
		t.whole(n.In[3], 0, n.ID, 1)
	},
	"max_pool": pooling, "avg_pool": pooling, "upsample": pooling,
	"concat": func(t *ties, n *graph.Node) {
		along, lo := n.Attrs.(op.AlongAxis).Axis, 0
		for _, in := range n.In {
			for axis, d := range t.g.Nodes[in].Shape {
				at := 0
				if axis == along {
					at, lo = lo, lo+d
				}
				t.tie(in, axis, 0, n.ID, axis, at, d)
			}
		}
	},
	"slice": func(t *ties, n *graph.Node) {
		a := n.Attrs.(op.Range)
		t.part(n.In[0], n.ID, a.Axis, a.Lo)
	},
	"embed": func(t *ties, n *graph.Node) {
		a := n.Attrs.(op.Range)
		t.part(n.ID, n.In[0], a.Axis, a.Lo)
		for i := range a.Size { // zeros that something may count on
			if i < a.Lo || i >= a.Hi {
				t.keep(n.ID, a.Axis, i, "zeros are joined to it at "+n.At)
			}
		}
	},
	"reshape":   (*ties).reshaped,
	"broadcast": (*ties).stretched,
	"sum": func(t *ties, n *graph.Node) {
		a := n.Attrs.(op.Axes)
		for axis := range t.g.Nodes[n.In[0]].Shape {
			if !a.Keep || slices.Contains(a.Axes, axis) {
				t.pin(n.In[0], axis, t.sums(n))
			} else {
				t.whole(n.In[0], axis, n.ID, axis)
			}
		}
	},
	"dropout":    func(t *ties, n *graph.Node) { t.tieAll(n.In[0], n.ID) },
	"set_pool":   rows,
	"set_repeat": rows,
	"set_swap": func(t *ties, n *graph.Node) { // rows and levels
		why := "rows of a sample and levels change places at " + n.At
		t.pinAxes(n.In[0], why, 0, 2)
		t.pinAxes(n.ID, why, 0, 2)
		for _, axis := range []int{1, 3, 4} {
			t.whole(n.In[0], axis, n.ID, axis)
		}
	},
}

// pooling treats every channel alike.
func pooling(t *ties, n *graph.Node) {
	t.whole(n.In[0], 0, n.ID, 0)
	t.whole(n.In[0], 1, n.ID, 1)
	t.pinAxes(n.In[0], t.windows(n), 2, 3, 4)
	t.pinAxes(n.ID, t.windows(n), 2, 3, 4)
}

// rows are operations within the rows of a sample.
func rows(t *ties, n *graph.Node) {
	why := "the rows of a sample are joined at " + n.At
	t.pin(n.In[0], 0, why)
	t.pin(n.ID, 0, why)
	for axis := 1; axis < len(n.Shape); axis++ {
		t.whole(n.In[0], axis, n.ID, axis)
	}
}

// node applies the rule of an operation, or pins what has none.
func (t *ties) node(n *graph.Node) {
	switch {
	case n.Kind == graph.KindInput:
		t.pinAll(n.ID, "it is the input "+n.Name)
	case n.Kind != graph.KindOp:
	case rules[n.Op.Name] != nil:
		rules[n.Op.Name](t, n)
	case n.Op.Scalar != nil:
		t.stretched(n)
	default:
		why := fmt.Sprintf("%s at %s is not followed", n.Op.Name, n.At)
		t.pinAll(n.ID, why)
		for _, in := range n.In {
			t.pinAll(in, why)
		}
	}
}

func (t *ties) sums(n *graph.Node) string {
	return fmt.Sprintf("%s at %s sums over it", n.Op.Name, n.At)
}
func (t *ties) windows(n *graph.Node) string {
	return fmt.Sprintf("%s at %s has windows there", n.Op.Name, n.At)
}

// geometry pins what a convolution's windows move along.
func (t *ties) geometry(n *graph.Node, x, w int) {
	for _, v := range []int{x, w, n.ID} {
		t.pinAxes(v, t.windows(n), 2, 3, 4)
	}
}

// stretched ties what a result that follows its operands point by point has in common with them.
func (t *ties) stretched(n *graph.Node) {
	for _, in := range n.In {
		for axis, d := range t.g.Nodes[in].Shape {
			if d == n.Shape[axis] {
				t.whole(in, axis, n.ID, axis)
			}
		}
	}
}

// part ties a value with another one that is its part of an axis from lo on.
func (t *ties) part(of, part, along, lo int) {
	for axis, d := range t.g.Nodes[part].Shape {
		at := 0
		if axis == along {
			at = lo
		}
		t.tie(part, axis, 0, of, axis, at, d)
	}
}

// reshaped ties the axes that a reshape leaves as they are; others, which it merges or parts, stay.
func (t *ties) reshaped(n *graph.Node) {
	from, to := t.g.Nodes[n.In[0]].Shape, n.Shape
	why := fmt.Sprintf("reshape at %s merges or parts it", n.At)
	for i, j := 0, 0; i < len(from) || j < len(to); {
		lo, hi := i, j
		a, b := 1, 1
		if i < len(from) {
			a, i = from[i], i+1
		}
		if j < len(to) {
			b, j = to[j], j+1
		}
		for a != b {
			if a < b && i < len(from) {
				a, i = a*from[i], i+1
			} else if j < len(to) {
				b, j = b*to[j], j+1
			} else {
				break
			}
		}
		x, y := only(from, lo, i), only(to, hi, j)
		if x >= 0 && y >= 0 {
			t.whole(n.In[0], x, n.ID, y)
			continue
		}
		for axis := lo; axis < i; axis++ {
			t.pin(n.In[0], axis, why)
		}
		for axis := hi; axis < j; axis++ {
			t.pin(n.ID, axis, why)
		}
	}
}

// only is the one axis of s from lo to hi that is longer than 1, or −1.
func only(s graph.Shape, lo, hi int) int {
	found := -1
	for i := lo; i < hi; i++ {
		if s[i] > 1 {
			if found >= 0 {
				return -1
			}
			found = i
		}
	}
	return found
}
