package op

import (
	"math"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// SetAttentionSizes holds the sizes of attention within sets. Attention weights
// are a field
//
//	w [N·Queries  Heads·Keys  D' H' W']
//
// Channel h·Keys + i of row j is the weight of key i for query j in head h. The
// grid D' H' W' of cells may be coarser than that of the fields. With one cell
// per axis attention is global; with as many cells as points every point has
// its own weights. Point p of n belongs to cell ⌊p·n'/n⌋ of n'. The channels of
// a field are divided evenly among the heads, in order.
type SetAttentionSizes struct {
	Queries, Keys, Heads int    // rows per sample, and heads
	Cells                [3]int // grid of the result of set_dot; unused by set_mix
	Transposed           bool   // of set_mix: from queries to keys
}

// samples is the number of samples in x with that many rows each. It also
// checks that heads divide the channels.
func (a SetAttentionSizes) samples(x Shape, rows int) (int, error) {
	if len(x) != 5 || rows < 1 || a.Heads < 1 || x[0]%rows != 0 || x[1]%a.Heads != 0 {
		return 0, shapeError("x is %v, want [N·%d %d·C D H W]", x, rows, a.Heads)
	}
	return x[0] / rows, nil
}

// dot is the shape of the weights of queries q and keys k.
func (a SetAttentionSizes) dot(q, k Shape) (Shape, error) {
	n, err := a.samples(q, a.Queries)
	if err != nil {
		return nil, err
	}
	m, err := a.samples(k, a.Keys)
	if err == nil && (n != m || !q[1:].Equal(k[1:])) {
		err = shapeError("queries %v in sets of %d and keys %v in sets of %d do not match", q, a.Queries, k, a.Keys)
	}
	out := Shape{q[0], a.Heads * a.Keys, a.Cells[0], a.Cells[1], a.Cells[2]}
	for i, c := range a.Cells {
		if err == nil && (c < 1 || c > q[i+2]) {
			err = shapeError("cells %v do not fit field %v", a.Cells, q)
		}
	}
	return out, err
}

// mix is the shape of the result of weights w applied to v.
func (a SetAttentionSizes) mix(w, v Shape) (Shape, error) {
	from, to := a.Keys, a.Queries
	if a.Transposed {
		from, to = to, from
	}
	n, err := a.samples(v, from)
	if err != nil {
		return nil, err
	}
	if len(w) != 5 || w[0] != n*a.Queries || w[1] != a.Heads*a.Keys || w[2] > v[2] || w[3] > v[3] || w[4] > v[4] {
		return nil, shapeError("weights %v of %d queries, %d keys and %d heads do not fit %v", w, a.Queries, a.Keys, a.Heads, v)
	}
	return withRows(v, n*to), nil
}

// cellOf lists the cell of every point of a field.
func cellOf(x, w Shape) []int {
	cells := make([]int, 0, x[2:].Size())
	for d := range x[2] {
		for h := range x[3] {
			for l := range x[4] {
				cells = append(cells, (d*w[2]/x[2]*w[3]+h*w[3]/x[3])*w[4]+l*w[4]/x[4])
			}
		}
	}
	return cells
}

// each visits all products of weights with points of queries and keys, by
// offsets. For every element, the products come in row-major order of the other
// operands.
func (a SetAttentionSizes) each(w, x Shape, visit func(w, query, key int)) {
	cell, cells, points := cellOf(x, w), w[2:].Size(), x[2:].Size()
	per := x[1] / a.Heads
	for n := range w[0] / a.Queries {
		for j := range a.Queries {
			for h := range a.Heads {
				for i := range a.Keys {
					at := (((n*a.Queries+j)*a.Heads+h)*a.Keys + i) * cells
					for c := range per {
						q, k := ((n*a.Queries+j)*x[1]+h*per+c)*points, ((n*a.Keys+i)*x[1]+h*per+c)*points
						for p, e := range cell {
							visit(at+e, q+p, k+p)
						}
					}
				}
			}
		}
	}
}

// shardAttrs returns the attributes of the shard of a rank: the cells of its
// part.
func (a SetAttentionSizes) shardAttrs(l graph.Shard) SetAttentionSizes {
	a.Cells = [3]int(l.Shape[2:])
	return a
}

// flops counts two operations per product.
func (a SetAttentionSizes) flops(w, x Shape) int64 {
	return 2 * int64(w[0]) * int64(a.Keys) * int64(x[1:].Size())
}

// setDotSource is the source of attention within sets.
const setDotSource = "Finn 2021, arXiv:2106.13924; Ben Bouallègue et al. 2024, arXiv:2303.17195"

// setAttentionCases returns the sizes with which attention within sets is
// tested.
func setAttentionCases(operands func(q, k, w Shape) []Shape, transposed bool) []Case[SetAttentionSizes] {
	var out []Case[SetAttentionSizes]
	for _, c := range []struct {
		name string
		q    Shape
		a    SetAttentionSizes
	}{
		{"global", Shape{6, 4, 2, 5, 7}, SetAttentionSizes{Queries: 3, Keys: 3, Heads: 4, Cells: [3]int{1, 1, 1}}},
		{"global, two channels a head", Shape{4, 6, 1, 9, 40}, SetAttentionSizes{Queries: 2, Keys: 5, Heads: 3, Cells: [3]int{1, 1, 1}}},
		{"by point", Shape{6, 4, 2, 3, 7}, SetAttentionSizes{Queries: 3, Keys: 3, Heads: 2, Cells: [3]int{2, 3, 7}}},
		{"by row", Shape{4, 4, 1, 5, 18}, SetAttentionSizes{Queries: 4, Keys: 4, Heads: 2, Cells: [3]int{1, 5, 1}}},
		{"by column", Shape{4, 4, 1, 5, 18}, SetAttentionSizes{Queries: 2, Keys: 3, Heads: 2, Cells: [3]int{1, 1, 18}}},
		{"by column and level", Shape{2, 2, 3, 5, 4}, SetAttentionSizes{Queries: 1, Keys: 3, Heads: 2, Cells: [3]int{3, 1, 4}}},
		{"by cell", Shape{4, 4, 1, 5, 8}, SetAttentionSizes{Queries: 2, Keys: 2, Heads: 2, Cells: [3]int{1, 2, 3}}},
	} {
		k := withRows(c.q, c.q[0]/c.a.Queries*c.a.Keys)
		w, err := c.a.dot(c.q, k)
		if err != nil {
			panic("set_dot case " + c.name + ": " + err.Error())
		}
		c.a.Transposed = transposed
		if transposed {
			c.name += ", transposed"
		}
		out = append(out, Case[SetAttentionSizes]{Name: c.name, In: operands(c.q, k, w), A: c.a})
	}
	return out
}

// setDot computes the scores of attention. It and setMix are the partial
// derivatives of one trilinear form in weights, queries and keys:
//
//	L = Σ w[j,h,i,cell(p)] · q[j,c,p] · k[i,c,p],   c in head h
var setDot = Define(Spec[SetAttentionSizes]{
	Name: "set_dot",
	Doc: "Products of the queries q [N·Q C D H W] with the keys k [N·K C D H W] of the same sample, summed over the channels of each head and the " +
		"points of each cell → [N·Q Heads·K D' H' W'].",
	Source: setDotSource,
	Shape: func(in []Shape, a SetAttentionSizes) (Shape, error) {
		if len(in) != 2 {
			return nil, shapeError("%d operands, want queries and keys", len(in))
		}
		return a.dot(in[0], in[1])
	},
	Window: func(in []Shape, a SetAttentionSizes) Window {
		w := setWindow(in, 0, a.Queries)
		w.FullAxes, w.Additive = []int{1}, true
		for i, c := range a.Cells {
			if c == 1 {
				w.FullAxes = append(w.FullAxes, i+2)
			}
		}
		return w
	},
	ShardAttrs: SetAttentionSizes.shardAttrs,
	FLOPs:      func(in []Shape, out Shape, a SetAttentionSizes) int64 { return a.flops(out, in[0]) },
	Ref: func(c Call, a SetAttentionSizes) {
		clear(c.Out)
		a.each(c.OutShape, c.InShape[0], func(w, q, k int) { c.Out[w] += c.In[0][q] * c.In[1][k] })
	},
	Cases: setAttentionCases(func(q, k, _ Shape) []Shape { return []Shape{q, k} }, false),
})

// setMix computes weighted sums of rows: the partial derivative of the form of
// setDot with respect to queries or, transposed, keys.
var setMix = Define(Spec[SetAttentionSizes]{
	Name: "set_mix",
	Doc: "Sums of the rows v [N·K C D H W] of each sample with weights w [N·Q Heads·K D' H' W'], those of the head of a channel and the cell of a point " +
		"→ [N·Q C D H W]; transposed: sums of rows of queries with their weights for each key.",
	Source: setDotSource,
	Shape: func(in []Shape, a SetAttentionSizes) (Shape, error) {
		if len(in) != 2 {
			return nil, shapeError("%d operands, want weights and values", len(in))
		}
		return a.mix(in[0], in[1])
	},
	Window: func(in []Shape, a SetAttentionSizes) Window {
		w := setWindow(in, 1, a.Keys)
		if a.Transposed {
			w = setWindow(in, 1, a.Queries)
		}
		w.FullAxes = []int{1}
		return w
	},
	FLOPs: func(in []Shape, _ Shape, a SetAttentionSizes) int64 { return a.flops(in[0], in[1]) },
	Ref: func(c Call, a SetAttentionSizes) {
		clear(c.Out)
		a.each(c.InShape[0], c.InShape[1], func(w, q, k int) {
			if a.Transposed {
				q, k = k, q
			}
			c.Out[q] += c.In[0][w] * c.In[1][k]
		})
	},
	Cases: append(setAttentionCases(func(_, k, w Shape) []Shape { return []Shape{w, k} }, false),
		setAttentionCases(func(q, _, w Shape) []Shape { return []Shape{w, q} }, true)...),
})

// Connects the gradients: each is differentiated by both.
func init() {
	setDot.SetGrad(func(b *Builder, in []Value, _, dw Value, a SetAttentionSizes) []Value {
		back := a
		back.Transposed = true
		return []Value{setMix.add(b, a, dw, in[1]), setMix.add(b, back, dw, in[0])}
	})
	setMix.SetGrad(func(b *Builder, in []Value, _, dy Value, a SetAttentionSizes) []Value {
		dot, back := a, a
		dot.Cells, dot.Transposed = [3]int(in[0].Shape()[2:]), false
		back.Transposed = !a.Transposed
		q, k := dy, in[1]
		if a.Transposed {
			q, k = k, q
		}
		return []Value{setDot.add(b, dot, q, k), setMix.add(b, back, in[0], dy)}
	})
}

// SetDot computes, for each query of a sample and each of its keys, the inner
// product over the channels of a head and the points of a cell. SetAttentionSizes
// documents the layout.
//
// Shape: q [N·Queries C D H W], k [N·Keys C D H W] → [N·Queries Heads·Keys D'
// H' W'].
// Gradient: SetMix of dw with the keys to queries; transposed, with the queries
// to keys.
// Memory: Queries·Keys·Heads values per cell and sample.
// Errors: ErrShape if heads do not divide the channels, or if the numbers of
// samples differ.
// Source: Finn 2021, arXiv:2106.13924.
func SetDot(b *Builder, q, k Value, a SetAttentionSizes) Value {
	a.Transposed = false
	return setDot.add(b, a, q, k)
}

// SetMix computes weighted sums of the rows of each sample, with weights from
// SetDot and Softmax.
//
// Shape: w [N·Queries Heads·Keys D' H' W'], v [N·Keys C D H W] → [N·Queries C D
// H W].
// Gradient: SetDot to weights, transposed SetMix to v.
// Errors: ErrShape.
// Source: Finn 2021, arXiv:2106.13924.
func SetMix(b *Builder, w, v Value, a SetAttentionSizes) Value {
	a.Cells = [3]int{}
	return setMix.add(b, a, w, v)
}

// Attention is the geometry of self-attention among the rows of a set. The zero
// value of Cells means global attention: one weight per pair of rows and head
// for the whole field.
type Attention struct {
	Set, Heads int // rows per set, and heads
	// Cells is the grid of the weights along level, latitude, longitude. 0
	// means 1; PerPoint means as many cells as points.
	Cells [3]int
}

// PerPoint requests one cell per point of an axis.
const PerPoint = -1

// sizes returns the sizes for fields of the shape of k.
func (a Attention) sizes(k Value) SetAttentionSizes {
	w := SetAttentionSizes{Queries: a.Set, Keys: a.Set, Heads: a.Heads, Cells: a.Cells}
	for i, c := range w.Cells {
		switch {
		case c == 0:
			w.Cells[i] = 1
		case c == PerPoint:
			w.Cells[i] = k.Dim(i + 2)
		}
	}
	return w
}

// SetAttention computes the attention weights within each set:
//
//	w[h,i,j] = softmax over i of Σ k_i·q_j / √n
//
// The sum runs over the n channels of a head and points of a cell.
//
// Shape: k, q [N·Set C D H W] → [N·Set Heads·Set D' H' W']; see SetAttentionSizes.
// Gradient: by composition.
// Errors: ErrShape.
// Source: Finn 2021, arXiv:2106.13924; Ben Bouallègue et al. 2024,
// arXiv:2303.17195.
func SetAttention(b *Builder, k, q Value, a Attention) Value {
	w := a.sizes(k)
	g := SetDot(b, q, k, w)
	if !g.Valid() {
		return g
	}
	n := float64(k.Shape()[1:].Size()) / float64(a.Heads*g.Shape()[2:].Size())
	return Softmax(b, Scale(b, g, 1/math.Sqrt(n)), 1, a.Set)
}

// Attend adds to each row of a set the weighted deviations of all rows from the
// set mean, with weights from SetAttention:
//
//	o_j = v_j + Σ_i w[h,i,j] (v_i − mean of v)
//
// With several weights the sums are added in order.
//
// Shape: v [N·Set C D H W] → the same.
// Gradient: by composition.
// Errors: ErrShape.
// Source: Finn 2021, arXiv:2106.13924; Ben Bouallègue et al. 2024,
// arXiv:2303.17195. A permutation of the rows permutes the result, up to
// rounding.
func Attend(b *Builder, v Value, a Attention, weights ...Value) Value {
	d := Sub(b, v, SetRepeat(b, SetMean(b, v, a.Set), a.Set))
	for _, w := range weights {
		v = Add(b, v, SetMix(b, w, d, SetAttentionSizes{Queries: a.Set, Keys: a.Set, Heads: a.Heads}))
	}
	return v
}
