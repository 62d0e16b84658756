package train

import (
	"fmt"
	"maps"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/prune/channels"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
)

// importance accumulates scores of channels from gradients. Checkpoints contain it.
type importance struct {
	network  *channels.Network    // the network in its current size
	sums     map[string][]float32 // by first filter of a family: sum of squared Taylor scores
	gradient []float32            // gradient of all parameters
}

// channelScores returns the score of each channel by the configured method.
//
// Shape: [family][channel].
func (t *trainer) channelScores(now *channels.Network, step int) ([][]float64, error) {
	switch r := t.removal; r.method {
	case config.TaylorPruning:
		out := now.EqualScores()
		for i, f := range now.Groups() {
			for k, v := range t.current.pruning.importance.sums[f.Filters[0]] {
				out[i][k] = float64(v)
			}
		}
		return out, nil
	case config.RandomPruning:
		return now.RandomScores(r.seed, step), nil
	}
	return now.Magnitudes(t.current.parameter), nil
}

// observeChannels adds the gradient of the current step, before the optimiser uses it, to the Taylor scores.
// All ranks call it.
func (t *trainer) observeChannels() error {
	r, step := t.removal, t.networkSteps()
	if r == nil || r.method != config.TaylorPruning || step < r.from-r.every || step >= r.to {
		return nil
	}
	m := &t.current.pruning.importance
	if m.network == nil {
		spec := t.model.Spec
		spec.Kept = t.pos.Kept
		var err error
		if m.network, err = spec.Channels(&t.model.Task, t.model.Grid); err != nil {
			return err
		}
		m.gradient = make([]float32, len(t.current.store.Params()))
	}
	if m.sums == nil {
		m.sums = map[string][]float32{}
	}
	clear(m.gradient)
	t.current.opt.AddScaledGradient(m.gradient, 1)
	if err := t.current.opt.AllGather(m.gradient); err != nil {
		return fmt.Errorf("gradients for channel pruning: %w", err)
	}
	at := map[string][]float32{}
	for _, e := range t.current.store.Entries() {
		if !e.State {
			at[e.Name] = m.gradient[e.Offset : e.Offset+e.Size()]
		}
	}
	now := m.network.Taylor(t.current.parameter, func(name string) []float32 { return at[name] })
	for i, f := range m.network.Groups() {
		name := f.Filters[0]
		if m.sums[name] == nil {
			m.sums[name] = make([]float32, f.Width)
		}
		for k, v := range now[i] {
			m.sums[name][k] += float32(v * v)
		}
	}
	return nil
}

// tensors returns the scores for a checkpoint.
func (m *importance) tensors() (out []ckpt.Tensor) {
	for _, name := range slices.Sorted(maps.Keys(m.sums)) {
		v := m.sums[name]
		out = append(out, ckpt.Tensor{Name: partPruning + name, Shape: graph.Shape{len(v)}, Data: v})
	}
	return out
}

// restore sets the scores from a checkpoint.
func (m *importance) restore(state model.Weights) error {
	if len(state) == 0 {
		return nil
	}
	*m = importance{sums: map[string][]float32{}}
	for _, x := range state {
		v, err := x.Float32()
		if err != nil {
			return err
		}
		m.sums[x.Name] = v
	}
	return nil
}
