package notebooks

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Option is an option of Open, Demo, Train, Predict, Score or Verify. The comment of an option
// names the functions that accept it. The other functions reject it.
type Option struct {
	name  string
	apply func(*options) error
}

// options contains the values of all options of a call.
type options struct {
	cached, small  bool
	folder         string
	analyses       []string
	targets        []string
	lead           ensemble.Lead
	leadGiven      bool
	set            []string
	publish        config.Publishing
	scoreSelection scoring.Selection
	periods        [3]period // of training, validation and test; zero: by fractions
	members        bool
	since, until   *config.Date
}

// period is an interval of initialisation times as the configuration states it.
type period struct{ from, to string }

// DefaultFolder is the folder of all results without the option In.
const DefaultFolder = "runs"

// Cached stores the inventory and the checksums of the files. Later cells use them for files with
// the same path, size and modification time. For Open.
func Cached() Option {
	return Option{"Cached", func(o *options) error { o.cached = true; return nil }}
}

// In sets the folder of all results. For Open and Demo. Runs and predictions use the folder of
// their dataset.
func In(folder string) Option {
	return Option{"In", func(o *options) error { o.folder = folder; return nil }}
}

// Analyses sets the files of the verifying analyses, as patterns. For Open.
func Analyses(patterns ...string) Option {
	return Option{"Analyses", func(o *options) error { o.analyses = append(o.analyses, patterns...); return nil }}
}

// Small reduces the cost for a first test. Train uses a small network and few epochs. Demo
// generates one year of data in place of four years. For Train and Demo.
func Small() Option {
	return Option{"Small", func(o *options) error { o.small = true; return nil }}
}

// Target adds a predicted variable: "t2m"; "t850" or "gh@500hPa" at one level; "t" at all levels
// of the files. Without this option, all variables of the files are targets. For Train.
func Target(name string) Option {
	return Option{"Target", func(o *options) error { o.targets = append(o.targets, name); return nil }}
}

// Lead sets a lead time such as "48h". In Train it is the target lead time; the default is the
// longest lead time of the files. In Predict it is the lead time of the fields.
func Lead(text string) Option {
	return Option{"Lead", func(o *options) error {
		d, err := config.ParseDuration(text)
		if err != nil || d < 0 {
			return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("invalid lead time %q", text), At: "Lead", Fix: `write it as "48h"`, Err: err}
		}
		o.lead, o.leadGiven = ensemble.Lead(d), true
		return nil
	}}
}

// Set sets keys of the configuration, as --set of `ensemble train` does, for example
// "train.epochs=5". The default of "data.members.use" is half of the members. For Train.
func Set(assignments ...string) Option {
	return Option{"Set", func(o *options) error { o.set = append(o.set, assignments...); return nil }}
}

// TrainFrom sets the training period of the initialisation times by dates such as "1983-10-01": first and last day, both
// included. ValidateFrom and TestFrom are needed too; without them the periods are fractions of the dataset. For Train.
func TrainFrom(from, to string) Option { return periodOption("TrainFrom", 0, from, to) }

// ValidateFrom sets the period for the choice of the epoch; see TrainFrom.
func ValidateFrom(from, to string) Option { return periodOption("ValidateFrom", 1, from, to) }

// TestFrom sets the period that is scored once, at the end; see TrainFrom.
func TestFrom(from, to string) Option { return periodOption("TestFrom", 2, from, to) }

// splitOptions are the names of the options that set the periods, in the order of options.periods.
var splitOptions = [3]string{"TrainFrom", "ValidateFrom", "TestFrom"}

func periodOption(name string, i int, from, to string) Option {
	return Option{name, func(o *options) error {
		a, err := parseDate(name, from)
		if err != nil {
			return err
		}
		b, err := parseDate(name, to)
		if err != nil {
			return err
		}
		if b.Time.Before(a.Time) {
			return &exit.Error{Code: exit.Usage, What: "the period ends before it begins", At: fmt.Sprintf("%s(%q, %q)", name, from, to), Fix: "state the first date, then the last"}
		}
		o.periods[i] = period{from, to}
		return nil
	}}
}

// parseDate parses the date of an option.
//
// Errors: exit 64.
func parseDate(option, text string) (config.Date, error) {
	d, err := config.ParseDate(text)
	if err != nil {
		return d, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("invalid date %q", text), At: option, Fix: `write it as "2001-11-01"`}
	}
	return d, nil
}

