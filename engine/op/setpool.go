package op

import (
	"math"
)

// SetReduction is a reduction over the rows of a set.
type SetReduction string

// The reductions.
const (
	ReduceSum  SetReduction = "sum"
	ReduceMean SetReduction = "mean"
	ReduceStd  SetReduction = "std" // divisor M−1
	ReduceMin  SetReduction = "min"
	ReduceMax  SetReduction = "max"
)

// Set is the size of sets and their reduction.
type Set struct {
	Size int
	Kind SetReduction
}

// stdFloor, in units of x, bounds the standard deviation in the denominator of
// its gradient. Otherwise the gradient would grow without bound for members
// that are nearly equal.
const stdFloor = 1e-6

// setPoolCases are the sizes with which pooling is tested.
func setPoolCases(kinds ...SetReduction) []Case[Set] {
	var out []Case[Set]
	for _, k := range kinds {
		out = append(out,
			Case[Set]{Name: string(k), In: []Shape{{6, 3, 2, 5, 7}}, A: Set{3, k}},
			Case[Set]{Name: string(k) + " of 13", In: []Shape{{26, 2, 1, 4, 19}}, A: Set{13, k}},
			Case[Set]{Name: string(k) + " of 2, 2-D", In: []Shape{{8, 3}}, A: Set{2, k}})
	}
	return out
}

// result is the shape of one row per sample.
func (a Set) result(x Shape) (Shape, error) {
	n, err := setSamples(x, a.Size)
	if err == nil && a.Kind == ReduceStd && a.Size < 2 {
		err = shapeError("the standard deviation of %d rows is undefined, want at least 2", a.Size)
	}
	if err != nil {
		return nil, err
	}
	return withRows(x, n), nil
}

// setPool reduces the rows of every set. Values are sorted first, so the result
// does not depend on the order of members.
var setPool = Define(Spec[Set]{
	Name: "set_pool",
	Doc: "Sum, mean, standard deviation (divisor M−1), minimum or maximum of the M rows of each sample: x [N·M C …] → [N C …]; " +
		"the result does not depend on the order of rows, bit for bit.",
	Source: "Höhlein et al. 2024, doi:10.1175/AIES-D-23-0070.1; Zaheer et al. 2017, arXiv:1703.06114",
	Shape:  func(in []Shape, a Set) (Shape, error) { return a.result(in[0]) },
	Grad: func(b *Builder, in []Value, out, dy Value, a Set) []Value {
		switch a.Kind {
		case ReduceSum:
			return []Value{SetRepeat(b, dy, a.Size)}
		case ReduceMean:
			return []Value{SetRepeat(b, Scale(b, dy, 1/float64(a.Size)), a.Size)}
		case ReduceStd:
			return []Value{setStdGrad.add(b, a, in[0], out, dy)}
		}
		return []Value{setExtremeGrad.add(b, a, in[0], out, dy)}
	},
	Window:      func(in []Shape, a Set) Window { return setWindow(in, 0, a.Size) },
	TieChannels: tieAllButRows[Set],
	FLOPs:       func(in []Shape, _ Shape, _ Set) int64 { return 4 * int64(in[0].Size()) },
	Ref: func(c Call, a Set) {
		eachSet(c.In[0], c.OutShape[0], a.Size, func(at int, v []float64) { c.Out[at] = reduceSet(v, a.Kind) })
	},
	Cases: setPoolCases(ReduceSum, ReduceMean, ReduceStd, ReduceMin, ReduceMax),
})

// reduceSet reduces the values of a set, which it sorts. NaN in v gives NaN.
func reduceSet(v []float64, kind SetReduction) float64 {
	m := float64(len(v))
	sum := sortedSum(v)
	if math.IsNaN(v[0]) {
		return v[0]
	}
	switch kind {
	case ReduceMean:
		return sum / m
	case ReduceStd:
		var q float64
		for _, x := range v {
			q += (x - sum/m) * (x - sum/m)
		}
		return math.Sqrt(q / (m - 1))
	case ReduceMin:
		return v[0]
	case ReduceMax:
		return v[len(v)-1]
	}
	return sum
}

// SetSum is the sum of the size rows of each sample. Values are added from the
// smallest to the largest, so the order of rows does not change a bit.
//
// Shape: x [N·size C …] → [N C …].
// Unit: that of x.
// Missing: NaN in a set gives NaN.
// Gradient: dy to every row.
// Errors: ErrShape.
func SetSum(b *Builder, x Value, size int) Value { return setPool.add(b, Set{size, ReduceSum}, x) }

// SetMean is the mean of the rows of each sample; see SetSum.
//
// Gradient: dy/size to every row.
func SetMean(b *Builder, x Value, size int) Value { return setPool.add(b, Set{size, ReduceMean}, x) }

// SetStd is the standard deviation s of the rows of each sample, with divisor
// size−1; see SetSum.
//
// Gradient: dy·(x−mean)/((size−1)·max(s, 1e-6)).
// Errors: ErrShape, also for size < 2.
func SetStd(b *Builder, x Value, size int) Value { return setPool.add(b, Set{size, ReduceStd}, x) }

// SetMin is the minimum of the rows of each sample, point by point; see SetSum.
//
// Gradient: dy in equal shares to the rows with the minimum.
func SetMin(b *Builder, x Value, size int) Value { return setPool.add(b, Set{size, ReduceMin}, x) }

// SetMax is the maximum of the rows of each sample, point by point; see SetMin.
func SetMax(b *Builder, x Value, size int) Value { return setPool.add(b, Set{size, ReduceMax}, x) }

