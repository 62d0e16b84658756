package op

import "math"

// pointNormSource is the source of layer normalisation over channels.
const pointNormSource = "Ba et al. 2016, arXiv:1607.06450, over the channels of each point"

// eachPoint calls visit for the points of a field [N C …]. The channels of a
// point start at offset at and are step apart.
func eachPoint(x Shape, visit func(at, step int)) {
	step := x[2:].Size()
	for n := range x[0] {
		for i := range step {
			visit(n*x[1]*step+i, step)
		}
	}
}

// pointMoments returns the mean of c values and 1/√(variance + eps).
func pointMoments(x []float64, at, step, c int, eps float64) (mean, r float64) {
	for k := range c {
		mean += x[at+k*step] / float64(c)
	}
	for k := range c {
		d := x[at+k*step] - mean
		r += d * d / float64(c)
	}
	return mean, 1 / math.Sqrt(r+eps)
}

// pointShape is the shape rule for operands that are fields of one shape [N C
// …], then values per channel.
func pointShape(in []Shape, fields, values int) (Shape, error) {
	if len(in) != fields+values || fields > 1 && !in[0].Equal(in[1]) {
		return nil, shapeError("operands %v, want %d fields [N C …] and %d values per channel", in, fields, values)
	}
	return in[0].Clone(), perChannel(in[0], in[fields:]...)
}

// pointNorm normalises over the channels of each point.
var pointNorm = Define(Spec[Eps]{
	Name:   "point_norm",
	Doc:    "(x − mean)/√(variance + eps)·gamma + beta, mean and variance over the channels of each point: x [N C …], gamma [C], beta [C].",
	Source: pointNormSource,
	Shape:  func(in []Shape, _ Eps) (Shape, error) { return pointShape(in, 1, 2) },
	Grad: func(b *Builder, in []Value, _, dy Value, a Eps) []Value {
		x, gamma := in[0], in[1]
		sums := pointNormSums.add(b, a, x, dy)
		row := func(i int) Value { return Reshape(b, Slice(b, sums, 0, i, i+1), gamma.Shape()) }
		return []Value{pointNormGrad.add(b, a, x, dy, gamma), row(1), row(0)}
	},
	Window: func([]Shape, Eps) Window { return Window{FullAxes: []int{1}} },
	FLOPs:  func(_ []Shape, out Shape, _ Eps) int64 { return 7 * int64(out.Size()) },
	Ref: func(c Call, a Eps) {
		n := c.OutShape[1]
		eachPoint(c.OutShape, func(at, step int) {
			mean, r := pointMoments(c.In[0], at, step, n, a.Eps)
			for k := range n {
				c.Out[at+k*step] = (c.In[0][at+k*step]-mean)*r*c.In[1][k] + c.In[2][k]
			}
		})
	},
	Cases: []Case[Eps]{
		{Name: "5-D", In: []Shape{{3, 4, 2, 5, 6}, {4}, {4}}, A: Eps{1e-5}, Low: -1, High: 1},
		{Name: "many channels", In: []Shape{{2, 37, 1, 9, 13}, {37}, {37}}, A: Eps{1e-5}, Low: -1, High: 1},
		{Name: "2-D", In: []Shape{{5, 3}, {3}, {3}}, A: Eps{1e-3}, Low: -1, High: 1},
	},
})

