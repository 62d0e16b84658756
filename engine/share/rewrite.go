package share

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// Names of parameters of combinations, behind the name of their filter or before that of their group's store.
const (
	coefficientsSuffix = ".share_coefficients"
	embeddingSuffix    = ".share_embedding"
	mapSuffix          = ".map"
)

// IsCoefficient tells whether a parameter is one of those that make coefficients, which weight decay leaves out: it would draw
// filters to 0 a second time.
func IsCoefficient(name string) bool {
	return strings.HasSuffix(name, coefficientsSuffix) || strings.HasSuffix(name, embeddingSuffix) ||
		strings.HasPrefix(name, "share.") && strings.HasSuffix(name, mapSuffix)
}

// Rewrite puts stores and coefficients in the place of the filters of the network that was planned.
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
			return b.Fail(n.Name, fmt.Errorf("%v, planned was %v: %w", n.Shape, l.Shape, graph.ErrShape))
		}
		for _, group := range p.Groups {
			if _, there := stores[group.Name]; group.Name == l.Store && !there {
				stores[group.Name] = b.Param(group.Name, graph.Shape{1, group.Size}, group.init)
				if p.o.Coefficients == Embedding {
					maps[group.Name] = b.Param(group.Name+mapSuffix, graph.Shape{p.maxTemplates(group), embeddingSize}, graph.Values(slices.Concat(p.orthonormalRows(group, b.Seed())...)))
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

// layerCoefficients are those of a layer.
func (p *Plan) layerCoefficients(b *graph.Builder, i int, m graph.Value) graph.Value {
	l := p.Layers[i]
	shape := graph.Shape{l.Templates}
	switch p.o.Coefficients {
	case Average:
		return b.Const("", shape, p.initialCoefficients(i))
	case Embedding:
		e := b.Param(l.Name+embeddingSuffix, graph.Shape{1, embeddingSize}, graph.Values(p.initialEmbedding(i, b.Seed())))
		if l.Templates < m.Dim(0) {
			m = op.Slice(b, m, 0, 0, l.Templates)
		}
		return op.Reshape(b, op.Sum(b, op.Mul(b, m, e), 1), shape)
	}
	return b.Param(l.Name+coefficientsSuffix, shape, graph.Values(p.initialCoefficients(i)))
}

// orthonormalRows are the rows of a group's map at first: random ones.
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

func dot(a, b []float32) (sum float64) {
	for i, v := range a {
		sum += float64(v) * float64(b[i])
	}
	return sum
}

// initialEmbedding is the vector of a layer at first, which the map brings to the coefficients that it starts with.
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

// initialCoefficients are the coefficients of a layer at first. Free ones of layers that follow each other in a group are orthogonal: each layer begins
// with one of its templates.
func (p *Plan) initialCoefficients(i int) []float32 {
	l := p.Layers[i]
	out := make([]float32, l.Templates)
	if p.o.Coefficients == Average {
		for k := range out {
			out[k] = 1 / float32(l.Templates)
		}
		return out
	}
	turn := 0
	for _, other := range p.Layers[:i] {
		if other.Store == l.Store {
			turn++
		}
	}
	out[turn%l.Templates] = float32(l.scale)
	return out
}

// Weights gives the plain filter of each layer that has none of its own, from parameters by their names. The parameters that it was built of are
// in none of the results.
//
// Errors: a parameter that is missing, or of another size.
func (p *Plan) Weights(get func(name string) ([]float32, bool)) (filters map[string][]float32, err error) {
	param := func(name string, n int) []float32 {
		v, ok := get(name)
		if (!ok || len(v) != n) && err == nil {
			err = fmt.Errorf("%q has %d values, of %d", name, len(v), n)
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

// IsShared tells whether a parameter is one of a combination.
func (p *Plan) IsShared(name string) bool {
	for _, g := range p.Groups {
		if name == g.Name || name == g.Name+mapSuffix {
			return true
		}
	}
	return IsCoefficient(name)
}
