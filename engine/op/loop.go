package op

import "github.com/ensemble-weather/ensemble/engine/graph"

// Elem is the element type of a loop.
type Elem interface{ ~float32 | ~float64 }

// Loop iterates over a broadcast elementwise operation in rows. Adjacent axes
// with a uniform stride in every operand are merged, and the innermost merged
// axis is the row. A Loop holds its counters: use it from one goroutine at a
// time.
type Loop struct {
	rows  int      // number of rows
	n     int      // length of a row
	inner [3]int   // stride of each operand within a row: 0 or 1
	dims  []int    // outer axes, innermost first
	step  [3][]int // strides of each operand along the outer axes
	index []int    // position along the outer axes
}

// NewLoop plans the iteration over out for up to three operands. A stride of 0
// repeats an operand along an axis.
func NewLoop(out Shape, in []Shape) *Loop {
	l := &Loop{rows: 1, n: 1}
	type axis struct {
		d  int
		st [3]int
	}
	var axes []axis
	for i := len(out) - 1; i >= 0; i-- {
		a := axis{d: out[i]}
		for k, s := range in {
			if len(s) == len(out) && s[i] != 1 {
				a.st[k] = s.Strides()[i]
			}
		}
		if out[i] == 1 {
			continue
		}
		if m := len(axes) - 1; m >= 0 {
			p := &axes[m]
			merge := true
			for k := range in {
				if a.st[k] != p.st[k]*p.d {
					merge = false
				}
			}
			if merge {
				p.d *= a.d
				continue
			}
		}
		axes = append(axes, a)
	}
	if len(axes) > 0 {
		l.n, l.inner = axes[0].d, axes[0].st
		axes = axes[1:]
	}
	for _, a := range axes {
		l.rows *= a.d
		l.dims = append(l.dims, a.d)
		for k := range l.step {
			l.step[k] = append(l.step[k], a.st[k])
		}
	}
	l.index = make([]int, len(l.dims))
	return l
}

// Flat reports whether all operands are dense and as large as the result, so
// that the whole operation is one row.
func (l *Loop) Flat(operands int) bool {
	for k := range operands {
		if l.inner[k] != 1 && l.n > 1 {
			return false
		}
	}
	return l.rows == 1
}

// Axes returns the merged axes, outermost first, and the strides of operand k
// along them.
func (l *Loop) Axes(k int) (dims, steps []int) {
	for i := len(l.dims) - 1; i >= 0; i-- {
		dims, steps = append(dims, l.dims[i]), append(steps, l.step[k][i])
	}
	return append(dims, l.n), append(steps, l.inner[k])
}

// start resets the counters to the first row.
func (l *Loop) start() { clear(l.index) }

// next advances the operand offsets to the next row.
func (l *Loop) next(off *[3]int) {
	for i, d := range l.dims {
		l.index[i]++
		for k := range off {
			off[k] += l.step[k][i]
		}
		if l.index[i] < d {
			return
		}
		l.index[i] = 0
		for k := range off {
			off[k] -= d * l.step[k][i]
		}
	}
}

// Apply runs a scalar formula over the loop: out = f(in…), with arithmetic in
// float64. All loops over scalar formulas, for every element type, are
// instances of this function.
func Apply[T Elem](l *Loop, s *graph.Scalar, p float64, in [][]T, out []T) {
	var off [3]int
	l.start()
	for r := range l.rows {
		o := out[r*l.n : (r+1)*l.n]
		switch {
		case s.F1 != nil:
			row1(s.F1, p, in[0][off[0]:], l.inner[0], o)
		case s.F2 != nil:
			row2(s.F2, p, in[0][off[0]:], in[1][off[1]:], l.inner[0], l.inner[1], o)
		case s.F3 != nil:
			row3(s.F3, p, in[0][off[0]:], in[1][off[1]:], in[2][off[2]:], l.inner, o)
		}
		l.next(&off)
	}
}

// row1 applies a formula of one operand to a row; sx is the stride of x.
func row1[T Elem](f func(x, p float64) float64, p float64, x []T, sx int, o []T) {
	for i := range o {
		o[i] = T(f(float64(x[i*sx]), p))
	}
}

// row2 applies a formula of two operands to a row.
func row2[T Elem](f func(x, y, p float64) float64, p float64, x, y []T, sx, sy int, o []T) {
	for i := range o {
		o[i] = T(f(float64(x[i*sx]), float64(y[i*sy]), p))
	}
}

// row3 applies a formula of three operands to a row; s are the strides.
func row3[T Elem](f func(x, y, z, p float64) float64, p float64, x, y, z []T, s [3]int, o []T) {
	for i := range o {
		o[i] = T(f(float64(x[i*s[0]]), float64(y[i*s[1]]), float64(z[i*s[2]]), p))
	}
}
