package network

import (
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/prune/channels"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// FullChannels is the network before any channel goes, as channels are found in it.
func (s Spec) FullChannels(k *task.Task, g *ensemble.Grid) (*channels.Network, error) {
	s.Kept = nil
	return s.Channels(k, g)
}

// Channels are those of the network as it is.
func (s Spec) Channels(k *task.Task, g *ensemble.Grid) (*channels.Network, error) {
	gr, err := s.Graph(k, g, 1, 0, false)
	if err != nil {
		return nil, err
	}
	return channels.Find(gr), nil
}

// buildShrunk is a network without the channels that went.
func (s Spec) buildShrunk(b *graph.Builder) (*graph.Graph, error) {
	g, err := b.Build()
	if err != nil || len(s.Kept) == 0 {
		return s.withSharing(g, err)
	}
	small, _, err := channels.Find(g).Shrink(s.Kept)
	if err != nil {
		return nil, &exit.Error{Code: exit.BadData, What: "the list of channels that are left does not fit the network", At: "network.kept of model.json", Why: err.Error(),
			Fix: "copy the whole folder of the model again", Err: err}
	}
	return small, nil
}
