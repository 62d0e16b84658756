package obs

import (
	"github.com/ensemble-weather/ensemble/engine/prune"
	"github.com/ensemble-weather/ensemble/engine/prune/channels"
)

// Importance estimates how much an error of one channel of a layer changes the results of the network, as the ratio of their
// mean squares. It is 1 for the results themselves, which no convolution reads, and else
//
//	fᵢ = Σ fₒ Σₜ w²ₒᵢₜ
//
// over the convolutions that read channel i, with their outputs o and taps t. Errors count as uncorrelated, and activations
// as the identity. Layers are added from the last to the first.
//
// Source: Yu et al. 2018, arXiv:1711.05908 (NISP: importance propagates from the results backwards), with the squares of the weights, as
// variances do.
type Importance struct {
	net *channels.Network
	of  map[int]float64 // by channels.Network.Sets; none for those that no convolution reads
}

// NewImportance is the importance before any layer was added.
func NewImportance(net *channels.Network) *Importance {
	return &Importance{net, map[int]float64{}}
}

// Rows is the importance of the output channels of a layer.
func (m *Importance) Rows(l prune.Layer) []float64 {
	f := make([]float64, l.Out)
	for o, set := range m.net.Sets(l.Param, l.OutAxis()) {
		var read bool
		if f[o], read = m.of[set]; !read {
			f[o] = 1
		}
	}
	return f
}

// Add adds a layer with weights w, whose readers were added.
func (m *Importance) Add(l prune.Layer, w []float32) {
	f, sets := m.Rows(l), m.net.Sets(l.Param, 1-l.OutAxis())
	for i, v := range w {
		o, c := l.Channels(i)
		m.of[sets[c]] += f[o] * float64(v) * float64(v)
	}
}
