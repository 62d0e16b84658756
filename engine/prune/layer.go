package prune

import (
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
)

// Layer is the filter of a convolution among the parameters of a store.
type Layer struct {
	Name   string // of the parameter, without the suffix ".weight"
	Param  string // of the parameter
	Offset int    // of its first element in the flat parameters
	// Out and In are numbers of channels. Kernel is the size of the filter in depth, height and
	// width.
	Out, In int
	Kernel  [3]int
	// Transposed is true if the filter is stored as [In Out …], as transposed convolutions do, and
	// false for [Out In …].
	Transposed bool
	// ReadsInput is true if the layer reads the network's input without another convolution before
	// it.
	ReadsInput bool
}

// Taps is the number of positions of the filter, kD·kH·kW.
func (l Layer) Taps() int { return l.Kernel[0] * l.Kernel[1] * l.Kernel[2] }

// Size is the number of weights.
func (l Layer) Size() int { return l.Out * l.In * l.Taps() }

// index is the index of a weight in the layer, for an output channel, an input channel and a tap.
func (l Layer) index(out, in, tap int) int {
	if l.Transposed {
		out, in = in, out
		return (out*l.Out+in)*l.Taps() + tap
	}
	return (out*l.In+in)*l.Taps() + tap
}

// OutAxis is the axis of the filter along its output channels. Its input channels are along the other of the first two.
func (l Layer) OutAxis() int {
	if l.Transposed {
		return 1
	}
	return 0
}

// Channels are the output and the input channel of element i of the layer.
func (l Layer) Channels(i int) (out, in int) {
	i /= l.Taps()
	if l.Transposed {
		return i % l.Out, i / l.Out
	}
	return i / l.In, i % l.In
}

// inputChannel is the input channel of element i of the layer.
func (l Layer) inputChannel(i int) int {
	_, in := l.Channels(i)
	return in
}

// weightSuffix is the end of the names of filters.
const weightSuffix = ".weight"

// Layers lists the filters of the convolutions of a network, in the order of their first use. g is
// the network before any compiler pass. entries are those of the store that g has laid out. A
// filter that is not a parameter is left out; one that several convolutions share is listed once.
func Layers(g *graph.Graph, entries []engine.Entry) []Layer {
	var layers []Layer
	behind := make([]bool, len(g.Nodes)) // nodes that depend on a convolution
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