// setGradShape is the shape rule of gradients from x [N·M …], the result and dy
// [N …].
func setGradShape(in []Shape, a Set) (Shape, error) {
	if len(in) != 3 {
		return nil, shapeError("%d operands, want x, y and dy", len(in))
	}
	y, err := a.result(in[0])
	if err == nil && (!y.Equal(in[1]) || !y.Equal(in[2])) {
		err = shapeError("y is %[3]v and dy %[4]v, x %[1]v reduces to %[2]v", in[0], y, in[1], in[2])
	}
	return in[0].Clone(), err
}

// setGradCases completes the cases of pooling by results and gradients.
func setGradCases(kinds ...SetReduction) []Case[Set] {
	cases := setPoolCases(kinds...)
	for i, c := range cases {
		y, err := c.A.result(c.In[0])
		if err != nil {
			panic("set_pool case " + c.Name + ": " + err.Error())
		}
		cases[i].In = []Shape{c.In[0], y, y}
		cases[i].Make = func(in [][]float64) {
			eachSet(in[0], y[0], c.A.Size, func(at int, v []float64) { in[1][at] = reduceSet(v, c.A.Kind) })
		}
	}
	return cases
}

// setStdGrad is the gradient of the standard deviation.
var setStdGrad = Define(Spec[Set]{
	Name:    "set_std_grad",
	Doc:     "Gradient of set_pool with the standard deviation, from x [N·M C …], its result s and dy [N C …]: dy·(x − mean)/((M−1)·max(s, 1e-6)).",
	Source:  "derivative of the standard deviation",
	NoGrad:  noSecondOrder,
	Shape:   setGradShape,
	Window:  func(in []Shape, a Set) Window { return setWindow(in, 0, a.Size) },
	FLOPs:   func(in []Shape, _ Shape, _ Set) int64 { return 6 * int64(in[0].Size()) },
	InPlace: inPlace[Set](0),
	Ref: func(c Call, a Set) {
		inner := c.InShape[0][1:].Size()
		eachSet(c.In[0], c.InShape[1][0], a.Size, func(at int, v []float64) {
			factor := c.In[2][at] / (float64(a.Size-1) * math.Max(c.In[1][at], stdFloor))
			mean := sortedSum(v) / float64(a.Size)
			for m := range v {
				i := setRow(at, m, a.Size, inner)
				c.Out[i] = (c.In[0][i] - mean) * factor
			}
		})
	},
	Cases: setGradCases(ReduceStd),
})

// setExtremeGrad is the gradient of minimum and maximum: a subgradient, the
// mean over all rows with the extreme value.
var setExtremeGrad = Define(Spec[Set]{
	Name:    "set_extreme_grad",
	Doc:     "Gradient of set_pool with minimum or maximum, from x [N·M C …], its result y and dy [N C …]: dy in equal shares to the rows equal to y.",
	Source:  "mean over the rows that attain the extreme value",
	NoGrad:  noSecondOrder,
	Shape:   setGradShape,
	Window:  func(in []Shape, a Set) Window { return setWindow(in, 0, a.Size) },
	FLOPs:   func(in []Shape, _ Shape, _ Set) int64 { return 3 * int64(in[0].Size()) },
	InPlace: inPlace[Set](0),
	Ref: func(c Call, a Set) {
		inner := c.InShape[0][1:].Size()
		eachSet(c.In[0], c.InShape[1][0], a.Size, func(at int, v []float64) {
			var n float64
			for _, x := range v {
				if x == c.In[1][at] {
					n++
				}
			}
			for m, x := range v {
				i := setRow(at, m, a.Size, inner)
				c.Out[i] = 0
				if x == c.In[1][at] {
					c.Out[i] = c.In[2][at] / n
				}
			}
		})
	},
	Cases: setGradCases(ReduceMin, ReduceMax),
})

// setRepeat copies a row to all rows of a set. Its gradient is set_pool with
// the sum.
var setRepeat = Define(Spec[Set]{
	Name:   "set_repeat",
	Doc:    "The row of each sample, repeated M times: x [N C …] → [N·M C …].",
	Source: "elementary",
	Shape: func(in []Shape, a Set) (Shape, error) {
		n, err := setSamples(in[0], 1)
		if err == nil && a.Size < 1 {
			err = shapeError("sets of %d rows, want at least 1", a.Size)
		}
		if err != nil {
			return nil, err
		}
		return withRows(in[0], n*a.Size), nil
	},
	Window:      func(in []Shape, _ Set) Window { return setWindow(in, 0, 1) },
	TieChannels: tieAllButRows[Set],
	FLOPs:       zeroFLOPs[Set],
	Ref: func(c Call, a Set) {
		inner := c.InShape[0][1:].Size()
		for i := range c.Out {
			c.Out[i] = c.In[0][i/inner/a.Size*inner+i%inner]
		}
	},
	Cases: []Case[Set]{
		{Name: "5-D", In: []Shape{{2, 3, 2, 5, 7}}, A: Set{Size: 3}},
		{Name: "2-D", In: []Shape{{4, 3}}, A: Set{Size: 5}},
	},
})

func init() {
	setRepeat.SetGrad(func(b *Builder, _ []Value, _, dy Value, a Set) []Value { return []Value{SetSum(b, dy, a.Size)} })
}

// SetRepeat copies the row of each sample size times.
//
// Shape: x [N C …] → [N·size C …].
// Gradient: the sum of dy over the rows.
// Errors: ErrShape.
func SetRepeat(b *Builder, x Value, size int) Value { return setRepeat.add(b, Set{Size: size}, x) }
