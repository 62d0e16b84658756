package channels

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// Network is what there is to remove from a network: its channels, and which of them must go
// together. A channel of a convolution's result goes with its bias, with factor, offset and running
// statistics of the norm behind it, and with a column of the filters of all that read it, wherever
// skips and joins have put it; where results are added, with the channel that is added to it.
// Nothing here knows a network: all follows from the operations of a graph (ties).
//
// It is found on a graph without gradients.
type Network struct {
	g       *graph.Graph
	ties    *ties
	filters []filter
	groups  []Group
	groupOf map[int]int // family of a set
}

// filter is a convolution whose filter is a parameter.
type filter struct {
	conv, param int
	axis        int         // of the parameter, along which its results' channels are
	sets        []int       // of its channels
	bias        *graph.Node // nil for none
	gamma, beta *graph.Node // nil for none
	normOffset  int         // of the first channel in both
}

// Group are the layers whose channels are removed together: one convolution, or several whose
// results are tied.
type Group struct {
	Filters []string // parameters, in the order of the graph
	Width   int      // channels
	// Pinned is how many of them cannot go, and Why for which reasons, each once.
	Pinned  int
	Reasons []string

	sets []int // ascending; those that are pinned as well
}

// Find finds the channels of a network.
func Find(g *graph.Graph) *Network {
	c := &Network{g: g, ties: newTies(g), groupOf: map[int]int{}}
	for _, n := range g.Nodes {
		if n.Kind != graph.KindOp {
			continue
		}
		layer := n.Op.Filter
		if layer == nil {
			continue
		}
		w, axis := n.In[layer.Operand], layer.Axis
		p, at, ok := paramAxis(g, w, axis)
		if !ok {
			c.ties.pinAxis(w, axis, fmt.Sprintf("the filter of %s at %s is no parameter", n.Op.Name, n.At))
			continue
		}
		c.filters = append(c.filters, filter{conv: n.ID, param: p, axis: at})
	}
	for i := range c.filters {
		f := &c.filters[i]
		for k := range g.Nodes[f.param].Shape[f.axis] {
			f.sets = append(f.sets, c.ties.set(f.param, f.axis, k))
		}
	}
	c.findBiases()
	c.findNorms()
	c.groupFilters()
	return c
}

// paramAxis is the parameter that an operand is under another shape, and its axis that is axis of
// the operand.
func paramAxis(g *graph.Graph, id, axis int) (param, at int, ok bool) {
	s := g.Nodes[id].Shape
	p := g.Nodes[g.AliasRoot(id)]
	if p.Kind != graph.KindParam {
		return 0, 0, false
	}
	if p.Shape.Equal(s) {
		return p.ID, axis, true
	}
	// Reshapes that only put in or leave out axes of size 1 keep the order of the others.
	nth := 0
	for _, d := range s[:axis] {
		if d > 1 {
			nth++
		}
	}
	for i, d := range p.Shape {
		switch {
		case d == 1:
		case nth == 0:
			return p.ID, i, s[axis] == d
		default:
			nth--
		}
	}
	return 0, 0, false // one channel alone
}

// findBiases finds those that are added to results of convolutions.
func (c *Network) findBiases() {
	for _, n := range c.g.Nodes {
		if !n.Fuses(graph.FuseBias) {
			continue
		}
		b := c.g.Nodes[c.g.AliasRoot(n.In[1])]
		for i := range c.filters {
			if f := &c.filters[i]; f.conv == n.In[0] && b.Kind == graph.KindParam && b.Shape.Size() == len(f.sets) {
				f.bias = b
			}
		}
	}
}

// findNorms finds the factors of the norms behind convolutions, through biases and joins.
func (c *Network) findNorms() {
	by := map[int][]*filter{}
	for i := range c.filters {
		by[c.filters[i].conv] = append(by[c.filters[i].conv], &c.filters[i])
	}
	for _, n := range c.g.Nodes {
		if !n.Fuses(graph.FuseNorm) || c.g.Nodes[n.In[2]].Kind != graph.KindParam {
			continue
		}
		var walk func(id, at int)
		walk = func(id, at int) {
			nd := c.g.Nodes[id]
			for _, f := range by[id] {
				if f.gamma == nil {
					f.gamma, f.beta, f.normOffset = c.g.Nodes[n.In[2]], c.g.Nodes[n.In[3]], at
				}
			}
			switch {
			case nd.Fuses(graph.FuseBias):
				walk(nd.In[0], at)
			case op.IsChannelConcat(nd):
				for _, in := range nd.In {
					walk(in, at)
					at += c.g.Nodes[in].Shape[1]
				}
			}
		}
		walk(n.In[0], 0)
	}
}

