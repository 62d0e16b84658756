package prune

import (
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
)

// Layer is the filter of a convolution among the parameters of a store.
type Layer struct {
	Name   string // of the parameter, without the end ".weight"
	Param  string
	Offset int // of its first element in the flat parameters
	// Out and In are channels, Kernel the sides of the filter.
	Out, In int
	Kernel  [3]int
	// Transposed says that the filter lies as [In Out …], as that of a transposed convolution
	// does, and not as [Out In …].
	Transposed bool
	// ReadsInput says that the layer reads the network's input, with no other layer before it.
	ReadsInput bool
}

// Taps is the number of places of the filter.
func (l Layer) Taps() int { return l.Kernel[0] * l.Kernel[1] * l.Kernel[2] }

// Size is the number of weights.
func (l Layer) Size() int { return l.Out * l.In * l.Taps() }

// index is the element, counted from the first of the layer, of two channels and a tap.
func (l Layer) index(out, in, tap int) int {
	if l.Transposed {
		out, in = in, out
		return (out*l.Out+in)*l.Taps() + tap
	}
	return (out*l.In+in)*l.Taps() + tap
}

// inputChannel is the input channel that element i of the layer reads.
func (l Layer) inputChannel(i int) int {
	if l.Transposed {
		return i / l.Taps() / l.Out
	}
	return i / l.Taps() % l.In
}

// weightSuffix ends the names of filters.
const weightSuffix = ".weight"

// Layers lists the filters of the convolutions of a network, in the order of their use. g is
// the network as it was built, before any pass; entries are those of the store that was laid
// out by it.
func Layers(g *graph.Graph, entries []engine.Entry) []Layer {
	var layers []Layer
	behind := make([]bool, len(g.Nodes)) // a convolution
	for _, n := range g.Nodes {
		if n.Kind != graph.KindOp {
			continue
		}
		for _, id := range n.In {
			behind[n.ID] = behind[n.ID] || behind[id]
		}
		of := n.Op.Filter
		if of == nil {
			continue
		}
		filter, x := n.In[of.Operand], n.In[of.Source]
		p := g.Nodes[g.AliasRoot(filter)]
		if p.Kind != graph.KindParam {
			continue
		}
		behind[n.ID] = true
		at := slices.IndexFunc(entries, func(e engine.Entry) bool { return e.Name == p.Name && !e.State })
		if at < 0 || slices.ContainsFunc(layers, func(l Layer) bool { return l.Param == p.Name }) {
			continue
		}
		s := g.Nodes[filter].Shape
		l := Layer{Name: strings.TrimSuffix(p.Name, weightSuffix), Param: p.Name, Offset: entries[at].Offset, Out: s[0], In: s[1],
			Kernel: [3]int{s[2], s[3], s[4]}, Transposed: of.Transposed(), ReadsInput: !behind[x]}
		if l.Transposed {
			l.Out, l.In = l.In, l.Out
		}
		layers = append(layers, l)
	}
	return layers
}
