package op

import "math"

// Templates describes how the weights of a layer are composed from a store of
// parameters that layers share: a linear combination of templates, which are
// slices of the store.
//
//	W = Σₖ coefficient[k] · template[k],   template[k] = store[Offsets[k] : …]
//
// A template has as many values as the weights, unless Rows and Columns are
// set. Then it is a smaller matrix, which is resized to the matrix [result
// channels, all other axes] of the weights by bilinear interpolation between
// cell centres.
type Templates struct {
	To            Shape // of the weights
	Offsets       []int // first value of each template in the store
	Rows, Columns int   // size of a smaller template; 0 for one as large as the weights
}

// values is the number of values of a template in the store.
func (a Templates) values() int {
	if a.Rows == 0 {
		return a.To.Size()
	}
	return a.Rows * a.Columns
}

// plane is the size of the weights as a matrix.
func (a Templates) plane() (rows, columns int) { return a.To[0], a.To[1:].Size() }

// check returns an error unless all templates lie within a store of that size.
func (a Templates) check(store int) error {
	if len(a.To) < 2 || len(a.Offsets) == 0 || a.Rows < 0 || (a.Rows == 0) != (a.Columns == 0) {
		return shapeError("weights %v from %d templates of %d×%d values: invalid size", a.To, len(a.Offsets), a.Rows, a.Columns)
	}
	if rows, columns := a.plane(); a.Rows > rows || a.Columns > columns {
		return shapeError("templates of %d×%d values exceed weights %v", a.Rows, a.Columns, a.To)
	}
	for _, o := range a.Offsets {
		if o < 0 || o+a.values() > store {
			return shapeError("template of %d values at offset %d exceeds the store of %d", a.values(), o, store)
		}
	}
	return nil
}

// interpolationPoints returns the two of n cell centres that enclose centre i
// of an axis of to cells, where both axes have the same length. share is the
// weight of the second.
func interpolationPoints(i, n, to int) (a, b int, share float64) {
	at := max(0, (float64(i)+0.5)*float64(n)/float64(to)-0.5)
	a = min(int(at), n-1)
	b = min(a+1, n-1)
	return a, b, at - math.Floor(at)
}

// each visits every product of the combination: value from of a template
// contributes to weight to with the given factor.
func (a Templates) each(visit func(from, to int, factor float64)) {
	if a.Rows == 0 {
		for i := range a.To.Size() {
			visit(i, i, 1)
		}
		return
	}
	rows, columns := a.plane()
	for r := range rows {
		r0, r1, down := interpolationPoints(r, a.Rows, rows)
		for c := range columns {
			c0, c1, right := interpolationPoints(c, a.Columns, columns)
			to := r*columns + c
			visit(r0*a.Columns+c0, to, (1-down)*(1-right))
			visit(r0*a.Columns+c1, to, (1-down)*right)
			visit(r1*a.Columns+c0, to, down*(1-right))
			visit(r1*a.Columns+c1, to, down*right)
		}
	}
}

// Variance is the variance of the weights if template values are independent
// with variance 1 and the coefficients have norm 1. Interpolation reduces it.
func (a Templates) Variance() float64 {
	if a.Rows == 0 {
		return 1
	}
	rows, columns := a.plane()
	axis := func(n, to int) (sum float64) {
		for i := range to {
			if p, q, share := interpolationPoints(i, n, to); p == q {
				sum++
			} else {
				sum += (1-share)*(1-share) + share*share
			}
		}
		return sum / float64(to)
	}
	return axis(a.Rows, rows) * axis(a.Columns, columns)
}

// CombineTemplates computes the weights: the sum of the templates, each times
// its coefficient.
func CombineTemplates[T Elem](a Templates, w, store, coefficients []T) {
	clear(w)
	for k, o := range a.Offsets {
		t, f := store[o:][:a.values()], coefficients[k]
		if a.Rows == 0 {
			for i, v := range t {
				w[i] += f * v
			}
			continue
		}
		a.each(func(from, to int, factor float64) { w[to] += f * T(factor) * t[from] })
	}
}

