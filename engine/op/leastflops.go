package op

import "github.com/ensemble-weather/ensemble/engine/graph"

// minimalForm is a form of Winograd's minimal filtering, F(outputs, taps): results along an axis of a filter of some taps. Larger filters
// are sums of parts of these taps.
type minimalForm struct{ outputs, taps int }

// sixPoints is the form that kernels have for all filters, also along levels.
var sixPoints = minimalForm{4, 3}

// eightPoints are the forms that kernels have along rows and columns of single levels.
var eightPoints = []minimalForm{{4, 5}, {5, 4}}

// MinimalProducts is the number of products by which F(m, r) computes m results of a filter of r taps along each of d axes: (m+r−1)^d.
//
// Source: Winograd 1980, Arithmetic Complexity of Computations; Lavin and Gray 2016, arXiv:1509.09308, section 4.
func MinimalProducts(m, r, d int) int {
	products := 1
	for range d {
		products *= m + r - 1
	}
	return products
}

// ConvWork is the work of a pass of a convolution in the two forms in which kernels compute it.
type ConvWork struct {
	Direct float64 // floating point operations of the direct form, without taps on padding
	// Products are those of the products of Winograd's form, two each; Direct if IsMinimal is false.
	Products float64
	// TileProducts are those of the form that kernels have: minimal filtering along rows and columns, whose tiles are rounded up, and direct
	// along levels. Rounding is the ratio of the points of these tiles to those of the result.
	TileProducts, Rounding float64

	Tiles   float64 // values of the transformed tiles of the input, not rounded up
	Results float64 // values of the result
	Filter  float64 // values of the filter
	In, Out int     // channels
	// IsMinimal reports whether there is Winograd's form: stride and dilation 1, and 3 rows and columns of the filter or more.
	IsMinimal bool
}

// ConvWorkOf returns the work of an operation that is a pass of a convolution; ok is false for others. bf16 states that its products are
// of bfloat16 values, for which kernels have tiles of six points only.
func ConvWorkOf(n *graph.Op, in []Shape, out Shape, attrs any, bf16 bool) (work ConvWork, ok bool) {
	a, s, ok := convSizes(n, in, out, attrs)
	if !ok {
		return work, false
	}
	// Op.FLOPs counts levels without padding, and all rows and columns.
	unit, least, minimal := float64(n.FLOPs(in, out, attrs)), 1.0, 1.0
	values, tiled, rounding, plane := float64(s.y[0]), 1.0, 1.0, s.planeForm(bf16)
	for i := range 3 {
		valid := 0
		for _, j := range a.taps(i, s.x[i+2], s.w[i+2], s.y[i+2]) {
			if j >= 0 {
				valid++
			}
		}
		counted := s.w[i+2] * s.y[i+2]
		if i == 0 {
			counted = valid
		}
		least *= float64(valid) / float64(counted)
		form := plane
		if i == 0 {
			form = sixPoints
		}
		minimal *= min(float64(valid), form.axisProducts(s.y[i+2], s.w[i+2])) / float64(counted)
		values *= float64(s.y[i+2])
		if i > 0 {
			up := float64((s.y[i+2]+form.outputs-1)/form.outputs*form.outputs) / float64(s.y[i+2])
			rounding *= up
			tiled *= up * form.axisProducts(s.y[i+2], s.w[i+2]) / float64(counted)
		}
	}
	tile := float64(MinimalProducts(plane.outputs, plane.taps, 2)) / float64(plane.outputs*plane.outputs)
	work = ConvWork{Direct: unit * least, Products: unit * least, TileProducts: unit * least, Rounding: rounding,
		Tiles: values * float64(s.w[1]) * tile, Results: values * float64(s.w[0]),
		Filter: float64(s.w.Size()), In: s.w[1], Out: s.w[0]}
	if a.isUnit() && s.w[3] >= sixPoints.taps && s.w[4] >= sixPoints.taps {
		work.Products, work.TileProducts, work.IsMinimal = unit*minimal, unit*tiled, true
	}
	return work, true
}

// LeastFLOPs is a lower bound of the floating point operations of an operation, over the forms in which kernels compute it. For most it
// is Op.FLOPs. A convolution has a direct form and, as ConvWork states, Winograd's, with one operation for each value of a transformed
// tile and of the result.
//
// Both are bounds: tiles at the edges are not rounded up, and transforms take several operations a value. Products of bfloat16 are more
// than these along more than two levels, where kernels have F(2, 3).
func LeastFLOPs(n *graph.Op, in []Shape, out Shape, attrs any, bf16 bool) int64 {
	w, ok := ConvWorkOf(n, in, out, attrs, bf16)
	switch {
	case !ok:
		return n.FLOPs(in, out, attrs)
	case w.IsMinimal:
		return int64(min(w.Direct, w.Products+w.Tiles+w.Results))
	}
	return int64(w.Direct)
}

// axisProducts is the least number of products along an axis of n results of k taps.
func (f minimalForm) axisProducts(n, k int) float64 {
	if k < sixPoints.taps {
		return float64(n * k)
	}
	parts := (k + f.taps - 1) / f.taps
	return float64(n*parts*MinimalProducts(f.outputs, f.taps, 1)) / float64(f.outputs)
}

// planeForm is the form of the fewest products along rows and columns that kernels have.
func (s convShapes) planeForm(bf16 bool) minimalForm {
	best := sixPoints
	if bf16 || s.w[3] != s.w[4] || s.w[2] > 1 && s.y[2] > 1 {
		return best
	}
	for _, f := range eightPoints {
		if s.w[3] > sixPoints.taps && f.axisProducts(1, s.w[3]) < best.axisProducts(1, s.w[3]) {
			best = f
		}
	}
	return best
}

// isUnit reports whether stride and dilation are 1.
func (a Conv) isUnit() bool {
	for i := range 3 {
		if a.Stride[i] != 1 || a.Dilation[i] != 1 {
			return false
		}
	}
	return true
}

// convShapes are the shapes of the field, the filter and the result of the convolution of which an operation is a pass. The first two
// axes of the field are not used, since it may be given in parts.
type convShapes struct{ x, w, y Shape }

// convSizes returns the convolution of which an operation is a pass; ok is false for other operations.
func convSizes(n *graph.Op, in []Shape, out Shape, attrs any) (a Conv, s convShapes, ok bool) {
	if n.Conv == nil || len(out) != 5 {
		return a, s, false
	}
	switch attrs := attrs.(type) {
	case Conv:
		a = attrs
	case FusedConv:
		a = attrs.Conv
	case ConvGrad:
		a = attrs.Conv
	case FusedConvGrad:
		a = attrs.Conv
	default:
		return a, s, false
	}
	sources := n.Conv.Sources(len(in))
	switch n.Conv.Pass {
	case graph.ConvForward:
		return a, convShapes{in[sources[0]], in[len(sources)], out}, true
	case graph.ConvData:
		return a, convShapes{out, in[0], in[1]}, true
	case graph.ConvFilter:
		return a, convShapes{in[sources[0]], out, in[len(sources)]}, true
	}
	return a, s, false
}
