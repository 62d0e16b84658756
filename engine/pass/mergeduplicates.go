package pass

import (
	"fmt"
	"math"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// mergeDuplicates eliminates common subexpressions: operations with equal
// attributes and operands, and equal unnamed constants, are computed once. It
// compares constants bit by bit, so that 0 and −0 stay distinct. Constants
// above foldLimit are not compared, because their keys would be long. Random
// operations are equal only if they use the same stream.
//
// Source: Aho, Lam, Sethi and Ullman 2006, Compilers, 2nd ed., section 9.1.4.
func mergeDuplicates(u *Unit) error {
	seen := map[string]graph.Value{}
	g, err := u.Graph.Rewrite(nil, func(b *graph.Builder, n *graph.Node, in []graph.Value) graph.Value {
		var key string
		switch {
		case n.Kind == graph.KindOp:
			key = fmt.Sprintf("%s %#v", n.Op.Name, n.Attrs)
			for _, v := range in {
				key += fmt.Sprintf(" %d", v.ID())
			}
		case n.Kind == graph.KindConst && n.Name == "" && len(n.Data) <= foldLimit:
			key = fmt.Sprint("const ", n.Shape)
			for _, x := range n.Data {
				key += fmt.Sprintf(" %x", math.Float32bits(x))
			}
		default:
			return graph.Value{}
		}
		if v, ok := seen[key]; ok {
			return v
		}
		var v graph.Value
		if n.Kind == graph.KindOp {
			v = b.Node(n.Op, n.Attrs, in...)
		} else {
			v = b.Const("", n.Shape, n.Data)
		}
		seen[key] = v
		return v
	})
	if err == nil {
		u.Graph = g
	}
	return err
}
