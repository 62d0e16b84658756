package op

import "math"

// Templates says how the weights of a layer come from a store that it shares with others: of
// len(Offsets) templates, which are slices of the store, each with a coefficient.
//
// A template has as many values as the weights, unless Rows and Columns say that it has fewer: these
// are points of a plane that is resized to the weights' plane [channels of the result, all else],
// bilinear between centres of cells, as images are.
type Templates struct {
	To            Shape // of the weights
	Offsets       []int // first value of each template in the store
	Rows, Columns int   // of a smaller template; 0 for one as large as the weights
}

// values is how many of the store a template has.
func (a Templates) values() int {
	if a.Rows == 0 {
		return a.To.Size()
	}
	return a.Rows * a.Columns
}

// plane is the weights' shape as that of an image.
func (a Templates) plane() (rows, columns int) { return a.To[0], a.To[1:].Size() }

// check refuses templates that are not in a store of that size.
func (a Templates) check(store int) error {
	if len(a.To) < 2 || len(a.Offsets) == 0 || a.Rows < 0 || (a.Rows == 0) != (a.Columns == 0) {
		return shapeError("weights %v of %d templates of %d×%d values", a.To, len(a.Offsets), a.Rows, a.Columns)
	}
	if rows, columns := a.plane(); a.Rows > rows || a.Columns > columns {
		return shapeError("templates of %d×%d values for weights %v, which are smaller", a.Rows, a.Columns, a.To)
	}
	for _, o := range a.Offsets {
		if o < 0 || o+a.values() > store {
			return shapeError("a template of %d values from %d on in a store of %d", a.values(), o, store)
		}
	}
	return nil
}

// interpolationPoints are the two centres of n that a centre of an axis of length to lies between, when both axes are as
// long, and the share of the second.
func interpolationPoints(i, n, to int) (a, b int, share float64) {
	at := max(0, (float64(i)+0.5)*float64(n)/float64(to)-0.5)
	a = min(int(at), n-1)
	b = min(a+1, n-1)
	return a, b, at - math.Floor(at)
}

// each visits every product of template and weight: value from of a template counts in weight to with a factor.
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

// Variance is that of weights of templates of independent values of variance 1, coefficients being of length 1.
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

// CombineTemplates writes the weights: the sum of the templates of a store, each times its coefficient.
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

// CombineTemplatesGradStore writes what changes of weights are to a store: the adjoint of CombineTemplates.
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

// CombineTemplatesGradCoefficients writes what changes of weights are to coefficients: their products with the
// templates, summed in float64.
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

// StoreTemplates are templates and the shape of their store.
type StoreTemplates struct {
	Templates
	Store Shape
}

const combineSource = "Plummer et al. 2020, arXiv:2006.10598, section 3"

// products is the work of a combination and of both its adjoints.
func (a Templates) products() int64 {
	n := 2 * int64(a.To.Size()) * int64(len(a.Offsets))
	if a.Rows > 0 {
		n *= 4
	}
	return n
}

var combine = Define(Spec[Templates]{
	Name:   "combine",
	Doc:    "Weights of a layer from templates, which are slices of a store, times coefficients: store, coefficients [K] → weights.",
	Source: combineSource,
	Shape: func(in []Shape, a Templates) (Shape, error) {
		if len(in) != 2 || in[1].Size() != len(a.Offsets) {
			return nil, shapeError("operands %v, want a store and %d coefficients", in, len(a.Offsets))
		}
		return a.To.Clone(), a.check(in[0].Size())
	},
	FLOPs: func(_ []Shape, _ Shape, a Templates) int64 { return a.products() },
	Bytes: combineBytes,
	Ref:   func(c Call, a Templates) { CombineTemplates(a, c.Out, c.In[0], c.In[1]) },
	Cases: combineCases(func(store, coefficients, _ Shape) []Shape { return []Shape{store, coefficients} }, func(a StoreTemplates) Templates { return a.Templates }),
})

// Combine builds the weights of a layer from a store: W = Σₖ coefficientₖ · templateₖ.
//
// Shape: store, of any shape; coefficients, one for each template → a.To.
// Gradient: to both; that of the store has zeros where no template lies.
// Errors: ErrShape.
// Source: Plummer et al. 2020, arXiv:2006.10598, section 3.
func Combine(b *Builder, store, coefficients Value, a Templates) Value {
	return combine.add(b, a, store, coefficients)
}

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

// combineBytes counts of the store what templates have of it.
func combineBytes(in []Shape, out Shape, a Templates) int64 {
	return 4 * int64(len(a.Offsets)*a.values()+in[1].Size()+out.Size())
}

// The three are partial derivatives of one form that is linear in the store, the coefficients and dw.
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

// combineCases gives the test stores to the combination and its gradients.
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
