package op

import (
	"math/bits"

	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// SetScore is a kernel score of sets: their size, and either the weight ε of mutual distances
// (dist.Fairness), or, if Groups is not 0, how many rows of a set are of the first of two groups
// between which distances are taken.
type SetScore struct {
	Size    int
	Epsilon float64
	Groups  int
}

// score gives the score of a set, and fills dx with its derivative to the rows.
func (a SetScore) score(dx, x []float64, y float64) float64 {
	if a.Groups > 0 {
		return dist.CrossPairCRPSGrad(dx, x, a.Groups, y)
	}
	return dist.KernelCRPSGrad(dx, x, y, func(int) float64 { return a.Epsilon })
}

// PairWeight is the factor of the distance of two rows, i < j, that count as a pair.
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

// result is the shape of a score a sample.
func (a SetScore) result(x, y Shape) (Shape, error) {
	n, err := setSamples(x, a.Size)
	switch {
	case err != nil:
		return nil, err
	case !withRows(x, n).Equal(y):
		return nil, shapeError("members %v in sets of %d, against observations %v", x, a.Size, y)
	case a.Size == 1 && a.Epsilon != 1:
		return nil, shapeError("a fair score of sets of one")
	case a.Groups < 0 || a.Groups >= a.Size:
		return nil, shapeError("the first %d of %d are no group beside another", a.Groups, a.Size)
	}
	return y.Clone(), nil
}

// flops is what sorting sets and one pass over them take.
func (a SetScore) flops(in []Shape) int64 { return 8 * int64(in[0].Size()*bits.Len(uint(a.Size))) }

const setScoreSource = "Ferro 2014, doi:10.1002/qj.2270; Lang et al. 2024, arXiv:2412.15832; Roberts 2026, arXiv:2602.15830; postproc/dist"

// setScoreCases gives the cases of kernel scores; operands makes those of an operation.
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

var setCRPS = Define(Spec[SetScore]{
	Name:   "set_crps",
	Doc:    "Kernel CRPS of the M rows of each sample against y, point by point: x [N·M C …], y [N C …] → [N C …]; the same bits whatever the order of rows.",
	Source: setScoreSource,
	Shape: func(in []Shape, a SetScore) (Shape, error) {
		if len(in) != 2 {
			return nil, shapeError("%d operands, want members and observations", len(in))
		}
		return a.result(in[0], in[1])
	},
	Grad: func(b *Builder, in []Value, _, dy Value, a SetScore) []Value {
		dx := setCRPSGrad.add(b, a, in[0], in[1], dy)
		// What moves members and observation alike changes no score.
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

var setCRPSGrad = Define(Spec[SetScore]{
	Name:   "set_crps_grad",
	Doc:    "Gradient of set_crps with respect to the members, from x [N·M C …], y and dy [N C …] → [N·M C …]; of two equal values the mean of both sides.",
	Source: setScoreSource,
	NoGrad: noSecondOrder,
	Shape: func(in []Shape, a SetScore) (Shape, error) {
		if len(in) != 3 {
			return nil, shapeError("%d operands, want members, observations and dy", len(in))
		}
		y, err := a.result(in[0], in[1])
		if err == nil && !y.Equal(in[2]) {
			err = shapeError("scores are %v, dy %v", y, in[2])
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

// KernelCRPS is the CRPS of the size members x of each sample against y, point by point,
//
//	(1/M) Σᵢ|xᵢ−y| − (1−ε)/(2M(M−1)) ΣᵢΣⱼ|xᵢ−xⱼ|,   ε = f(M)
//
// Shape: x [N·size C …], y [N C …] → [N C …]. Unit: that of y. Better: lower.
// Gradient: (1/M)[sign(xᵢ−y) − (1−ε)/(M−1) Σⱼ sign(xᵢ−xⱼ)]·dy to members, sign(0) = 0.
// Missing: NaN in a set or in y gives NaN.
// Cost: O(M log M) a point. Errors: ErrShape; also for a fair score of one member.
// Source: Ferro 2014, doi:10.1002/qj.2270; Lang et al. 2024, arXiv:2412.15832; the formula
// stands in postproc/dist.
func KernelCRPS(b *Builder, x, y Value, size int, f dist.Fairness) Value {
	return setCRPS.add(b, SetScore{Size: size, Epsilon: f(max(size, 1))}, x, y)
}

// CrossPairCRPS is the CRPS of two groups of members that were made apart, the first rows of
// each sample and the others, with the spread between the groups only:
//
//	(1/M) Σᵢ|xᵢ−y| − ½ mean of |xₐ−x_b|, a in the first group, b in the second
//
// Members that were made together gain nothing by being far from each other, as in a fair score.
//
// Shape, unit, missing, cost, errors: as KernelCRPS; both groups have members.
// Source: Roberts 2026, arXiv:2602.15830; the formula stands in postproc/dist.
func CrossPairCRPS(b *Builder, x, y Value, size, first int) Value {
	if first < 1 {
		return b.Fail("cross_pair_crps", shapeError("%d members in the first group", first))
	}
	return setCRPS.add(b, SetScore{Size: size, Groups: first}, x, y)
}
