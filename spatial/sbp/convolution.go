package sbp

import "github.com/ensemble-weather/ensemble/engine/graph"

// SpatialDim is a dimension of space of a convolution.
type SpatialDim struct {
	Name string // name of the rule that splits it, such as "lat"
	Size int
	// filter size; an even one reaches one index further after than before
	Filter   int
	Dilation int // 0 means 1
	Periodic bool
}

// Convolution computes Y [N F space...] from X [N C space...] and W [F C filter...]
// with stride 1. The result has the operand's size: it is padded with zeros, or
// periodic.
//
// Rules: n splits the batch. The name of a dimension of space splits that
// dimension, with halos of X and of the gradient of Y. f splits the filters and
// sums the gradient of X. c splits the channels and sums Y. rep replicates the
// computation. c on one axis and f on another leave the weights where they are
// (stationary-w).
//
// Source: Dryden et al. 2019, arXiv:1903.06681 and doi:10.1145/3295500.3356207.
func Convolution(n, c, f int, space ...SpatialDim) Op {
	o := Op{
		X: []graph.Shape{{n, c}}, W: graph.Shape{f, c}, Y: graph.Shape{n, f},
		AxisRules: []Rule{
			//             X     W     Y     dY    dX    dW
			weighted("n", S(0), B, S(0), S(0), S(0), P),
			weighted("f", B, S(0), S(1), S(1), P, S(0)),
			weighted("c", S(1), S(1), P, B, S(1), S(1)),
			weighted("rep", B, B, B, B, B, B),
		},
		Work:   convolutionWork,
		Window: make([]graph.WindowAxis, 2),
	}
	for i, s := range space {
		dim := S(2 + i)
		o.X[0], o.W, o.Y = append(o.X[0], s.Size), append(o.W, s.Filter), append(o.Y, s.Size)
		o.AxisRules = append(o.AxisRules, weighted(s.Name, dim, B, dim, dim, dim, P))
		d := max(s.Dilation, 1)
		o.Window = append(o.Window, graph.WindowAxis{
			Size: s.Filter, Stride: 1, Dilation: d, Pad: d * (s.Filter - 1) / 2, Periodic: s.Periodic,
		})
	}
	return o
}

// convolutionWork counts a multiplication and an addition for each element of the
// result and each weight of its filter.
func convolutionWork(_ []graph.Shape, w, y graph.Shape) float64 {
	return 2 * float64(y.Size()) * float64(w[1:].Size())
}
