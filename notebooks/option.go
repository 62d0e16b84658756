package notebooks

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Option changes what Open, Demo, Train or Predict do. Each says in its comment which of
// them takes it; the others refuse it.
type Option struct {
	name  string
	apply func(*options) error
}

// options is what options say together.
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
	since          *config.Date
}

// DefaultFolder is where everything is kept unless In names another folder.
const DefaultFolder = "runs"

// Cached keeps what a look into the files found, and their checksums, for later cells,
// which tell files by path, size and time of change instead of reading them. For Open.
func Cached() Option {
	return Option{"Cached", func(o *options) error { o.cached = true; return nil }}
}

// In names the folder in which everything is kept. For Open and Demo; runs and
// predictions are kept where their dataset's are.
func In(folder string) Option {
	return Option{"In", func(o *options) error { o.folder = folder; return nil }}
}

// Analyses names the files of the analyses that forecasts are compared with, as
// patterns. For Open.
func Analyses(patterns ...string) Option {
	return Option{"Analyses", func(o *options) error { o.analyses = append(o.analyses, patterns...); return nil }}
}

// Small makes little of it, for a first try: a small network and few epochs, or of Demo
// a year in place of four. For Train and Demo.
func Small() Option {
	return Option{"Small", func(o *options) error { o.small = true; return nil }}
}

// Target adds a variable whose distribution is predicted: "t2m"; "t850" and
// "gh@500hPa" at a level; "t" at all levels that the files have it on. For Train, which
// takes all variables of the files without it.
func Target(name string) Option {
	return Option{"Target", func(o *options) error { o.targets = append(o.targets, name); return nil }}
}

// Lead names a lead such as "48h": of Train the one that is learned, the longest
// without it; of Predict the one that is shown.
func Lead(text string) Option {
	return Option{"Lead", func(o *options) error {
		d, err := config.ParseDuration(text)
		if err != nil || d < 0 {
			return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%q is no lead", text), At: "Lead", Fix: `write it as "48h"`, Err: err}
		}
		o.lead, o.leadGiven = ensemble.Lead(d), true
		return nil
	}}
}

// Set changes a key of the configuration, as after --set of `ensemble train`:
// "train.epochs=5"; "data.members.use=5" for other members than half of them. For Train.
func Set(assignments ...string) Option {
	return Option{"Set", func(o *options) error { o.set = append(o.set, assignments...); return nil }}
}

// Quantiles adds quantiles of the distribution to the products. For Predict.
func Quantiles(probabilities ...float64) Option {
	return Option{"Quantiles", func(o *options) error {
		o.publish.Quantiles = append(o.publish.Quantiles, probabilities...)
		return nil
	}}
}

// Event adds the probability of an event such as "t2m>273.15" or "t2m<0 degC" to the
// products. For Predict.
func Event(question string) Option {
	return Option{"Event", func(o *options) error {
		q, err := ensemble.ParseVariableEvent(question)
		if err != nil {
			return &exit.Error{Code: exit.Usage, What: err.Error(), At: "Event", Fix: `write it as "t2m>273.15"`}
		}
		o.publish.Probabilities = append(o.publish.Probabilities, q)
		return nil
	}}
}

// Metrics names the scores, by the ids that `ensemble scores` lists; "all" and "default"
// stand for several. For Score and Verify.
func Metrics(ids ...string) Option {
	return Option{"Metrics", func(o *options) error { o.scoreSelection.Scores = append(o.scoreSelection.Scores, ids...); return nil }}
}

// Above adds scores of the events that a variable exceeds thresholds: "t=273.15,280", in
// SI. For Score and Verify.
func Above(thresholds ...string) Option {
	return Option{"Above", func(o *options) error {
		o.scoreSelection.Thresholds = append(o.scoreSelection.Thresholds, thresholds...)
		return nil
	}}
}

// Since leaves out starts before a date such as "2001-11-01". For Verify.
func Since(date string) Option {
	return Option{"Since", func(o *options) error {
		d, err := config.ParseDate(date)
		if err != nil {
			return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%q is no date", date), At: "Since", Fix: `write it as "2001-11-01"`}
		}
		o.since = &d
		return nil
	}}
}

// applyOptions joins options of a call that takes those with the given names.
//
// Errors: exit 64 for an option that it does not take; those of the options.
func applyOptions(call string, opts []Option, takes ...string) (options, error) {
	var o options
	for _, opt := range opts {
		if opt.apply == nil || !slices.Contains(takes, opt.name) {
			return o, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s does not take the option %s", call, opt.name),
				Fix: "leave it out; " + call + " takes " + strings.Join(takes, ", ")}
		}
		if err := opt.apply(&o); err != nil {
			return o, err
		}
	}
	return o, nil
}

// variableLevel is a variable at a level; on many levels if the level is not said.
type variableLevel struct {
	variable string
	level    *ensemble.Level
}

// String is the place as parseVariable reads it.
func (p variableLevel) String() string {
	if p.level == nil {
		return p.variable
	}
	return p.variable + "@" + p.level.String()
}

// parseVariable reads "t2m", "t", "t850" (hPa) and "t@850hPa".
//
// Errors: exit 64 for anything else.
func parseVariable(text string) (variableLevel, error) {
	bad := func(why string) (variableLevel, error) {
		return variableLevel{}, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%q is no variable", text), Why: why,
			Fix: `write "t2m", "t850", "t@850hPa", or "t" for all levels; ds.Show() lists the variables`}
	}
	name, at, found := strings.Cut(text, "@")
	if !found {
		if v, known := ensemble.VariableNamed(ensemble.ShortName(name)); known {
			if v.OnManyLevels() {
				return variableLevel{variable: v.Name}, nil
			}
			return variableLevel{v.Name, &v.Level}, nil
		}
		letters := strings.TrimRight(name, "0123456789")
		hPa, err := strconv.Atoi(name[len(letters):])
		v, known := ensemble.VariableNamed(ensemble.ShortName(letters))
		if err != nil || !known || !v.OnManyLevels() || hPa == 0 {
			return bad("neither its name nor its level is known")
		}
		level := ensemble.PressureLevel(float64(hPa))
		return variableLevel{v.Name, &level}, nil
	}
	v, known := ensemble.VariableNamed(ensemble.ShortName(name))
	if !known {
		return bad("its name is not known")
	}
	level, err := ensemble.ParseLevel(at)
	if err != nil {
		return bad(err.Error())
	}
	return variableLevel{v.Name, &level}, nil
}
