// Package reftest evaluates graphs with the reference kernels, for tests of gradients,
// passes and backends.
package reftest

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// Eval computes all values of g in float64, node by node. feed gives inputs, parameters
// and states by name. Parameters and states that are missing have their initial values.
//
// Errors: an input is missing, or a value has the wrong size.
func Eval(g *graph.Graph, feed map[string][]float64, step uint64) ([][]float64, error) {
	vals := make([][]float64, len(g.Nodes))
	for i, n := range g.Nodes {
		size := n.Shape.Size()
		v, given := feed[n.Name]
		switch {
		case n.Kind == graph.KindOp:
			c := graph.Call{Out: make([]float64, size), OutShape: n.Shape, Seed: g.Seed, Step: step}
			for _, id := range n.In {
				c.In = append(c.In, vals[id])
				c.InShape = append(c.InShape, g.Nodes[id].Shape)
			}
			n.Op.Ref(c, n.Attrs)
			vals[i] = c.Out
			continue
		case n.Kind == graph.KindConst:
			v = widen(n.Data)
		case given:
		case n.Kind == graph.KindInput:
			return nil, fmt.Errorf("reftest: input %q: missing", n.Name)
		default:
			f := make([]float32, size)
			n.Init.Fill(f, g.Seed, n.Name)
			v = widen(f)
		}
		if len(v) != size {
			return nil, fmt.Errorf("reftest: %s %q has %d values, want %v", n.Kind, n.Name, len(v), n.Shape)
		}
		vals[i] = v
	}
	return vals, nil
}

// widen converts to float64.
func widen(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}
