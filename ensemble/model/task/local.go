package task

import (
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/team"
)

// Local is the task of a rank, for its slab alone: what is known of other levels and
// points is left out.
func (k *Task) Local(s *team.Slab, rank int) *Task {
	out := *k
	if s == nil {
		return &out
	}
	out.Features.Axes.Levels = team.AtLevels(k.Features.Axes.Levels, s, rank)
	out.Score, out.ErrorScale, out.SpreadScale, out.SpreadAffine = team.AtLevels(k.Score, s, rank), team.AtLevels(k.ErrorScale, s, rank), team.AtLevels(k.SpreadScale, s, rank), team.AtLevels(k.SpreadAffine, s, rank)
	out.Edges = team.AtLevels(k.Edges, s, rank)
	out.Centre, out.Width = team.CutMaps(team.AtLevels(k.Centre, s, rank), s, rank), team.CutMaps(team.AtLevels(k.Width, s, rank), s, rank)
	out.reference = k.reference.Within(s, rank)
	out.Features.Spreads = team.AtLevels(k.Features.Spreads, s, rank)
	out.Features.Auxiliary = nil
	for _, a := range k.Features.Auxiliary {
		out.Features.Auxiliary = append(out.Features.Auxiliary, ensemble.Auxiliary{Name: a.Name, Values: team.CutMaps([][]float32{a.Values}, s, rank)[0]})
	}
	out.Features.Fields = nil
	for _, f := range team.AtLevels(k.Features.Fields, s, rank) {
		maps := team.CutMaps([][]float64{f.Mean, f.Scale}, s, rank)
		out.Features.Fields = append(out.Features.Fields, &ensemble.Normaliser{Kind: f.Kind, Mean: maps[0], Scale: maps[1]})
	}
	return &out
}

// fitted is what the leading rank gives another one of a task.
type fitted struct {
	Whole Task // without maps
	Local Task
}

// ShareTask gives every rank its local task of the one that the leading rank has
// fitted, and what of it all need: all but the maps.
func ShareTask(t *team.Team, k *Task) (*Task, error) {
	s := t.Own()
	if s == nil {
		return k, nil
	}
	bare := *k
	bare.Features.Fields, bare.Centre, bare.Width = nil, nil, nil
	f, err := team.Scatter(t, func(rank int) fitted { return fitted{bare, *k.Local(s, rank)} })
	if err != nil {
		return nil, err
	}
	if t.Leads() {
		return k.Local(s, 0), nil
	}
	*k = f.Whole
	return &f.Local, nil
}