// CalibratedMembers adds members of the calibrated distribution, in the rank order of the raw members, to the products.
// For Predict.
func CalibratedMembers() Option {
	return Option{"CalibratedMembers", func(o *options) error { o.members = true; return nil }}
}

// Quantiles adds quantiles of the distribution to the products. The probabilities are between 0
// and 1. For Predict.
func Quantiles(probabilities ...float64) Option {
	return Option{"Quantiles", func(o *options) error {
		o.publish.Quantiles = append(o.publish.Quantiles, probabilities...)
		return nil
	}}
}

// Event is an event of a variable, at all its levels or at one: "t2m>273.15", "t850>273.15", "t2m<0 degC". Limits without a unit
// are in SI units. Predict adds its probability to the products; Score and Verify add its scores, of events above a
// threshold. For Predict, Score and Verify.
func Event(event string) Option {
	return Option{"Event", func(o *options) error {
		q, err := ensemble.ParseVariableEvent(event)
		if err != nil {
			return &exit.Error{Code: exit.Usage, What: err.Error(), At: "Event", Fix: "write it as " + ensemble.EventForms}
		}
		o.publish.Probabilities, o.scoreSelection.Events = append(o.publish.Probabilities, q), append(o.scoreSelection.Events, event)
		return nil
	}}
}

// Metrics selects scores by the identifiers that `ensemble scores` lists. "default" and "all"
// select groups. For Score and Verify.
func Metrics(ids ...string) Option {
	return Option{"Metrics", func(o *options) error { o.scoreSelection.Scores = append(o.scoreSelection.Scores, ids...); return nil }}
}

// Since excludes initialisation times before a date such as "2001-11-01". For Verify.
func Since(date string) Option {
	return Option{"Since", func(o *options) error {
		d, err := parseDate("Since", date)
		o.since = &d
		return err
	}}
}

// Until excludes initialisation times after a date such as "2001-12-31". For Verify.
func Until(date string) Option {
	return Option{"Until", func(o *options) error {
		d, err := parseDate("Until", date)
		if d.WholeDay {
			d.Time = d.Time.Add(24*time.Hour - time.Nanosecond)
		}
		o.until = &d
		return err
	}}
}

// includes reports whether an initialisation time is in the period of Since and Until.
func (o *options) includes(t time.Time) bool {
	return (o.since == nil || !t.Before(o.since.Time)) && (o.until == nil || !t.After(o.until.Time))
}

// applyOptions applies the options of a call. takes contains the names of the accepted options.
//
// Errors: exit 64 for an option that the call does not accept; errors of the options.
func applyOptions(call string, opts []Option, takes ...string) (options, error) {
	var o options
	for _, opt := range opts {
		if opt.apply == nil || !slices.Contains(takes, opt.name) {
			return o, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s does not accept the option %s", call, opt.name),
				Fix: "remove it; " + call + " accepts " + strings.Join(takes, ", ")}
		}
		if err := opt.apply(&o); err != nil {
			return o, err
		}
	}
	return o, nil
}

// variableLevel is a variable at a level, or on all levels if level is nil.
type variableLevel struct {
	variable string
	level    *ensemble.Level
}

// String formats the variable and its level in the syntax of parseVariable.
func (p variableLevel) String() string {
	if p.level == nil {
		return p.variable
	}
	return p.variable + "@" + p.level.String()
}

// parseVariable parses a variable as ensemble.ParseVariableAt does. The level of a variable with one is known.
//
// Errors: exit 64 for an unknown variable and for an invalid level.
func parseVariable(text string) (variableLevel, error) {
	at, err := ensemble.ParseVariableAt(text)
	v, known := ensemble.VariableNamed(at.Variable)
	if err == nil && !known {
		err = errors.New("it is neither the name of a variable nor a name with a pressure level")
	}
	if err != nil {
		return variableLevel{}, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("unknown variable %q", text), Why: err.Error(),
			Fix: "write " + ensemble.NameForms + ", or t for all levels; ds.Show() lists the variables"}
	}
	switch {
	case at.HasLevel:
		return variableLevel{v.Name, &at.Level}, nil
	case !v.OnManyLevels():
		return variableLevel{v.Name, &v.Level}, nil
	}
	return variableLevel{variable: v.Name}, nil
}
