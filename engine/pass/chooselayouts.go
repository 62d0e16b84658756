package pass

import (
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/pass/layout"
)

// chooseLayouts decides for every operation in which layouts it takes its
// operands and gives its result, such that the operations and the changes of
// layout between them cost least in all, and writes the changes into the graph.
// Values that come from outside or leave are plain.
//
// Source: Ivanov et al. 2021, arXiv:2007.00072; solved exactly by package layout.
func chooseLayouts(u *Unit) error {
	if u.Layouts == nil {
		return nil
	}
	g := u.Graph
	net := &layout.Network{Labels: 2}
	const plain, blocked = int(graph.Plain), int(graph.Blocked)
	ways := make([][]backend.Way, len(g.Nodes))
	at := make([]int, len(g.Nodes)) // of the operation in the network
	for _, n := range g.Nodes {
		v := layout.Value{}
		if len(n.Shape) == 5 {
			c := u.Layouts.ReorderCost(n.Shape)
			v.Transpose = [][]float64{plain: {blocked: c}, blocked: {plain: c, blocked: 0}}
		} else {
			v.Transpose = [][]float64{plain: {blocked: math.Inf(1)}, blocked: {plain: math.Inf(1), blocked: 0}}
		}
		if n.Kind != graph.KindOp {
			v.Given = []int{plain}
		}
		net.Values = append(net.Values, v)
		if n.Kind != graph.KindOp {
			continue
		}
		ways[n.ID] = []backend.Way{{In: make([]graph.Layout, len(n.In))}}
		if !n.Op.Alias {
			ways[n.ID] = u.Layouts.Ways(n.Op, n.Attrs, g.InShapes(n), n.Shape)
		}
		o := layout.Op{In: n.In, Out: n.ID}
		for _, w := range ways[n.ID] {
			in := make([]int, len(w.In))
			for i, l := range w.In {
				in[i] = int(l)
			}
			o.Ways = append(o.Ways, layout.Way{In: in, Out: int(w.Out), Cost: w.Cost})
		}
		at[n.ID] = len(net.Ops)
		net.Ops = append(net.Ops, o)
	}
	for _, id := range g.Roots() {
		net.Values[id].Wanted = []int{plain}
	}
	choice, err := net.Solve()
	if err != nil {
		return err
	}
	return writeLayouts(u, func(id int) backend.Way { return ways[id][choice.Ways[at[id]]] })
}

// writeLayouts rewrites the graph to the chosen ways, with one reorder for
// every value and layout that is wanted.
func writeLayouts(u *Unit, way func(id int) backend.Way) error {
	roots := u.Graph.Roots()
	own := map[int]graph.Value{}        // what a reorder to plain, by number, was made of
	changed := map[[2]int]graph.Value{} // by number and layout
	inLayout := func(b *graph.Builder, v graph.Value, l graph.Layout) graph.Value {
		if o, ok := own[v.ID()]; ok {
			v = o
		}
		if v.Layout() == l {
			return v
		}
		key := [2]int{v.ID(), int(l)}
		if _, ok := changed[key]; !ok {
			changed[key] = op.Reorder(b, v, l)
		}
		return changed[key]
	}
	out, err := u.Graph.Rewrite(nil, func(b *graph.Builder, n *graph.Node, in []graph.Value) graph.Value {
		if n.Kind != graph.KindOp {
			return graph.Value{}
		}
		w := way(n.ID)
		for i := range in {
			in[i] = inLayout(b, in[i], w.In[i])
		}
		v := b.Node(n.Op, n.Attrs, in...)
		v.SetLayout(w.Out)
		if w.Out == graph.Plain || !slices.Contains(roots, n.ID) {
			return v
		}
		leaves := inLayout(b, v, graph.Plain) // what stays inside reads v itself
		own[leaves.ID()] = v
		return leaves
	})
	if err == nil {
		u.Graph = out
	}
	return err
}
