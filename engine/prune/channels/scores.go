package channels

import (
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// Magnitudes gives every channel of a family a score between 0 and 1: |gamma| of the norm
// behind its convolution, or the L2 norm of its filter where there is none, over the largest of the
// layer. Where layers are tied it is the mean of theirs.
//
// Source: Liu et al. 2017, arXiv:1708.06519 (|gamma|); Li et al. 2017, arXiv:1608.08710 (filters).
func (c *Network) Magnitudes(values func(name string) []float32) [][]float64 {
	sum, n := map[int]float64{}, map[int]float64{}
	for _, f := range c.filters {
		of := make([]float64, len(f.sets))
		if f.gamma != nil {
			for i, g := range values(f.gamma.Name)[f.normOffset : f.normOffset+len(of)] {
				of[i] = math.Abs(float64(g))
			}
		} else {
			p := c.g.Nodes[f.param]
			inner := p.Shape[f.axis+1:].Size()
			for i, w := range values(p.Name) {
				of[i/inner%len(of)] += float64(w) * float64(w)
			}
			for i := range of {
				of[i] = math.Sqrt(of[i])
			}
		}
		top := slices.Max(of)
		for i, s := range f.sets {
			if top > 0 {
				sum[s] += of[i] / top
			}
			n[s]++
		}
	}
	return c.byGroup(func(s int) float64 { return sum[s] / n[s] })
}

// Taylor gives every channel of a family the derivative of the loss by a factor of all that comes out of
// it, at 1: to first order what the loss would fall by without it,
//
//	Σ ∂L/∂w·w     over factor and offset of the norm behind its convolution, or its filter and bias where
//	              there is none; of tied layers the sum of all
//
// That of one batch is a draw of it. A channel's score is the mean of its square over batches; scores of
// all layers can be compared.
//
// Source: Molchanov et al. 2019, arXiv:1906.10771, equation 8 with a gate for each channel.
func (c *Network) Taylor(values, gradients func(name string) []float32) [][]float64 {
	type part struct{ param, set int }
	sum, seen := map[int]float64{}, map[part]bool{}
	// add reads a parameter of width channels from at on, which lie inner values apart.
	add := func(p *graph.Node, inner, width, at int, sets []int) {
		if seen[part{p.ID, sets[0]}] {
			return // several convolutions share it, and its gradient is that of all
		}
		seen[part{p.ID, sets[0]}] = true
		w, g := values(p.Name), gradients(p.Name)
		for i := range w {
			if k := i/inner%width - at; k >= 0 && k < len(sets) {
				sum[sets[k]] += float64(w[i]) * float64(g[i])
			}
		}
	}
	for _, f := range c.filters {
		if f.gamma != nil {
			for _, p := range []*graph.Node{f.gamma, f.beta} {
				add(p, 1, p.Shape.Size(), f.normOffset, f.sets)
			}
			continue
		}
		p := c.g.Nodes[f.param]
		add(p, p.Shape[f.axis+1:].Size(), p.Shape[f.axis], 0, f.sets)
		if f.bias != nil {
			add(f.bias, 1, len(f.sets), 0, f.sets)
		}
	}
	return c.byGroup(func(s int) float64 { return sum[s] })
}

// EqualScores are the same scores for all channels.
func (c *Network) EqualScores() [][]float64 { return c.byGroup(func(int) float64 { return 0 }) }

// byGroup lists what sets have by their families.
func (c *Network) byGroup(value func(set int) float64) [][]float64 {
	out := make([][]float64, len(c.groups))
	for i, f := range c.groups {
		for _, s := range f.sets {
			out[i] = append(out[i], value(s))
		}
	}
	return out
}