// groupFilters makes families of filters with a channel in common.
func (c *Network) groupFilters() {
	family := make([]int, len(c.filters))
	first := map[int]int{} // filter of a set
	for i, f := range c.filters {
		family[i] = i
		for _, s := range f.sets {
			if k, ok := first[s]; ok && family[k] != family[i] {
				from, to := max(family[k], family[i]), min(family[k], family[i])
				for j := range family[:i+1] {
					if family[j] == from {
						family[j] = to
					}
				}
			} else if !ok {
				first[s] = i
			}
		}
	}
	for lead := range c.filters {
		var f Group
		for i := range c.filters {
			if family[i] != lead {
				continue
			}
			if name := c.g.Nodes[c.filters[i].param].Name; !slices.Contains(f.Filters, name) {
				f.Filters = append(f.Filters, name)
			}
			f.sets = append(f.sets, c.filters[i].sets...)
		}
		if f.sets == nil {
			continue
		}
		slices.Sort(f.sets)
		f.sets = slices.Compact(f.sets)
		f.Width = len(f.sets)
		for _, s := range f.sets {
			c.groupOf[s] = len(c.groups)
			if why := c.ties.pinned(s); why != "" {
				f.Pinned++
				if !slices.Contains(f.Reasons, why) {
					f.Reasons = append(f.Reasons, why)
				}
			}
		}
		c.groups = append(c.groups, f)
	}
}

// Groups lists them in the order of the graph.
func (c *Network) Groups() []Group { return c.groups }

// Name is the family's first layer, and how many more there are.
func (f Group) Name() string {
	name := layerName(f.Filters[0])
	if n := len(f.Filters) - 1; n > 0 {
		name += fmt.Sprintf(" (and %d more)", n)
	}
	return name
}

// layerName is the name of a layer by that of its filter.
func layerName(filter string) string { return strings.TrimSuffix(filter, ".weight") }

// Kept are the channels of one convolution that are left, by their numbers in the network that
// nothing was removed from.
type Kept struct {
	Filter   string `json:"filter"` // its parameter
	Width    int    `json:"width"`  // channels that it had
	Channels []int  `json:"channels"`
}

// keptChannels lists what is left of all filters of which something is removed; gone are sets.
func (c *Network) keptChannels(gone map[int]bool) []Kept {
	var out []Kept
	for i, f := range c.filters {
		k := Kept{Filter: c.g.Nodes[f.param].Name, Width: len(f.sets)}
		if slices.ContainsFunc(c.filters[:i], func(g filter) bool { return g.param == f.param && g.axis == f.axis }) {
			continue // shared
		}
		for i, s := range f.sets {
			if !gone[s] {
				k.Channels = append(k.Channels, i)
			}
		}
		if len(k.Channels) < k.Width {
			out = append(out, k)
		}
	}
	return out
}

// removedSets are the sets that lists of what is left leave out.
//
// Errors: lists that are of another network, contradict each other, or leave out what is pinned.
func (c *Network) removedSets(kept []Kept) (map[int]bool, error) {
	gone, stays := map[int]bool{}, map[int]string{}
	seen := map[string]bool{}
	for _, k := range kept {
		i := slices.IndexFunc(c.filters, func(f filter) bool { return c.g.Nodes[f.param].Name == k.Filter })
		if i < 0 || len(c.filters[i].sets) != k.Width {
			return nil, fmt.Errorf("the network has no convolution %s of %d channels", k.Filter, k.Width)
		}
		if n := len(k.Channels); n == 0 || k.Channels[0] < 0 || k.Channels[n-1] >= k.Width || seen[k.Filter] ||
			!slices.IsSorted(k.Channels) || len(slices.Compact(slices.Clone(k.Channels))) != n {
			return nil, fmt.Errorf("%s keeps channels %v of %d", k.Filter, k.Channels, k.Width)
		}
		seen[k.Filter] = true
		next := 0
		for ch, s := range c.filters[i].sets {
			if next < len(k.Channels) && k.Channels[next] == ch {
				next++
				stays[s] = fmt.Sprintf("channel %d of %s", ch, k.Filter)
				continue
			}
			if why := c.ties.pinned(s); why != "" {
				return nil, fmt.Errorf("channel %d of %s cannot go: %s", ch, k.Filter, why)
			}
			gone[s] = true
		}
	}
	for s, what := range stays {
		if gone[s] {
			return nil, fmt.Errorf("%s stays, and what it is tied to goes", what)
		}
	}
	return gone, nil
}

// Compose gives the channels left in terms of the first network, where first are left of that and
// then were removed from what was left.
func Compose(first, then []Kept) []Kept {
	out := slices.Clone(first)
	for _, k := range then {
		i := slices.IndexFunc(out, func(f Kept) bool { return f.Filter == k.Filter })
		if i < 0 {
			out = append(out, k)
			continue
		}
		left := make([]int, len(k.Channels))
		for j, ch := range k.Channels {
			left[j] = out[i].Channels[ch]
		}
		out[i].Channels = left
	}
	return out
}
