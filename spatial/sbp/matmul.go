package sbp

import "github.com/ensemble-weather/ensemble/engine/graph"

// MatMul computes Y = X·W with X [b n0] and W [n0 n1].
//
// Rules: dp splits the batch and sums the gradient of the weights (data parallel);
// col splits the columns of W and sums the gradient of X; row splits the rows of W
// and sums Y; rep replicates the computation.
//
// Source: Chen et al. 2023, arXiv:2301.06813.
func MatMul(b, n0, n1 int) Op {
	return Op{
		X: []graph.Shape{{b, n0}}, W: graph.Shape{n0, n1}, Y: graph.Shape{b, n1},
		AxisRules: []Rule{
			//              X     W     Y     dY    dX    dW
			weighted("dp", S(0), B, S(0), S(0), S(0), P),
			weighted("col", B, S(1), S(1), S(1), P, S(1)),
			weighted("row", S(1), S(0), P, B, S(1), S(0)),
			weighted("rep", B, B, B, B, B, B),
		},
		Work: func(x []graph.Shape, w, _ graph.Shape) float64 { return 2 * float64(x[0].Size()) * float64(w[1]) },
	}
}
