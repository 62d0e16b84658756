package op

import "slices"

// Sets: the members of an ensemble, or the leads of a trajectory, are folded into
// the batch axis. In a field [N·M C …] the rows n·M … n·M+M−1 are the set of
// sample n. Operations whose names begin with set_ combine the rows of a set. All
// other operations treat rows independently, except batch statistics and sums
// over the batch axis.

// setSamples is the number of samples in x, with size rows each.
func setSamples(x Shape, size int) (int, error) {
	if len(x) < 2 || size < 1 || x[0]%size != 0 {
		return 0, shapeError("x is %v, want [N·%d C …]", x, size)
	}
	return x[0] / size, nil
}

// withRows is the shape s with another number of rows.
func withRows(s Shape, rows int) Shape {
	out := s.Clone()
	out[0] = rows
	return out
}

// setWindow is the window of operations that read all rows of a sample at one
// point. per is the number of rows of operand i per sample.
//
// Source: Zaheer et al. 2017, arXiv:1703.06114 (functions of sets).
func setWindow(in []Shape, i, per int) Window {
	if len(in) <= i || len(in[i]) == 0 || per < 1 {
		return Window{}
	}
	return Window{Operand: i, Samples: in[i][0] / per}
}

// eachSet calls visit for every set of x, sample by sample and point by point.
// v holds the values of the set and is reused. at is the offset in a result
// with one row per sample.
func eachSet(x []float64, samples, size int, visit func(at int, v []float64)) {
	inner := len(x) / (samples * size)
	v := make([]float64, size)
	for n := range samples {
		for p := range inner {
			for m := range v {
				v[m] = x[(n*size+m)*inner+p]
			}
			visit(n*inner+p, v)
		}
	}
}

// setRow is the offset of member m of a set. at is the offset of the set in a
// result with one row per sample, inner the number of elements of a row.
func setRow(at, m, size, inner int) int { return (at/inner*size+m)*inner + at%inner }

// sortedSum adds values from the smallest to the largest, so that the order of
// members does not affect the rounding. It sorts v; NaNs come first.
func sortedSum(v []float64) (sum float64) {
	slices.Sort(v)
	for _, x := range v {
		sum += x
	}
	return sum
}
