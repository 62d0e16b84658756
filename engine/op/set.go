package op

import "slices"

// Sets: the members of an ensemble, or the leads of a trajectory, are folded into the batch.
// In a field [N·M C …] rows n·M to n·M+M−1 are the set of sample n. Convolutions and
// all other operations treat rows alike and never mix them; those whose names begin with
// set_ work within the sets.

// setSamples is how many samples the rows of x are, of size rows each.
func setSamples(x Shape, size int) (int, error) {
	if len(x) < 2 || size < 1 || x[0]%size != 0 {
		return 0, shapeError("x is %v, want [N·%d C …]", x, size)
	}
	return x[0] / size, nil
}

// withRows is a shape with another number of rows.
func withRows(s Shape, rows int) Shape {
	out := s.Clone()
	out[0] = rows
	return out
}

// setWindow is that of operations point by point but for the rows of a sample; per is how
// many rows of operand i make one.
func setWindow(in []Shape, i, per int) Window {
	if len(in) <= i || len(in[i]) == 0 || per < 1 {
		return Window{}
	}
	return Window{Operand: i, Samples: in[i][0] / per}
}

// eachSet visits the sets of x in order of samples and places: v are the values of the set,
// in a slice that is used again, at is their place among the results of one a sample.
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

// row is the place of member m of the set whose place among results of one a sample is at.
func setRow(at, m, size, inner int) int { return (at/inner*size+m)*inner + at%inner }

// sortedSum adds up values from the smallest to the largest, whatever their order: it sorts
// v, or leaves NaN in front.
func sortedSum(v []float64) (sum float64) {
	slices.Sort(v)
	for _, x := range v {
		sum += x
	}
	return sum
}
