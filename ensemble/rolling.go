package ensemble

import (
	"fmt"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Rolling configures an evaluation with a rolling origin: a model is fitted to initialisations before
// an origin and tested on the period after it. Then the origin moves by that period, whose dates
// become available for fitting.
//
// Source: Tashman 2000, doi:10.1016/S0169-2070(00)00065-0.
type Rolling struct {
	First   time.Time // first origin: begin of the first test period
	Periods int       // number of test periods
	// Months of a test period and of the validation before it; of the training before that, 0: from Begin.
	Test, Validation, Train int
	Begin                   time.Time // earliest initialisation for training
	// Gap is the longest lead: forecasts of a part are valid before the next part begins.
	Gap time.Duration
}

// Parts are the periods of a split.
type Parts struct{ Train, Validation, Test Period }

// Origins lists the begin of each test period. Months are those of the calendar, so that periods of
// twelve months are years, with and without a leap day.
func (r Rolling) Origins() []time.Time {
	out := make([]time.Time, r.Periods)
	for k := range out {
		out[k] = r.First.AddDate(0, k*r.Test, 0)
	}
	return out
}

// Splits returns the parts of each origin. An init belongs to a part before another one only if
// its forecast is valid before the first date of the latter: what a model is fitted to was known
// at the origin. Test periods follow each other without gap, since each has its own model.
//
// Errors: exit 64 if no time remains for training or validation.
func (r Rolling) Splits() ([]Parts, error) {
	// The ends of a Period belong to it, and initialisations are whole seconds.
	before := func(next time.Time, gap time.Duration) time.Time { return next.Add(-gap - time.Second) }
	out := make([]Parts, r.Periods)
	for k, origin := range r.Origins() {
		validation := origin.AddDate(0, -r.Validation, 0)
		train := r.Begin
		if from := validation.AddDate(0, -r.Train, 0); r.Train > 0 && from.After(train) {
			train = from
		}
		p := Parts{Period{train, before(validation, r.Gap)}, Period{validation, before(origin, r.Gap)},
			Period{origin, before(r.First.AddDate(0, (k+1)*r.Test, 0), 0)}}
		for _, part := range []struct {
			name string
			in   Period
		}{{"training", p.Train}, {"validation", p.Validation}} {
			if part.in.To.Before(part.in.From) {
				return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("no time for %s before the origin %s", part.name, origin.Format(time.DateOnly)),
					At: "origins", Why: fmt.Sprintf("it would be from %s to %s, with a gap of %s", part.in.From.Format(time.DateOnly), part.in.To.Format(time.DateOnly), Lead(r.Gap)),
					Fix: "give a later origins.first, fewer validation_months, or an earlier data.split.train.from"}
			}
		}
		out[k] = p
	}
	return out, nil
}
