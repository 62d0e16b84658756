package pass

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/pass/layout"
)

// chooseLayouts chooses the layouts of the operands and of the result of every
// operation, so that the total cost of operations and layout changes is
// minimal. It inserts the layout changes. Inputs and outputs of the graph are
// plain. Layouts change bits, so the choice of an earlier plan for the same
// graph is repeated, regardless of its present cost.
//
// The layout options of an operation come from the backend, with these exceptions.
// Operations with AnyLayout run in the plain layout or entirely in the layout
// of the backend. Aliases and communication between ranks are plain.
// Convolutions with int8 scales take a layout that int8 kernels support.
//
// Cost: see package layout; a network of thousands of operations takes
// milliseconds, apart from measurements.
// Source: Ivanov et al. 2021, arXiv:2007.00072; solved exactly by package
// layout.
func chooseLayouts(u *Unit) error {
	if u.Layouts == nil {
		return nil
	}
	inner := u.Layouts.InnerLayout()
	options := make([][]backend.LayoutOption, len(u.Graph.Nodes)) // of operations
	for _, n := range u.Graph.Nodes {
		switch {
		case n.Kind != graph.KindOp:
		case n.Op.AnyLayout && (inner == graph.Blocked || u.Native != nil && u.Native(n.Op)) && len(n.Shape) == 5:
			options[n.ID] = []backend.LayoutOption{{In: []graph.Layout{graph.Plain}}, {In: []graph.Layout{inner}, Out: inner}}
			if a, ok := n.Attrs.(graph.LayoutBound); ok {
				if l, bound := a.Bound(inner); bound {
					options[n.ID] = slices.DeleteFunc(options[n.ID], func(w backend.LayoutOption) bool { return w.Out != l })
				}
			}
		case n.Op.Alias || n.Op.AnyLayout || n.Op.Ordered:
			options[n.ID] = []backend.LayoutOption{{In: make([]graph.Layout, len(n.In))}}
		default:
			options[n.ID] = u.int8Options(n, u.Layouts.LayoutOptions(n.Op, n.Attrs, u.Graph.InShapes(n), n.Shape))
		}
	}
	// Repeat an earlier choice if every operation still has the chosen option.
	key, err := layoutsKey(u.Graph)
	if err != nil {
		return err
	}
	chosen, err := optionsByName(options, u.Choices[key])
	if err != nil {
		if u.Choices[key] != "" {
			u.Log.Debug("layouts of an earlier plan cannot be repeated, choosing new ones", "error", err)
		}
		if chosen, err = cheapestOptions(u, options); err != nil {
			return err
		}
	}
	if u.Chosen == nil {
		u.Chosen = map[string]string{}
	}
	u.Chosen[key] = optionNames(chosen)
	return writeLayouts(u, func(id int) backend.LayoutOption { return *chosen[id] })
}