// pointNormGrad is the gradient with respect to x, with g = dy·gamma and x̂ =
// (x − mean)·r:
//
//	dx = r·(g − mean(g) − x̂·mean(g·x̂))
//
// The moments are recomputed, which is cheaper than storing two fields.
var pointNormGrad = Define(Spec[Eps]{
	Name:   "point_norm_grad",
	Doc:    "Gradient of point_norm with respect to x, from x, dy and gamma; moments are recomputed.",
	Source: "derivative of point_norm",
	NoGrad: noSecondOrder,
	Shape:  func(in []Shape, _ Eps) (Shape, error) { return pointShape(in, 2, 1) },
	Window: func([]Shape, Eps) Window { return Window{FullAxes: []int{1}} },
	FLOPs:  func(_ []Shape, out Shape, _ Eps) int64 { return 14 * int64(out.Size()) },
	Ref: func(c Call, a Eps) {
		x, dy, gamma, n := c.In[0], c.In[1], c.In[2], c.OutShape[1]
		eachPoint(c.OutShape, func(at, step int) {
			mean, r := pointMoments(x, at, step, n, a.Eps)
			var sum, dot float64
			for k := range n {
				g := dy[at+k*step] * gamma[k] / float64(n)
				sum += g
				dot += g * (x[at+k*step] - mean) * r
			}
			for k := range n {
				c.Out[at+k*step] = r * (dy[at+k*step]*gamma[k] - sum - (x[at+k*step]-mean)*r*dot)
			}
		})
	},
	Cases: []Case[Eps]{
		{Name: "5-D", In: []Shape{{3, 4, 2, 5, 6}, {3, 4, 2, 5, 6}, {4}}, A: Eps{1e-5}, Low: -1, High: 1},
		{Name: "many channels", In: []Shape{{2, 37, 1, 9, 13}, {2, 37, 1, 9, 13}, {37}}, A: Eps{1e-5}, Low: -1, High: 1},
		{Name: "2-D", In: []Shape{{5, 3}, {5, 3}, {3}}, A: Eps{1e-3}, Low: -1, High: 1},
	},
})

// pointNormSums computes the gradients of beta and gamma: Σ dy and Σ dy·x̂ per
// channel.
var pointNormSums = Define(Spec[Eps]{
	Name:   "point_norm_sums",
	Doc:    "Σ dy and Σ dy·(x − mean)/√(variance + eps) over rows and points, mean and variance those of a point, from x and dy [N C …] → [2 C].",
	Source: "derivative of point_norm",
	NoGrad: noSecondOrder,
	Shape: func(in []Shape, _ Eps) (Shape, error) {
		x, err := pointShape(in, 2, 0)
		if err != nil {
			return nil, err
		}
		return momentsShape(x)
	},
	Window: func(in []Shape, _ Eps) Window { return Window{FullAxes: allBut(in[0], -1), Additive: true} },
	FLOPs:  func(in []Shape, _ Shape, _ Eps) int64 { return 9 * int64(in[0].Size()) },
	Ref: func(c Call, a Eps) {
		x, dy, n := c.In[0], c.In[1], c.OutShape[1]
		clear(c.Out)
		eachPoint(c.InShape[0], func(at, step int) {
			mean, r := pointMoments(x, at, step, n, a.Eps)
			for k := range n {
				c.Out[k] += dy[at+k*step]
				c.Out[n+k] += dy[at+k*step] * (x[at+k*step] - mean) * r
			}
		})
	},
	Cases: []Case[Eps]{
		{Name: "5-D", In: []Shape{{3, 4, 2, 5, 6}, {3, 4, 2, 5, 6}}, A: Eps{1e-5}, Low: -1, High: 1},
		{Name: "many channels", In: []Shape{{2, 37, 1, 9, 13}, {2, 37, 1, 9, 13}}, A: Eps{1e-5}, Low: -1, High: 1},
	},
})

// PointNorm normalises the channels of every point, then scales and shifts each
// channel:
//
//	y = (x − mean)/√(variance + eps)·gamma + beta
//
// Shape: x [N C …]; gamma, beta [C]. eps 0 means 1e-5.
// Gradient: to all three; the moments are recomputed.
// Window: all channels of a point.
// Errors: ErrShape.
// Source: Ba et al. 2016, arXiv:1607.06450, over the channels of each point.
func PointNorm(b *Builder, x, gamma, beta Value, eps float64) Value {
	if eps == 0 {
		eps = 1e-5
	}
	return pointNorm.add(b, Eps{eps}, x, gamma, beta)
}
