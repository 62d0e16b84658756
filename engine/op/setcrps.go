package op

import (
	"math/bits"

	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// SetScore is the attribute of kernel scores of sets. With Groups 0 the score
// is the kernel CRPS with weight 1−Epsilon of the mutual distances
// (dist.Fairness). Otherwise the first Groups rows of a set form one group, the
// others a second one, and only distances between the groups count.
type SetScore struct {
	Size    int     // members per set
	Epsilon float64 // 0 for the fair, 1/Size for the plain CRPS
	Groups  int     // members of the first group; 0 for one group
}

// score returns the score of a set, and writes its derivative with respect to
// the members to dx.
func (a SetScore) score(dx, x []float64, y float64) float64 {
	if a.Groups > 0 {
		return dist.CrossPairCRPSGrad(dx, x, a.Groups, y)
	}
	return dist.KernelCRPSGrad(dx, x, y, func(int) float64 { return a.Epsilon })
}

// PairWeight is the factor of |xᵢ−xⱼ| for a pair of rows i < j that counts.
func (a SetScore) PairWeight() float64 {
	m := float64(a.Size)
	switch {
	case a.Groups > 0:
		return 1 / (2 * float64(a.Groups) * (m - float64(a.Groups)))
	case a.Size == 1:
		return 0
	}
	return (1 - a.Epsilon) / (m * (m - 1))
}

// result is the shape of one score per sample.
func (a SetScore) result(x, y Shape) (Shape, error) {
	n, err := setSamples(x, a.Size)
	switch {
	case err != nil:
		return nil, err
	case !withRows(x, n).Equal(y):
		return nil, shapeError("members %v in sets of %d do not match observations %v", x, a.Size, y)
	case a.Size == 1 && a.Epsilon != 1:
		return nil, shapeError("a fair score needs at least two members")
	case a.Groups < 0 || a.Groups >= a.Size:
		return nil, shapeError("groups of %d among %d members: the second group is empty", a.Groups, a.Size)
	}
	return y.Clone(), nil
}

// flops is the approximate FLOP count of sorting the sets and one pass over
// them.
func (a SetScore) flops(in []Shape) int64 { return 8 * int64(in[0].Size()*bits.Len(uint(a.Size))) }

// setScoreSource is the source of the kernel scores.
const setScoreSource = "Ferro 2014, doi:10.1002/qj.2270; Lang et al. 2024, arXiv:2412.15832; Roberts 2026, arXiv:2602.15830; postproc/dist"

// setScoreCases returns the cases of kernel scores. operands returns the
// operand shapes of an operation.
func setScoreCases(operands func(x, y Shape) []Shape) []Case[SetScore] {
	var out []Case[SetScore]
	for _, c := range []struct {
		name string
		x    Shape
		a    SetScore
	}{
		{"plain", Shape{6, 2, 2, 5, 7}, SetScore{Size: 3, Epsilon: 1. / 3}},
		{"fair", Shape{26, 2, 1, 4, 19}, SetScore{Size: 13}},
		{"almost fair, 2-D", Shape{10, 3}, SetScore{Size: 5, Epsilon: 0.01}},
		{"one", Shape{3, 2, 5}, SetScore{Size: 1, Epsilon: 1}},
		{"two groups", Shape{14, 2, 1, 3, 5}, SetScore{Size: 7, Groups: 3}},
		{"one against one", Shape{4, 2, 5}, SetScore{Size: 2, Groups: 1}},
	} {
		y := withRows(c.x, c.x[0]/c.a.Size)
		out = append(out, Case[SetScore]{Name: c.name, In: operands(c.x, y), A: c.a})
	}
	return out
}

// setCRPS is the kernel CRPS of every set. Members are sorted, so a score takes
// O(M log M) and does not depend on their order.
var setCRPS = Define(Spec[SetScore]{
	Name:   "set_crps",
	Doc:    "Kernel CRPS of the M rows of each sample against y, point by point: x [N·M C …], y [N C …] → [N C …]; the result does not depend on the order of rows, bit for bit.",
	Source: setScoreSource,
	Shape: func(in []Shape, a SetScore) (Shape, error) {
		if len(in) != 2 {
			return nil, shapeError("%d operands, want members and observations", len(in))
		}
		return a.result(in[0], in[1])
	},
	Grad: func(b *Builder, in []Value, _, dy Value, a SetScore) []Value {
		dx := setCRPSGrad.add(b, a, in[0], in[1], dy)
		// A common shift of members and observation does not change the score.
		return []Value{dx, Scale(b, SetSum(b, dx, a.Size), -1)}
	},
	Window: func(in []Shape, a SetScore) Window { return setWindow(in, 0, a.Size) },
	FLOPs:  func(in []Shape, _ Shape, a SetScore) int64 { return a.flops(in) },
	Ref: func(c Call, a SetScore) {
		dx := make([]float64, a.Size)
		eachSet(c.In[0], c.OutShape[0], a.Size, func(at int, v []float64) { c.Out[at] = a.score(dx, v, c.In[1][at]) })
	},
	Cases: setScoreCases(func(x, y Shape) []Shape { return []Shape{x, y} }),
})

// setCRPSGrad is the gradient with respect to the members. The gradient with
// respect to y is minus its sum over the members, because a common shift of
// members and observation does not change the score.
var setCRPSGrad = Define(Spec[SetScore]{
	Name:   "set_crps_grad",
	Doc:    "Gradient of set_crps with respect to the members, from x [N·M C …], y and dy [N C …] → [N·M C …]; for equal values the mean of both sides.",
	Source: setScoreSource,
	NoGrad: noSecondOrder,
	Shape: func(in []Shape, a SetScore) (Shape, error) {
		if len(in) != 3 {
			return nil, shapeError("%d operands, want members, observations and dy", len(in))
		}
		y, err := a.result(in[0], in[1])
		if err == nil && !y.Equal(in[2]) {
			err = shapeError("dy is %[2]v, want %[1]v", y, in[2])
		}
		return in[0].Clone(), err
	},
	Window:  func(in []Shape, a SetScore) Window { return setWindow(in, 0, a.Size) },
	FLOPs:   func(in []Shape, _ Shape, a SetScore) int64 { return a.flops(in) },
	InPlace: inPlace[SetScore](0),
	Ref: func(c Call, a SetScore) {
		inner := c.InShape[0][1:].Size()
		dx := make([]float64, a.Size)
		eachSet(c.In[0], c.InShape[1][0], a.Size, func(at int, v []float64) {
			a.score(dx, v, c.In[1][at])
			for m, d := range dx {
				c.Out[setRow(at, m, a.Size, inner)] = d * c.In[2][at]
			}
		})
	},
	Cases: setScoreCases(func(x, y Shape) []Shape { return []Shape{x, y, y} }),
})

// KernelCRPS is the CRPS of an ensemble of M = size members x against y, point
// by point:
//
//	(1/M) Σᵢ|xᵢ−y| − (1−ε)/(2M(M−1)) ΣᵢΣⱼ|xᵢ−xⱼ|,   ε = f(M)
//
// ε = 1/M gives the plain CRPS of the empirical distribution, ε = 0 the fair
// CRPS, and values between the almost fair CRPS.
//
// Shape: x [N·size C …], y [N C …] → [N C …].
// Unit: that of y. Better: lower; the fair score may be negative.
// Missing: NaN in a set or in y gives NaN.
// Gradient: (1/M)[sign(xᵢ−y) − (1−ε)/(M−1) Σⱼ sign(xᵢ−xⱼ)]·dy to members, with
// sign(0) = 0.
// Errors: ErrShape, also for a fair score of one member.
// Cost: O(M log M) per point.
// Source: Ferro 2014, doi:10.1002/qj.2270; Lang et al. 2024, arXiv:2412.15832.
// The formula is implemented in postproc/dist.
func KernelCRPS(b *Builder, x, y Value, size int, f dist.Fairness) Value {
	return setCRPS.add(b, SetScore{Size: size, Epsilon: f(max(size, 1))}, x, y)
}

// CrossPairCRPS is the CRPS of two groups of members that were generated
// independently of each other. The first rows of each sample are group A, the
// others group B. Only distances between the groups measure the spread:
//
//	(1/M) Σᵢ|xᵢ−y| − ½ mean |xₐ−x_b|,   a ∈ A, b ∈ B
//
// Members of one group, which may depend on each other, cannot lower the score
// by distance from each other.
//
// Shape: x [N·size C …], y [N C …] → [N C …]; 1 ≤ first < size.
// Unit: that of y. Better: lower; single values may be negative.
// Missing: NaN in a set or in y gives NaN.
// Errors: ErrShape if a group is empty.
// Cost: O(M log M) per point.
// Source: Roberts 2026, arXiv:2602.15830. The formula is implemented in
// postproc/dist.
func CrossPairCRPS(b *Builder, x, y Value, size, first int) Value {
	if first < 1 {
		return b.Fail("cross_pair_crps", shapeError("%d members in the first group, want at least 1", first))
	}
	return setCRPS.add(b, SetScore{Size: size, Groups: first}, x, y)
}
