package optimum

import (
	"cmp"
	"slices"

	"github.com/ensemble-weather/ensemble/internal/answer"
)

// Cost is what the trainings of a variant took, with their baselines and scores.
type Cost struct {
	Variant   string  `json:"variant"`
	Seeds     int     `json:"seeds"`
	Steps     uint64  `json:"steps"`      // of one seed
	CoreHours float64 `json:"core_hours"` // of all seeds: duration times threads, so on a busy machine more than processor time
}

// AddCost adds a training, of some duration in seconds, to the costs.
func (r *Result) AddCost(variant string, steps uint64, seconds float64, threads int) {
	at := slices.IndexFunc(r.Costs, func(c Cost) bool { return c.Variant == variant })
	if at < 0 {
		at = len(r.Costs)
		r.Costs = append(r.Costs, Cost{Variant: variant})
	}
	c := &r.Costs[at]
	c.Seeds, c.Steps, c.CoreHours = c.Seeds+1, max(c.Steps, steps), c.CoreHours+seconds*float64(threads)/3600
}

// cost is the table of costs.
func (r *Result) cost() answer.Section {
	s := answer.Section{Title: "Cost", Columns: slices.Concat(answer.TextColumns("variant"), answer.NumberColumns("", "seeds", "steps of a seed"), answer.NumberColumns("%.2g", "core hours"))}
	for _, c := range r.Costs {
		s.Rows = append(s.Rows, []any{cmp.Or(c.Variant, "-"), c.Seeds, c.Steps, c.CoreHours})
	}
	s.Notes = []string{"Trainings with the fits of their baselines and their scores: duration times threads. A row is repeated by the command of the experiment, or alone by `ensemble train -c RUN/config.effective.yaml`."}
	return s
}
