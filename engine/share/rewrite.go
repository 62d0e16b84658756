package share

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// Names of the parameters of combinations. The first two are suffixes to the name of a filter, the
// third to that of a store.
const (
	coefficientsSuffix = ".share_coefficients"
	embeddingSuffix    = ".share_embedding"
	mapSuffix          = ".map"
)

// isCoefficient reports whether a parameter determines coefficients.
func isCoefficient(name string) bool {
	return strings.HasSuffix(name, coefficientsSuffix) || strings.HasSuffix(name, embeddingSuffix) ||
		strings.HasPrefix(name, "share.") && strings.HasSuffix(name, mapSuffix)
}

// Rewrite replaces the shared filters of the network that was planned by combinations of stores.
// The rest of the graph is unchanged.
//
// Errors: in the builder: graph.ErrShape for a filter with another shape than in the plan.
func (p *Plan) Rewrite(g *graph.Graph) (*graph.Graph, error) {
	of := map[string]int{}
	for i, l := range p.Layers {
		if l.Store != "" {
			of[l.Name] = i
		}
	}
	stores, maps := map[string]graph.Value{}, map[string]graph.Value{}
	return g.Rewrite(nil, func(b *graph.Builder, n *graph.Node, _ []graph.Value) graph.Value {
		i, ok := of[n.Name]
		if n.Kind != graph.KindParam || !ok {
			return graph.Value{}
		}
		l := p.Layers[i]
		if !n.Shape.Equal(l.Shape) {
			return b.Fail(n.Name, fmt.Errorf("shape %v, want %v as planned: %w", n.Shape, l.Shape, graph.ErrShape))
		}
		for _, group := range p.Groups {
			if _, exists := stores[group.Name]; group.Name == l.Store && !exists {
				stores[group.Name] = b.Param(group.Name, graph.Shape{1, group.Size}, group.init)
				if p.o.Coefficients == Embedding {
					maps[group.Name] = b.ParamOf(graph.Coefficient, group.Name+mapSuffix, graph.Shape{p.maxTemplates(group), embeddingSize}, graph.Values(slices.Concat(p.orthonormalRows(group, b.Seed())...)))
				}
			}
		}
		return op.Combine(b, stores[l.Store], p.layerCoefficients(b, i, maps[l.Store]), l.templates)
	})
}

// maxTemplates is the largest number of templates of a layer of a group.
func (p *Plan) maxTemplates(g Group) (most int) {
	for _, i := range g.layers {
		most = max(most, p.Layers[i].Templates)
	}
	return most
}

// layerCoefficients builds the coefficients of layer i. m is the map of its group with Embedding; a
// layer with fewer templates uses the first rows.
//
// Shape: [Templates].
func (p *Plan) layerCoefficients(b *graph.Builder, i int, m graph.Value) graph.Value {
	l := p.Layers[i]
	shape := graph.Shape{l.Templates}
	switch p.o.Coefficients {
	case Average:
		return b.Const("", shape, p.initialCoefficients(i))
	case Embedding:
		e := b.ParamOf(graph.Coefficient, l.Name+embeddingSuffix, graph.Shape{1, embeddingSize}, graph.Values(p.initialEmbedding(i, b.Seed())))
		if l.Templates < m.Dim(0) {
			m = op.Slice(b, m, 0, 0, l.Templates)
		}
		return op.Reshape(b, op.Sum(b, op.Mul(b, m, e), 1), shape)
	case Softmax:
		z := b.ParamOf(graph.Coefficient, l.Name+coefficientsSuffix, shape, graph.Zeros())
		return op.Scale(b, op.Softmax(b, z, 0, l.Templates), l.scale)
	}
	return b.ParamOf(graph.Coefficient, l.Name+coefficientsSuffix, shape, graph.Values(p.initialCoefficients(i)))
}

