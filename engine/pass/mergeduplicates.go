package pass

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

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
		var text []byte
		switch {
		case n.Kind == graph.KindOp:
			text = fmt.Appendf(nil, "%s %#v", n.Op.Name, n.Attrs)
			for _, v := range in {
				text = strconv.AppendInt(append(text, ' '), int64(v.ID()), 10)
			}
		case n.Kind == graph.KindConst && n.Name == "" && len(n.Data) <= foldLimit:
			text = fmt.Append(nil, "const ", n.Shape, " ")
			for _, x := range n.Data {
				text = binary.LittleEndian.AppendUint32(text, math.Float32bits(x))
			}
		default:
			return graph.Value{}
		}
		key := string(text)
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
