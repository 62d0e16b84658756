package sbp

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// Elementwise computes every element of the result from the elements of the
// operands at the same index. All tensors have one shape.
//
// Rules: s0, s1, ... split a dimension; rep replicates the computation. For linear
// operations partial maps summands to summands. The gradient with respect to a
// summand equals that with respect to the sum, so partial has placement B for
// gradients.
//
// Source: Yuan et al. 2021, arXiv:2110.15032, section 3.
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
