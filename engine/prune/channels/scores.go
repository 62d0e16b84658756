package channels

import (
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/rng"
)

// Magnitudes scores channels by the size of their weights, relative to the largest of the layer:
//
//	|γ| / max |γ|     γ being the factor of the norm that follows the convolution, or
//	‖w‖ / max ‖w‖     the L2 norm of the channel's filter, without a norm
//
// A channel of several coupled layers has the mean of their scores. The division makes layers
// comparable whose weights differ in size by their initialisation.
//
// Shape: [group][channel]. Unit: 1, between 0 and 1; larger is more important.
// Source: Liu et al. 2017, arXiv:1708.06519 (|γ|); Li et al. 2017, arXiv:1608.08710 (filters).
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

// Taylor scores channels by the first-order change of the loss without them. This is the derivative
// of the loss with respect to a factor (gate) on the channel's output, at 1:
//
//	Σ ∂L/∂w·w     over factor and offset of the norm that follows the convolution or,
//	              without a norm, over filter and bias; summed over coupled layers
//
// The result is the score of one batch. The score of a channel is the mean of its square over
// batches, which the caller computes. Scores of different layers are comparable.
//
// Shape: [group][channel]. Unit: that of the loss.
// Source: Molchanov et al. 2019, arXiv:1906.10771, equation 8 with a gate for each channel.
func (c *Network) Taylor(values, gradients func(name string) []float32) [][]float64 {
	type part struct{ param, set int }
	sum, seen := map[int]float64{}, map[part]bool{}
	// add sums ∂L/∂w·w over a parameter. Its channel axis has width entries of inner values each;
	// the first of sets is entry at.
	add := func(p *graph.Node, inner, width, at int, sets []int) {
		if seen[part{p.ID, sets[0]}] {
			return // several convolutions share it: its gradient is their sum already
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

// EqualScores gives all channels the same score. Channels are then removed by index.
func (c *Network) EqualScores() [][]float64 { return c.byGroup(func(int) float64 { return 0 }) }

// RandomScores gives channels random scores between 0 and 1, those of a seed and a step.
func (c *Network) RandomScores(seed uint64, step int) [][]float64 {
	out := c.EqualScores()
	for i, f := range c.Groups() {
		key := rng.Key(seed, rng.Hash("channels"), rng.Hash(f.Filters[0]), uint64(step))
		for k := range out[i] {
			out[i][k] = rng.Uniform(key, uint64(k))
		}
	}
	return out
}

// byGroup arranges values of sets by family and channel.
func (c *Network) byGroup(value func(set int) float64) [][]float64 {
	out := make([][]float64, len(c.groups))
	for i, f := range c.groups {
		for _, s := range f.sets {
			out[i] = append(out[i], value(s))
		}
	}
	return out
}
