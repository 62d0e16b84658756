package optimum

import (
	"cmp"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble/record"
	"github.com/ensemble-weather/ensemble/internal/answer"
)

// Cost is what the trainings of a variant took, with their baselines and scores.
type Cost struct {
	Variant   string  `json:"variant"`
	Seeds     int     `json:"seeds"`
	Steps     uint64  `json:"steps"`      // of one seed
	CoreHours float64 `json:"core_hours"` // of all seeds: duration times threads, so on a busy machine more than processor time
}

// CostsOf returns the costs of an experiment's variants, in their order.
func CostsOf(r *record.Record) (all []Cost) {
	for _, run := range r.Runs {
		at := slices.IndexFunc(all, func(c Cost) bool { return c.Variant == run.Variant })
		if at < 0 {
			at = len(all)
			all = append(all, Cost{Variant: run.Variant})
		}
		c := &all[at]
		c.Seeds, c.Steps, c.CoreHours = c.Seeds+1, max(c.Steps, run.Steps), c.CoreHours+run.Seconds*float64(r.Machine.Threads)/3600
	}
	return all
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
