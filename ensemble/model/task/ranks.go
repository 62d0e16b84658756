package task

import (
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/team"
)

// ForRank returns the task of a rank, restricted to the levels and points of its slab. A nil slab is
// the whole grid.
//
// Memory: maps are copied, all else is shared with k.
func (k *Task) ForRank(s *team.Shard, rank int) *Task {
	out := *k
	if s == nil {
		return &out
	}
	out.Features.Axes.Levels = team.SelectLevels(k.Features.Axes.Levels, s, rank)
	out.TargetWeights, out.ErrorScale, out.SpreadScale, out.SpreadAffine = team.SelectLevels(k.TargetWeights, s, rank), team.SelectLevels(k.ErrorScale, s, rank), team.SelectLevels(k.SpreadScale, s, rank), team.SelectLevels(k.SpreadAffine, s, rank)
	out.Edges, out.LargestError, out.LargestSpread = team.SelectLevels(k.Edges, s, rank), team.SelectLevels(k.LargestError, s, rank), team.SelectLevels(k.LargestSpread, s, rank)
	out.Centre, out.Width = team.CropMaps(team.SelectLevels(k.Centre, s, rank), s, rank), team.CropMaps(team.SelectLevels(k.Width, s, rank), s, rank)
	out.reference = k.reference.ForRank(s, rank)
	out.Features.Spreads = team.SelectLevels(k.Features.Spreads, s, rank)
	streams := make([]int, k.Features.Axes.Fields())
	for i := range streams {
		streams[i] = i
	}
	out.Features.NoiseStreams = team.SelectLevels(streams, s, rank)
	out.Features.Auxiliary = nil
	for _, a := range k.Features.Auxiliary {
		out.Features.Auxiliary = append(out.Features.Auxiliary, ensemble.Auxiliary{Name: a.Name, Values: team.CropMaps([][]float32{a.Values}, s, rank)[0]})
	}
	out.Features.Fields = nil
	for _, f := range team.SelectLevels(k.Features.Fields, s, rank) {
		maps := team.CropMaps([][]float64{f.Mean, f.Scale}, s, rank)
		out.Features.Fields = append(out.Features.Fields, &ensemble.Normaliser{Kind: f.Kind, Mean: maps[0], Scale: maps[1]})
	}
	return &out
}

// distributedTask is the part of a fitted task that the root rank sends to another rank.
type distributedTask struct {
	Whole Task // without maps
	Local Task // of the receiving rank, with its part of the maps
}

// Distribute distributes the task that the root rank has fitted. Every rank gets its local task as
// the result, and in k everything except the maps.
//
// Errors: communication errors.
func Distribute(t *team.Team, k *Task) (*Task, error) {
	s := t.Shard()
	if s == nil {
		return k, nil
	}
	bare := *k
	bare.Features.Fields, bare.Centre, bare.Width = nil, nil, nil
	f, err := team.Scatter(t, func(rank int) distributedTask { return distributedTask{bare, *k.ForRank(s, rank)} })
	if err != nil {
		return nil, err
	}
	if t.IsRoot() {
		return k.ForRank(s, 0), nil
	}
	*k = f.Whole
	return &f.Local, nil
}
