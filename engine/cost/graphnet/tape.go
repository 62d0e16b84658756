package graphnet

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// value is a matrix with the gradient of the loss with respect to it.
type value struct{ x, d *mat.Dense }

// newValue returns zeros.
func newValue(rows, cols int) *value {
	return &value{mat.NewDense(rows, cols, nil), mat.NewDense(rows, cols, nil)}
}

// constant returns a value whose gradient is not used.
func constant(x *mat.Dense) *value {
	r, c := x.Dims()
	return &value{x, mat.NewDense(r, c, nil)}
}

// tape records operations on values, so that gradients can be computed in reverse order.
//
// Source: Griewank and Walther 2008, Evaluating Derivatives, chapter 3.
type tape struct{ reverse []func() }

// like returns zeros of a value's shape.
func like(a *value) *value { return newValue(a.x.Dims()) }

// backward adds to the gradients of all values those of the values whose gradients are set.
func (t *tape) backward() {
	for i := len(t.reverse) - 1; i >= 0; i-- {
		t.reverse[i]()
	}
}

// product is the matrix product a·b.
func (t *tape) product(a, b *value) *value {
	rows, inner := a.x.Dims()
	_, cols := b.x.Dims()
	y := newValue(rows, cols)
	y.x.Mul(a.x, b.x)
	t.reverse = append(t.reverse, func() {
		da, db := mat.NewDense(rows, inner, nil), mat.NewDense(inner, cols, nil)
		da.Mul(y.d, b.x.T())
		db.Mul(a.x.T(), y.d)
		a.d.Add(a.d, da)
		b.d.Add(b.d, db)
	})
	return y
}

// sum is the sum of values of one shape. Those of one row are added to each row.
func (t *tape) sum(first *value, others ...*value) *value {
	y := like(first)
	y.x.Copy(first.x)
	rows, _ := y.x.Dims()
	for _, o := range others {
		if n, _ := o.x.Dims(); n == rows {
			y.x.Add(y.x, o.x)
			continue
		}
		for i := range rows {
			addTo(y.x.RawRowView(i), o.x.RawRowView(0), 1)
		}
	}
	t.reverse = append(t.reverse, func() {
		first.d.Add(first.d, y.d)
		for _, o := range others {
			if n, _ := o.x.Dims(); n == rows {
				o.d.Add(o.d, y.d)
				continue
			}
			for i := range rows {
				addTo(o.d.RawRowView(0), y.d.RawRowView(i), 1)
			}
		}
	})
	return y
}

// addTo adds by·x to y.
func addTo(y, x []float64, by float64) {
	for i, v := range x {
		y[i] += by * v
	}
}

// times is the product of elements.
func (t *tape) times(a, b *value) *value {
	y := like(a)
	y.x.MulElem(a.x, b.x)
	t.reverse = append(t.reverse, func() {
		d := y.d.RawMatrix().Data
		for i, v := range d {
			a.d.RawMatrix().Data[i] += v * b.x.RawMatrix().Data[i]
			b.d.RawMatrix().Data[i] += v * a.x.RawMatrix().Data[i]
		}
	})
	return y
}

// each applies f to each element. slope is the derivative as function of the result.
func (t *tape) each(a *value, f, slope func(float64) float64) *value {
	y := like(a)
	from, to := a.x.RawMatrix().Data, y.x.RawMatrix().Data
	for i, v := range from {
		to[i] = f(v)
	}
	t.reverse = append(t.reverse, func() {
		d := a.d.RawMatrix().Data
		for i, v := range y.d.RawMatrix().Data {
			d[i] += v * slope(to[i])
		}
	})
	return y
}

// sigmoid is 1/(1 + exp(−x)) times a factor.
func (t *tape) sigmoid(a *value, by float64) *value {
	return t.each(a, func(x float64) float64 { return by / (1 + math.Exp(-x)) }, func(y float64) float64 { return y * (1 - y/by) })
}

// tanh applies the hyperbolic tangent to each element.
func (t *tape) tanh(a *value) *value {
	return t.each(a, math.Tanh, func(y float64) float64 { return 1 - y*y })
}

// rows are the rows of a with these numbers.
func (t *tape) rows(a *value, numbers []int) *value {
	_, cols := a.x.Dims()
	y := newValue(len(numbers), cols)
	for i, k := range numbers {
		copy(y.x.RawRowView(i), a.x.RawRowView(k))
	}
	t.reverse = append(t.reverse, func() {
		for i, k := range numbers {
			addTo(a.d.RawRowView(k), y.d.RawRowView(i), 1)
		}
	})
	return y
}

// gather sums over the edges into each vertex the state of their source, element by element times the gate of their position, and times the
// weight of the edge.
//
//	y_v = Σ_{e: w→v} weight_e · h_w ⊙ p(position_e)
func (t *tape) gather(h, gates *value, edges []edge) *value {
	y := like(h)
	for _, e := range edges {
		to, from, p := y.x.RawRowView(e.target), h.x.RawRowView(e.source), gates.x.RawRowView(e.position)
		for j := range to {
			to[j] += e.weight * from[j] * p[j]
		}
	}
	t.reverse = append(t.reverse, func() {
		for _, e := range edges {
			d := y.d.RawRowView(e.target)
			from, p := h.x.RawRowView(e.source), gates.x.RawRowView(e.position)
			dFrom, dp := h.d.RawRowView(e.source), gates.d.RawRowView(e.position)
			for j, v := range d {
				dFrom[j] += e.weight * v * p[j]
				dp[j] += e.weight * v * from[j]
			}
		}
	})
	return y
}
