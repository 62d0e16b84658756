package train

import (
	"math"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// totalsOf returns the values of an event for all ranks, of which each has counted its own: sums, for times in seconds means, and
// the extremes of each value with their ranks. Values of a single rank are unchanged. All ranks call it.
func totalsOf(ranks *team.Team, values []rundir.Value) ([]rundir.Value, error) {
	if ranks == nil {
		return values, nil
	}
	own, whole := make([]float64, len(values)), make([]bool, len(values))
	for i, v := range values {
		switch x := v.Value.(type) {
		case float64:
			own[i] = x
		case int64:
			own[i], whole[i] = float64(x), true
		case int:
			own[i], whole[i] = float64(x), true
		case uint64:
			own[i], whole[i] = float64(x), true
		}
	}
	all, err := ranks.Totals(own)
	if err != nil {
		return nil, err
	}
	out, extremes := make([]rundir.Value, len(values)), map[string]team.Total{}
	for i, v := range values {
		extremes[v.Name] = all[i]
		switch sum := all[i].Sum; {
		case whole[i]:
			out[i] = rundir.Value{Name: v.Name, Value: int64(math.Round(sum))}
		case strings.HasSuffix(v.Name, "_s"):
			out[i] = rundir.Value{Name: v.Name, Value: sum / float64(ranks.Size())}
		default:
			out[i] = rundir.Value{Name: v.Name, Value: sum}
		}
	}
	return append(out, rundir.Value{Name: "extremes", Value: extremes}), nil
}