// orthonormalRows returns the initial rows of a group's map: random normal vectors, orthonormalised
// by Gram-Schmidt.
//
// Shape: [templates][embeddingSize].
func (p *Plan) orthonormalRows(g Group, seed uint64) (rows [][]float32) {
	for k := range p.maxTemplates(g) {
		row := make([]float32, embeddingSize)
		graph.Normal(1).Fill(row, seed, fmt.Sprintf("%s.%d", g.Name+mapSuffix, k))
		for _, other := range rows {
			d := dot(row, other)
			for j := range row {
				row[j] -= float32(d) * other[j]
			}
		}
		length := math.Sqrt(dot(row, row))
		for j := range row {
			row[j] = float32(float64(row[j]) / length)
		}
		rows = append(rows, row)
	}
	return rows
}

// dot is Σ a·b, summed in float64.
func dot(a, b []float32) (sum float64) {
	for i, v := range a {
		sum += float64(v) * float64(b[i])
	}
	return sum
}

// initialEmbedding is the initial vector e of a layer. As the rows of the map M are orthonormal, e
// = Mᵀ·a gives exactly the initial coefficients a = M·e.
func (p *Plan) initialEmbedding(i int, seed uint64) []float32 {
	e := make([]float32, embeddingSize)
	for _, g := range p.Groups {
		if g.Name == p.Layers[i].Store {
			rows := p.orthonormalRows(g, seed)
			for k, c := range p.initialCoefficients(i) {
				for j, v := range rows[k] {
					e[j] += c * v
				}
			}
		}
	}
	return e
}

// initialCoefficients returns the initial coefficients of a layer. With Free and Embedding exactly
// one coefficient is not 0, another one for successive layers of a group: each layer starts with
// one of its templates, and the coefficient vectors are orthogonal.
func (p *Plan) initialCoefficients(i int) []float32 {
	l := p.Layers[i]
	out := make([]float32, l.Templates)
	if p.o.Coefficients == Average {
		for k := range out {
			out[k] = 1 / float32(l.Templates)
		}
		return out
	}
	position := 0
	for _, other := range p.Layers[:i] {
		if other.Store == l.Store {
			position++
		}
	}
	out[position%l.Templates] = float32(l.scale)
	return out
}

// Weights computes the filters of all layers that share parameters, from the trained parameters.
// get returns a parameter by name. The result has the filters by name; the parameters they were
// computed from are not in it.
//
// Errors: a parameter that is missing or has another size.
func (p *Plan) Weights(get func(name string) ([]float32, bool)) (filters map[string][]float32, err error) {
	param := func(name string, n int) []float32 {
		v, ok := get(name)
		if (!ok || len(v) != n) && err == nil {
			err = fmt.Errorf("parameter %q: %d values, want %d", name, len(v), n)
		}
		if err != nil {
			return make([]float32, n)
		}
		return v
	}
	filters = map[string][]float32{}
	for _, g := range p.Groups {
		store := param(g.Name, g.Size)
		for _, i := range g.layers {
			l := p.Layers[i]
			coefficients := p.initialCoefficients(i)
			switch p.o.Coefficients {
			case Free:
				coefficients = param(l.Name+coefficientsSuffix, l.Templates)
			case Softmax:
				for k, a := range softmax(param(l.Name+coefficientsSuffix, l.Templates)) {
					coefficients[k] = float32(l.scale * a)
				}
			case Embedding:
				m, e := param(g.Name+mapSuffix, p.maxTemplates(g)*embeddingSize), param(l.Name+embeddingSuffix, embeddingSize)
				for k := range coefficients {
					coefficients[k] = float32(dot(e, m[k*embeddingSize:][:embeddingSize]))
				}
			}
			w := make([]float32, l.Shape.Size())
			op.CombineTemplates(l.templates, w, store, coefficients)
			filters[l.Name] = w
		}
	}
	return filters, err
}

// IsShared reports whether a parameter belongs to a combination: a store, a map, a vector or
// coefficients.
func (p *Plan) IsShared(name string) bool {
	for _, g := range p.Groups {
		if name == g.Name || name == g.Name+mapSuffix {
			return true
		}
	}
	return isCoefficient(name)
}
