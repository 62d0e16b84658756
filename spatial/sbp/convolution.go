package sbp

import "github.com/ensemble-weather/ensemble/engine/graph"

// SpatialDim is a dimension of space of a convolution.
type SpatialDim struct {
	Name     string // of the row that cuts it: "lat", "lon"
	Size     int
	Filter   int // an even one reaches one further behind than before
	Dilation int // 0 means 1
	Periodic bool
}

// Convolution is Y [N F space...] from X [N C space...] and W [F C filter...], with
// stride 1 and results of the operand's size: beyond the ends of a field lie zeros, or
// the other end if it is periodic.
//
// Rows: n cuts the batch; the name of a field cuts it, and reads halos of X and of the
// gradient of Y; f cuts filters and sums the gradient of X; c cuts channels and sums Y;
// rep computes the same everywhere. c on one axis and f on another hold the weights
// still (stationary-w).
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

// convolutionWork is a product and a sum for each element of the result and each weight
// of its filter.
func convolutionWork(_ []graph.Shape, w, y graph.Shape) float64 {
	return 2 * float64(y.Size()) * float64(w[1:].Size())
}
