package members

import (
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/team"
)

// RawMembers returns the used members of the targets. Of ranks that predict together rank 0 gets complete
// fields, the others nil; all call it.
//
// Shape: [member][lead][variable][level][point].
// Errors: a member that the forecast lacks; those of the exchange between ranks.
func RawMembers(m *model.Model, fc *ensemble.Forecast, used []ensemble.Member) ([]float32, error) {
	k := m.Local
	at, err := task.MemberPositions(fc, used)
	if err != nil {
		return nil, err
	}
	var part []float32
	for _, member := range at {
		for v := range k.Targets {
			t, x := k.TargetAt(v)
			for l := range k.Features.Axes.Levels {
				part = append(part, fc.Field(t, member, x, l)...)
			}
		}
	}
	return team.GatherFields(m.Ranks, part, len(used)*len(k.Targets))
}
