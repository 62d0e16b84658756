package samples

import (
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/postproc/drift"
)

// Summarise summarises the input fields of one initialisation over some members, for the drift detector. On
// several ranks the result is complete on rank 0 and nil on others; all call it at the same point. axes are
// those of the features; the forecast may have more leads.
//
// Shape: [lead][variable][level] of the axes.
func Summarise(boxes *drift.Boxes, axes ensemble.Axes, fc *ensemble.Forecast, used []int, ranks *team.Team) (out []drift.Summary, err error) {
	n, levels, depth := fc.Grid.Size(), len(fc.Axes.Levels), len(axes.Levels)
	for t := range axes.Leads {
		for v := range fc.Axes.Variables {
			part := make([]float32, 2*levels*n)
			for l := range levels {
				fc.MeanStd(part[l*n:(l+1)*n], part[(levels+l)*n:(levels+l+1)*n], t, v, l, used, SpreadDDOF(len(used)))
			}
			whole, err := team.GatherFields(ranks, part, 2)
			if err != nil {
				return nil, err
			}
			if !ranks.IsRoot() {
				continue
			}
			points := len(whole) / 2 / depth
			for l := range depth {
				out = append(out, boxes.Summarise(whole[l*points:(l+1)*points], whole[(depth+l)*points:(depth+l+1)*points]))
			}
		}
	}
	return out, nil
}

// SpreadDDOF is the delta degrees of freedom of spreads that are compared between ensemble sizes: 1, or 0
// for a single member.
func SpreadDDOF(members int) int { return min(1, members-1) }
