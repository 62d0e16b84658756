package pass

import "github.com/ensemble-weather/ensemble/engine/graph"

// foldLimit bounds the size in elements of a folded result that is larger than
// its operands, since constants occupy memory for the life of the plan.
const foldLimit = 4096

// foldConstants evaluates operations on constants with the reference kernels,
// in float64, and rounds the result once to float32. Random and ordered
// operations are not folded: their results depend on the step, or on other
// ranks.
//
// Source: Aho, Lam, Sethi and Ullman 2006, Compilers, 2nd ed., section 9.4.
func foldConstants(u *Unit) error {
	g, err := u.Graph.Rewrite(nil, func(b *graph.Builder, n *graph.Node, in []graph.Value) graph.Value {
		if n.Kind != graph.KindOp || n.Op.Random || n.Op.Ordered || len(in) == 0 {
			return graph.Value{}
		}
		size := n.Shape.Size()
		c := graph.Call{OutShape: n.Shape}
		total := 0
		for _, v := range in {
			data, ok := v.Const()
			if !ok {
				return graph.Value{}
			}
			x := make([]float64, len(data))
			for i, d := range data {
				x[i] = float64(d)
			}
			c.In, c.InShape = append(c.In, x), append(c.InShape, v.Shape())
			total += len(x)
		}
		if size > max(total, foldLimit) {
			return graph.Value{}
		}
		c.Out = make([]float64, size)
		n.Op.Ref(c, n.Attrs)
		out := make([]float32, size)
		for i, v := range c.Out {
			out[i] = float32(v)
		}
		return b.Const("", n.Shape, out)
	})
	if err == nil {
		u.Graph = g
	}
	return err
}
