package sbp

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// Elementwise computes every element of the result from those of the operands at its
// place; all have one shape.
//
// Rows: s0, s1, ... cut a dimension; rep computes the same everywhere; partial, for
// linear operations such as sums and multiples, passes summands on. The gradient of a
// summand is that of the whole, so partial reads and leaves it as B.
func Elementwise(shape graph.Shape, operands int, linear bool) Op {
	o := Op{
		Y:    shape,
		Work: func(x []graph.Shape, _, y graph.Shape) float64 { return float64(len(x) * y.Size()) },
	}
	rows := []Rule{unary("rep", B, B, B, B)}
	for dim := range shape {
		rows = append(rows, unary(fmt.Sprintf("s%d", dim), S(dim), S(dim), S(dim), S(dim)))
	}
	if linear {
		rows = append(rows, unary("partial", P, P, B, B))
	}
	for range operands {
		o.X = append(o.X, shape)
	}
	for _, r := range rows {
		o.AxisRules = append(o.AxisRules, r.forOperands(operands))
	}
	return o
}
