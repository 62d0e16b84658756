package sbp

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// Concat concatenates tensors along a dimension; their other dimensions are equal.
//
// Rules: s0, s1, ... split another dimension; rep and partial as for Elementwise.
func Concat(shapes []graph.Shape, along int) Op {
	y := slices.Clone(shapes[0])
	for _, s := range shapes[1:] {
		y[along] += s[along]
	}
	o := Op{
		X: shapes, Y: y,
		AxisRules: []Rule{unary("rep", B, B, B, B).forOperands(len(shapes)), unary("partial", P, P, B, B).forOperands(len(shapes))},
		Work:      func([]graph.Shape, graph.Shape, graph.Shape) float64 { return 0 },
	}
	for dim := range y {
		if dim != along {
			o.AxisRules = append(o.AxisRules, unary(fmt.Sprintf("s%d", dim), S(dim), S(dim), S(dim), S(dim)).forOperands(len(shapes)))
		}
	}
	return o
}
