package groups

import (
	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Mean replaces numbers by their mean over groups. All ranks get the same bits. A nil g is one group.
//
// Errors: lost ranks.
func Mean[T float32 | float64](g *team.SampleGroups, x []T) error {
	if len(x) == 0 || g.Count() == 1 {
		return nil
	}
	if err := comm.AllReduce(g.Across, x, comm.Auto); err != nil {
		return err
	}
	n := T(g.Count())
	for i := range x {
		x[i] /= n
	}
	return nil
}

// meanMoments replaces the moments of an optimiser by their mean over groups. A mean of velocities is the velocity of the
// mean gradient. The optimiser has then taken a number of steps, of which a group may have left some out.
func meanMoments(g *team.SampleGroups, o *optim.Optimizer, steps uint64) error {
	moments, err := o.State()
	if err != nil {
		return err
	}
	byName := map[string][]float32{}
	for _, m := range moments {
		if err := Mean(g, m.Values); err != nil {
			return err
		}
		byName[m.Name] = m.Values
	}
	return o.Restore(steps, func(name string, _ int) ([]float32, error) { return byName[name], nil })
}
