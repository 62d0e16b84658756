package channels

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// Network is the analysis of a graph: its channels, and which of them can only be removed together.
//
// Removing a channel of a convolution also removes its bias; factor, offset and running statistics
// of the norm that follows; and one input channel of the filters of all convolutions that read it,
// through skips and concatenations. If results are added, the corresponding channel of the other
// operand is removed too. All this follows from the rules of the operations (ties), not from a list
// of known networks.
//
// The graph must not have gradients.
type Network struct {
	g       *graph.Graph
	ties    *ties
	filters []filter
	groups  []Group
	groupOf map[int]int // index of the group by set
}

// filter is a convolution whose filter is a parameter.
type filter struct {
	conv, param int         // nodes
	axis        int         // axis of the parameter with the output channels
	sets        []int       // set of each output channel
	bias        *graph.Node // nil for none
	gamma, beta *graph.Node // factor and offset of the norm; nil for none
	normOffset  int         // index of the first channel in gamma and beta
}

// Group is a set of channels that are removed together: those of one convolution, or of several
// whose results are coupled.
type Group struct {
	Filters []string // names of the parameters, in the order of the graph
	Width   int      // number of channels
	// Pinned is the number of channels that cannot be removed, Reasons the distinct reasons.
	Pinned  int
	Reasons []string

	sets []int // ascending, including pinned ones
}

// Find analyses the channels of a network.
//
// A convolution whose filter is not a parameter keeps its channels: a computed filter cannot be
// cut. The convolutions are listed in the order of the graph, which later decides ties between
// scores.
//
// Memory, Cost: proportional to the sum of the sizes of all axes of all values, not to the number
// of elements.
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
			c.ties.pinAxis(w, axis, fmt.Sprintf("the filter of %s at %s is not a parameter", n.Op.Name, n.At))
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

// paramAxis finds the parameter behind an operand that is the parameter itself or a reshaped one,
// and the axis of the parameter that corresponds to axis of the operand. ok is false if there is no
// such axis.
func paramAxis(g *graph.Graph, id, axis int) (param, at int, ok bool) {
	s := g.Nodes[id].Shape
	p := g.Nodes[g.AliasRoot(id)]
	if p.Kind != graph.KindParam {
		return 0, 0, false
	}
	if p.Shape.Equal(s) {
		return p.ID, axis, true
	}
	// A reshape that only adds or removes axes of size 1 keeps the order of the others.
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
	return 0, 0, false // the axis has size 1
}

// findBiases finds the biases that are added to the results of convolutions.
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

// findNorms finds the norm that follows each convolution, possibly after a bias and a concatenation.
func (c *Network) findNorms() {
	by := map[int][]*filter{}
	for i := range c.filters {
		by[c.filters[i].conv] = append(by[c.filters[i].conv], &c.filters[i])
	}
	for _, n := range c.g.Nodes {
		if !n.Fuses(graph.FuseNorm) || c.g.Nodes[n.In[2]].Kind != graph.KindParam {
			continue
		}
		// walk goes from the input of the norm back to convolutions, at being the offset of their
		// channels in gamma.
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

// groupFilters groups filters that have a channel in common into groups.
func (c *Network) groupFilters() {
	// A small union-find: family[i] is the lowest index of the filters joined with filter i.
	family := make([]int, len(c.filters))
	first := map[int]int{} // first filter with a set
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
	// The filter with the lowest index stands for its group.
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

// Groups lists the groups in the order of the graph.
func (c *Network) Groups() []Group { return c.groups }

// Name is the name of the first layer, followed by the number of further layers if there are any.
func (f Group) Name() string {
	name := layerName(f.Filters[0])
	if n := len(f.Filters) - 1; n > 0 {
		name += fmt.Sprintf(" (and %d more)", n)
	}
	return name
}

// layerName is the name of a filter without the suffix ".weight".
func layerName(filter string) string { return strings.TrimSuffix(filter, ".weight") }

// Kept lists the channels of one convolution that remain. Indices refer to the original network.
type Kept struct {
	Filter   string `json:"filter"`   // name of the parameter
	Width    int    `json:"width"`    // original number of channels
	Channels []int  `json:"channels"` // ascending
}

// keptChannels lists the remaining channels of all filters that lose some.
func (c *Network) keptChannels(removed map[int]bool) []Kept {
	var out []Kept
	for i, f := range c.filters {
		k := Kept{Filter: c.g.Nodes[f.param].Name, Width: len(f.sets)}
		if slices.ContainsFunc(c.filters[:i], func(g filter) bool { return g.param == f.param && g.axis == f.axis }) {
			continue // several convolutions share this filter
		}
		for i, s := range f.sets {
			if !removed[s] {
				k.Channels = append(k.Channels, i)
			}
		}
		if len(k.Channels) < k.Width {
			out = append(out, k)
		}
	}
	return out
}

// removedSets is the inverse of kept: the sets that the lists leave out.
//
// Lists come from files, so all are validated: a set must either be removed by all filters that
// contain it, or by none.
//
// Errors: lists for another network, lists that contradict each other, and lists without a pinned
// channel.
func (c *Network) removedSets(kept []Kept) (map[int]bool, error) {
	removed, remaining := map[int]bool{}, map[int]string{}
	seen := map[string]bool{}
	for _, k := range kept {
		i := slices.IndexFunc(c.filters, func(f filter) bool { return c.g.Nodes[f.param].Name == k.Filter })
		if i < 0 || len(c.filters[i].sets) != k.Width {
			return nil, fmt.Errorf("no convolution %s with %d channels in the network", k.Filter, k.Width)
		}
		if n := len(k.Channels); n == 0 || k.Channels[0] < 0 || k.Channels[n-1] >= k.Width || seen[k.Filter] ||
			!slices.IsSorted(k.Channels) || len(slices.Compact(slices.Clone(k.Channels))) != n {
			return nil, fmt.Errorf("%s: invalid list of kept channels %v, want ascending indices below %d, once per filter", k.Filter, k.Channels, k.Width)
		}
		seen[k.Filter] = true
		next := 0
		for ch, s := range c.filters[i].sets {
			if next < len(k.Channels) && k.Channels[next] == ch {
				next++
				remaining[s] = fmt.Sprintf("channel %d of %s", ch, k.Filter)
				continue
			}
			if why := c.ties.pinned(s); why != "" {
				return nil, fmt.Errorf("channel %d of %s cannot be removed: %s", ch, k.Filter, why)
			}
			removed[s] = true
		}
	}
	for s, what := range remaining {
		if removed[s] {
			return nil, fmt.Errorf("%s is kept, but a channel coupled to it is removed", what)
		}
	}
	return removed, nil
}

// Compose combines two successive removals: first lists channels of the original network, then
// lists channels of the network after the first removal. The result refers to the original network.
//
//	first: a keeps 0, 2, 5 of 6      then: a keeps 0, 2 of 3      result: a keeps 0, 5 of 6
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
