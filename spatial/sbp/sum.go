package sbp

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// Sum sums a tensor over one dimension, which is removed.
//
// Rules: s0, s1, ... split a dimension of the operand; a split of the summed
// dimension gives P. rep replicates the computation; partial maps summands to
// summands.
//
// Source: Yuan et al. 2021, arXiv:2110.15032, section 3.
func Sum(shape graph.Shape, over int) Op {
	o := Op{
		X:         []graph.Shape{shape},
		Y:         slices.Delete(slices.Clone(shape), over, over+1),
		AxisRules: []Rule{unary("rep", B, B, B, B), unary("partial", P, P, B, B)},
		Work:      func(x []graph.Shape, _, _ graph.Shape) float64 { return float64(x[0].Size()) },
	}
	for dim := range shape {
		y, dy := S(dim), S(dim)
		switch {
		case dim == over:
			y, dy = P, B
		case dim > over:
			y, dy = S(dim-1), S(dim-1)
		}
		o.AxisRules = append(o.AxisRules, unary(fmt.Sprintf("s%d", dim), S(dim), y, dy, S(dim)))
	}
	return o
}
