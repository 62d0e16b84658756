package network

import (
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/prune/channels"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// FullChannels analyses the channels of the network before channels were removed.
func (s Spec) FullChannels(k *task.Task, g *ensemble.Grid) (*channels.Network, error) {
	s.Kept = nil
	return s.Channels(k, g)
}

// Channels analyses the channels of the network in its current form.
func (s Spec) Channels(k *task.Task, g *ensemble.Grid) (*channels.Network, error) {
	gr, err := s.Graph(k, g, 1, 0, false)
	if err != nil {
		return nil, err
	}
	return channels.Find(gr), nil
}

// buildShrunk finishes the graph. It removes the channels that Spec.Kept leaves out, or replaces
// filters by shared parameters.
func (s Spec) buildShrunk(b *graph.Builder) (*graph.Graph, error) {
	g, err := b.Build()
	if err != nil || len(s.Kept) == 0 {
		return s.withSharing(g, err)
	}
	small, _, err := channels.Find(g).Shrink(s.Kept)
	if err != nil {
		return nil, &exit.Error{Code: exit.BadData, What: "the list of kept channels does not match the network", At: "network.kept of model.json", Why: err.Error(),
			Fix: "copy the whole model folder again", Err: err}
	}
	return small, nil
}
