package experimentfile

import (
	"fmt"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Origins is the section origins of experiment.yaml: the test periods of an evaluation with a rolling origin.
type Origins struct {
	First            config.Date   `key:"first"`
	Periods          int           `key:"periods"`
	TestMonths       int           `key:"test_months"`
	ValidationMonths int           `key:"validation_months"`
	TrainMonths      int           `key:"train_months"`
	Gap              time.Duration `key:"gap"`
}

// rolling returns the periods of the origins; the begin of the training and the gap are those of a configuration.
func (o Origins) rolling() ensemble.Rolling {
	return ensemble.Rolling{First: o.First.Time, Periods: o.Periods, Test: o.TestMonths, Validation: o.ValidationMonths, Train: o.TrainMonths, Gap: o.Gap}
}

// Names lists the origins, the dates on which the test periods begin; nil for one test period.
func (o Origins) Names() (names []string) {
	for _, t := range o.rolling().Origins() {
		names = append(names, t.Format(time.DateOnly))
	}
	return names
}

// Splits returns the periods of each origin for a training configuration. Without gap it is the longest lead
// of the configuration.
//
// Errors: exit 64 for a split by fractions, a gap shorter than the longest lead, and no time for training.
func (o Origins) Splits(c *config.TrainConfig) ([]ensemble.Parts, error) {
	longest := ensemble.Lead(0)
	for _, l := range slices.Concat(c.Data.TargetLeads, c.Data.Leads) {
		longest = max(longest, l)
	}
	r := o.rolling()
	if r.Gap == 0 {
		r.Gap = time.Duration(longest)
	}
	switch {
	case !c.Data.Split.IsByDate():
		return nil, &exit.Error{Code: exit.Usage, What: "origins need a split by dates", At: "data.split", Why: "the training of each origin begins on data.split.train.from",
			Fix: "set data.split.train.from and .to, and data.split.validation"}
	case ensemble.Lead(r.Gap) < longest:
		return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("origins.gap of %s is shorter than the longest lead, %s", ensemble.Lead(r.Gap), longest), At: "origins.gap",
			Why: "forecasts that are fitted to would be valid within the test period", Fix: "remove origins.gap, or set at least " + longest.String()}
	}
	r.Begin = c.Data.Split.Train.From.Time
	return r.Splits()
}

// checkOrigins checks the section origins.
func (c *Config) checkOrigins() (faults []*exit.Error) {
	add := func(path, what, why, fix string) { faults = append(faults, c.Fault(path, what, why, fix)) }
	o := &c.Origins
	switch {
	case o.First.IsZero() && (o.Periods > 0 || o.TrainMonths > 0 || o.Gap > 0):
		add("origins.first", "origins.first is missing", "other keys of origins are set", "add the first initialisation of the first test period")
	case !o.First.IsZero() && o.Periods == 0:
		add("origins.periods", "origins.periods is missing", "", "add the number of test periods")
	case o.First.Day() > 28:
		add("origins.first", "origins.first is on day "+fmt.Sprint(o.First.Day())+" of a month", "not every month has that day", "give a day up to 28")
	}
	if o.Periods > 0 && c.Quality.Target > 0 {
		add("quality.target", "quality.target with origins", "the time to a quality is that of one split", "remove one of the two")
	}
	return faults
}