// CombineTemplatesGradStore computes the gradient of the store from that of the
// weights, dw: the adjoint of CombineTemplates.
func CombineTemplatesGradStore[T Elem](a Templates, store, coefficients, dw []T) {
	clear(store)
	for k, o := range a.Offsets {
		t, f := store[o:][:a.values()], coefficients[k]
		if a.Rows == 0 {
			for i, v := range dw {
				t[i] += f * v
			}
			continue
		}
		a.each(func(from, to int, factor float64) { t[from] += f * T(factor) * dw[to] })
	}
}

// CombineTemplatesGradCoefficients computes the gradient of the coefficients:
// the inner products of dw with the templates, summed in float64.
func CombineTemplatesGradCoefficients[T Elem](a Templates, coefficients, store, dw []T) {
	for k, o := range a.Offsets {
		t, sum := store[o:][:a.values()], 0.0
		if a.Rows == 0 {
			for i, v := range dw {
				sum += float64(v) * float64(t[i])
			}
		} else {
			a.each(func(from, to int, factor float64) { sum += float64(dw[to]) * factor * float64(t[from]) })
		}
		coefficients[k] = T(sum)
	}
}

// StoreTemplates are templates with the shape of their store.
type StoreTemplates struct {
	Templates
	Store Shape
}

// combineSource is the source of all operations in this file.
const combineSource = "Plummer et al. 2020, arXiv:2006.10598, section 3"

// products counts the FLOPs of the combination, and of each of its adjoints.
func (a Templates) products() int64 {
	n := 2 * int64(a.To.Size()) * int64(len(a.Offsets))
	if a.Rows > 0 {
		n *= 4
	}
	return n
}

// combine composes weights from templates. It and its two gradients are the
// partial derivatives of one form that is linear in the store, the coefficients
// and dw.
var combine = Define(Spec[Templates]{
	Name:   "combine",
	Doc:    "Weights of a layer as a linear combination of templates, which are slices of a store: store, coefficients [K] → weights.",
	Source: combineSource,
	Shape: func(in []Shape, a Templates) (Shape, error) {
		if len(in) != 2 || in[1].Size() != len(a.Offsets) {
			return nil, shapeError("operands %v, want store and %d coefficients", in, len(a.Offsets))
		}
		return a.To.Clone(), a.check(in[0].Size())
	},
	FLOPs: func(_ []Shape, _ Shape, a Templates) int64 { return a.products() },
	Bytes: combineBytes,
	Ref:   func(c Call, a Templates) { CombineTemplates(a, c.Out, c.In[0], c.In[1]) },
	Cases: combineCases(func(store, coefficients, _ Shape) []Shape { return []Shape{store, coefficients} }, func(a StoreTemplates) Templates { return a.Templates }),
})

// Combine composes the weights of a layer from a store of shared parameters: W
// = Σₖ coefficientₖ · templateₖ.
//
// Shape: store, of any shape; coefficients, one per template → a.To.
// Gradient: to both. That of the store is zero outside of the templates.
// Errors: ErrShape.
// Source: Plummer et al. 2020, arXiv:2006.10598, section 3.
func Combine(b *Builder, store, coefficients Value, a Templates) Value {
	return combine.add(b, a, store, coefficients)
}