// cheapestOptions returns the layout option of every operation such that the
// total cost is minimal. It translates the graph to a layout.Network. Values
// that do not come from operations are given in the plain layout, and outputs
// of the graph are required in it. Only 5-D fields have layout changes. Dead
// operations take no part and get their first variant.
func cheapestOptions(u *Unit, options [][]backend.LayoutOption) ([]*backend.LayoutOption, error) {
	g := u.Graph
	net := &layout.Network{Labels: int(graph.NumLayouts)}
	plain, inner := int(graph.Plain), int(u.Layouts.InnerLayout())
	at := make([]int, len(g.Nodes)) // index of the operation in the layout problem
	need := g.Needed(g.Roots())     // dead nodes left by fusion cost nothing
	for _, n := range g.Nodes {
		toInner, toPlain := math.Inf(1), math.Inf(1)
		if len(n.Shape) == 5 {
			var errs [2]error
			toInner, errs[0] = u.Layouts.ReorderCost(n.Shape, graph.Layout(inner))
			toPlain, errs[1] = u.Layouts.ReorderCost(n.Shape, graph.Plain)
			if err := errors.Join(errs[:]...); err != nil {
				return nil, err
			}
		}
		// Only two layouts occur in a graph: plain, and that of the backend.
		v := layout.Value{Transpose: forbiddenTransposes()}
		v.Transpose[plain][inner], v.Transpose[inner][plain] = toInner, toPlain
		if n.Kind != graph.KindOp {
			v.Given = []int{plain}
		}
		net.Values = append(net.Values, v)
		if n.Kind != graph.KindOp || !need[n.ID] {
			continue
		}
		if err := u.Layouts.Measure(n.Op, n.Attrs, g.InShapes(n), n.Shape, options[n.ID]); err != nil {
			return nil, fmt.Errorf("%s %v (%s): %w", n.Op.Name, n.Shape, n.At, err)
		}
		o := layout.Op{In: n.In, Out: n.ID}
		for _, w := range options[n.ID] {
			in := make([]int, len(w.In))
			for i, l := range w.In {
				in[i] = int(l)
			}
			o.Variants = append(o.Variants, layout.Variant{In: in, Out: int(w.Out), Cost: w.Cost})
		}
		at[n.ID] = len(net.Ops)
		net.Ops = append(net.Ops, o)
	}
	for _, id := range g.Roots() {
		net.Values[id].Required = []int{plain}
	}
	choice, err := net.Solve()
	if err != nil {
		return nil, err
	}
	if choice.Approximate {
		g.Notes = append(g.Notes, "layouts are approximate: the graph is too wide for an exact choice")
	}
	chosen := make([]*backend.LayoutOption, len(options))
	for id := range options {
		switch {
		case options[id] == nil:
		case need[id]:
			chosen[id] = &options[id][choice.Variants[at[id]]]
		default:
			chosen[id] = &options[id][0]
		}
	}
	return chosen, nil
}

// forbiddenTransposes is the cost matrix of layout changes if none is possible:
// infinite except on the diagonal.
func forbiddenTransposes() [][]float64 {
	t := make([][]float64, graph.NumLayouts)
	for i := range t {
		t[i] = slices.Repeat([]float64{math.Inf(1)}, int(graph.NumLayouts))
		t[i][i] = 0
	}
	return t
}

// layoutsKey identifies a graph in stored choices. Only the same graph repeats
// a choice, because the cheapest option of an operation depends on its
// neighbours.
func layoutsKey(g *graph.Graph) (string, error) {
	sum := sha256.New()
	if err := g.WriteText(sum); err != nil {
		return "", err
	}
	return "layouts of " + hex.EncodeToString(sum.Sum(nil)[:8]), nil
}

// optionNames lists the names of the options, in topological order of the
// operations.
func optionNames(chosen []*backend.LayoutOption) string {
	var names []string
	for _, w := range chosen {
		if w != nil {
			names = append(names, w.Name())
		}
	}
	return strings.Join(names, " ")
}

// optionsByName returns the options that optionNames listed.
//
// Errors: a name that no option has, or another number of names than
// operations.
func optionsByName(options [][]backend.LayoutOption, list string) ([]*backend.LayoutOption, error) {
	names := strings.Fields(list)
	chosen := make([]*backend.LayoutOption, len(options))
	for id, all := range options {
		if all == nil {
			continue
		}
		if len(names) == 0 {
			return nil, errors.New("stored layouts: fewer entries than operations")
		}
		i := slices.IndexFunc(all, func(w backend.LayoutOption) bool { return w.Name() == names[0] })
		if i < 0 {
			return nil, fmt.Errorf("stored layouts: %%%d has no option %s", id, names[0])
		}
		chosen[id], names = &all[i], names[1:]
	}
	if len(names) > 0 {
		return nil, fmt.Errorf("stored layouts: %d more entries than operations", len(names))
	}
	return chosen, nil
}

// writeLayouts rewrites the graph to the chosen options, with one reorder per
// value and layout. If an output of the graph is computed in another layout,
// its readers inside the graph use the original and only the output is
// reordered.
func writeLayouts(u *Unit, way func(id int) backend.LayoutOption) error {
	roots := u.Graph.Roots()
	own := map[int]graph.Value{}        // operand of a reorder to plain, by ID
	changed := map[[2]int]graph.Value{} // reordered values, by ID and layout
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
		plain := inLayout(b, v, graph.Plain) // readers inside the graph use v itself
		own[plain.ID()] = v
		return plain
	})
	if err == nil {
		u.Graph = out
	}
	return err
}