// combineGradStore adds coefficient·dw to the values of each template.
var combineGradStore = Define(Spec[StoreTemplates]{
	Name:   "combine_grad_store",
	Doc:    "Gradient of combine with respect to its store: coefficients [K], dw → store.",
	Source: "the adjoint of combine",
	Shape: func(in []Shape, a StoreTemplates) (Shape, error) {
		if len(in) != 2 || in[0].Size() != len(a.Offsets) || !in[1].Equal(a.To) {
			return nil, shapeError("operands %v, want %d coefficients and %v", in, len(a.Offsets), a.To)
		}
		return a.Store.Clone(), a.check(a.Store.Size())
	},
	FLOPs: func(_ []Shape, _ Shape, a StoreTemplates) int64 { return a.products() },
	Ref:   func(c Call, a StoreTemplates) { CombineTemplatesGradStore(a.Templates, c.Out, c.In[0], c.In[1]) },
	Cases: combineCases(func(_, coefficients, w Shape) []Shape { return []Shape{coefficients, w} }, func(a StoreTemplates) StoreTemplates { return a }),
})

// combineGradCoefficients is the inner product of dw with each template.
var combineGradCoefficients = Define(Spec[Templates]{
	Name:   "combine_grad_coefficients",
	Doc:    "Gradient of combine with respect to its coefficients: store, dw → [K].",
	Source: "the adjoint of combine",
	Shape: func(in []Shape, a Templates) (Shape, error) {
		if len(in) != 2 || !in[1].Equal(a.To) {
			return nil, shapeError("operands %v, want a store and %v", in, a.To)
		}
		return Shape{len(a.Offsets)}, a.check(in[0].Size())
	},
	FLOPs: func(_ []Shape, _ Shape, a Templates) int64 { return a.products() },
	Bytes: combineBytes,
	Ref:   func(c Call, a Templates) { CombineTemplatesGradCoefficients(a, c.Out, c.In[0], c.In[1]) },
	Cases: combineCases(func(store, _, w Shape) []Shape { return []Shape{store, w} }, func(a StoreTemplates) Templates { return a.Templates }),
})

// combineBytes counts only the part of the store that templates read.
func combineBytes(in []Shape, out Shape, a Templates) int64 {
	return 4 * int64(len(a.Offsets)*a.values()+in[1].Size()+out.Size())
}

// Connects the gradients: each of the three is differentiated by the other two.
func init() {
	combine.SetGrad(func(b *Builder, in []Value, _, dw Value, a Templates) []Value {
		coefficients := Reshape(b, combineGradCoefficients.add(b, a, in[0], dw), in[1].Shape())
		return []Value{combineGradStore.add(b, StoreTemplates{a, in[0].Shape()}, in[1], dw), coefficients}
	})
	combineGradStore.SetGrad(func(b *Builder, in []Value, _, d Value, a StoreTemplates) []Value {
		coefficients := Reshape(b, combineGradCoefficients.add(b, a.Templates, d, in[1]), in[0].Shape())
		return []Value{coefficients, combine.add(b, a.Templates, d, in[0])}
	})
	combineGradCoefficients.SetGrad(func(b *Builder, in []Value, _, d Value, a Templates) []Value {
		return []Value{combineGradStore.add(b, StoreTemplates{a, in[0].Shape()}, d, in[1]), combine.add(b, a, in[0], d)}
	})
}

// combineCases returns the stores with which the combination and its gradients
// are tested.
func combineCases[A any](in func(store, coefficients, w Shape) []Shape, attrs func(a StoreTemplates) A) []Case[A] {
	var out []Case[A]
	for _, c := range []struct {
		name  string
		store Shape
		a     Templates
	}{
		{"two that overlap", Shape{1, 70}, Templates{To: Shape{3, 2, 1, 2, 4}, Offsets: []int{5, 22}}},
		{"the same one twice", Shape{1, 51}, Templates{To: Shape{5, 3, 1, 1, 3}, Offsets: []int{6, 6}}},
		{"interpolated", Shape{1, 40}, Templates{To: Shape{7, 3, 1, 1, 3}, Offsets: []int{3, 20}, Rows: 4, Columns: 5}},
	} {
		out = append(out, Case[A]{Name: c.name, In: in(c.store, Shape{len(c.a.Offsets)}, c.a.To), A: attrs(StoreTemplates{c.a, c.store})})
	}
	return out
}
