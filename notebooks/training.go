package notebooks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/reports"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/internal/version"
)

// Run names a finished training.
type Run struct {
	Dir  string // the run directory, for `ensemble report` and others
	data *Dataset
}

// Train trains a network on a dataset, or finds the run that was trained with this name
// from the same files with the same options. One that was stopped goes on.
//
// What options leave open follows from the dataset: all its variables, on all pressure
// levels that they share, all leads up to the longest, half of the members; the first
// 70 % of the starts are learned from, 10 % are for validation, and the last 20 % judge
// it. With analyses the network gives their distribution, without them the spread of the
// full ensemble. Takes Lead, Set, Small and Target.
//
// Errors: 64 for options that do not fit the data, 65 and 66 for the data, 73 and 74 for
// the folder, 75 after a stop.
func Train(name string, d *Dataset, opts ...Option) (*Run, error) {
	r, c, err := d.locate(name, opts)
	if err != nil {
		return nil, err
	}
	switch _, err := rundir.ReadManifest(r.Dir); {
	case err == nil:
		return r, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	return runJob(func(ctx context.Context, j job) (*Run, error) {
		_, err := train.Run(ctx, train.Options{Config: c, RunDir: r.Dir, Resume: "auto", Version: version.String(),
			Stop: j.flag.Err, Progress: j.progress, Warn: j.warn})
		return r, err
	})
}

// locate finds out where the run of a training is, or will be.
func (d *Dataset) locate(name string, opts []Option) (*Run, *config.TrainConfig, error) {
	o, err := applyOptions("Train", opts, "Lead", "Set", "Small", "Target")
	if err != nil {
		return nil, nil, err
	}
	c, err := d.configure(name, o)
	if err != nil {
		return nil, nil, err
	}
	memory := ""
	if d.cached {
		memory = d.cacheDir()
	}
	sums, err := checksums(slices.Concat(d.files, d.analyses), memory)
	if err != nil {
		return nil, nil, err
	}
	return &Run{filepath.Join(d.folder, name+"-"+contentKey(append(sums, version.String(), c.Identity())...)), d}, c, nil
}

// MustTrain is Train, and ends the cell on an error.
func MustTrain(name string, d *Dataset, opts ...Option) *Run { return must(Train(name, d, opts...)) }

var runName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// configure writes the configuration of a training, which `ensemble train` takes too,
// and loads it.
func (d *Dataset) configure(name string, o options) (*config.TrainConfig, error) {
	if !runName.MatchString(name) {
		return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%q is no name of a run", name), Fix: "use letters, digits, dots, dashes and underscores"}
	}
	text, err := d.yaml(o)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(d.cacheDir(), name+".yaml")
	if err := writeFile(file, []byte(text)); err != nil {
		return nil, err
	}
	return config.LoadTrain(config.Sources{Files: []string{file}, Set: o.set})
}

// yaml is the configuration that the options and the dataset make.
func (d *Dataset) yaml(o options) (string, error) {
	levels, variables, err := d.axes(o.targets)
	if err != nil {
		return "", err
	}
	targets, err := d.targets(o.targets, variables, levels)
	if err != nil {
		return "", err
	}
	leads := slices.Clone(d.summary.Leads)
	if o.leadGiven {
		leads = slices.DeleteFunc(leads, func(l ensemble.Lead) bool { return l > o.lead })
	}
	if len(leads) == 0 || o.leadGiven && !slices.Contains(leads, o.lead) {
		return "", &exit.Error{Code: exit.Usage, What: "the lead is not in the files", At: "Lead", Why: "they have " + joinValues(d.summary.Leads), Fix: "name one of these"}
	}
	members := len(d.summary.Members)
	head := "distribution"
	if d.analyses == nil {
		head = "spread"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "version: 1\ndata:\n  forecasts: %s\n", yamlPaths(d.files))
	if d.analyses != nil {
		fmt.Fprintf(&b, "  analyses: %s\n", yamlPaths(d.analyses))
	}
	if d.cached {
		fmt.Fprintf(&b, "  index_cache: %s\n", strconv.Quote(d.indexDir()))
	}
	fmt.Fprintf(&b, "  members: {use: %d, full: %d}\n  leads: [%s]\n  target_lead: %s\n  levels: [%s]\n  variables: [%s]\n  targets: [%s]\n",
		max(2, members/2), members, joinValues(leads), leads[len(leads)-1], joinValues(levels), strings.Join(variables, ", "), strings.Join(targets, ", "))
	fmt.Fprintf(&b, "model: {head: %s", head)
	if o.small {
		b.WriteString(", base: 8, stages: 2")
	}
	b.WriteString("}\n")
	if o.small {
		b.WriteString("train: {epochs: 8, learning_rate: 0.003, warmup: 10, early_stop: {patience: 0}}\n")
	}
	return b.String(), nil
}

// axes are the levels and variables that the network reads: those on pressure levels if
// a target is one of them, else those that stand at one level each.
func (d *Dataset) axes(targets []string) (levels []ensemble.Level, variables []string, err error) {
	many := map[bool]bool{} // whether variables on many levels, and at one, are asked for
	for _, text := range targets {
		p, err := parseVariable(text)
		if err != nil {
			return nil, nil, err
		}
		v, _ := ensemble.VariableNamed(p.variable)
		many[v.OnManyLevels()] = true
	}
	if len(many) == 2 {
		return nil, nil, &exit.Error{Code: exit.Usage, What: "targets on pressure levels and at one level cannot be mixed", At: strings.Join(targets, ", "),
			Why: "a network has one level axis", Fix: "train one run for each"}
	}
	onPressure := many[true]
	if len(targets) == 0 {
		onPressure = slices.ContainsFunc(d.summary.Variables, variableSummary.onPressure)
	}
	for _, v := range d.summary.Variables {
		if v.onPressure() != onPressure {
			continue
		}
		variables = append(variables, v.Name)
		if !onPressure {
			continue
		}
		if len(variables) == 1 {
			levels = slices.Clone(v.Levels)
		}
		levels = slices.DeleteFunc(levels, func(l ensemble.Level) bool { return !slices.Contains(v.Levels, l) })
	}
	if !onPressure {
		levels = []ensemble.Level{ensemble.SingleLevel}
	}
	if len(variables) == 0 || len(levels) == 0 {
		return nil, nil, &exit.Error{Code: exit.BadData, What: "the files have nothing to learn from", At: d.files[0],
			Why: "they have " + d.describeVariables(), Fix: "open files with ensemble members of variables that the program knows, which share a level"}
	}
	return levels, variables, nil
}

func (v variableSummary) onPressure() bool {
	known, _ := ensemble.VariableNamed(v.Name)
	return known.OnManyLevels()
}

// targets are entries of data.targets.
func (d *Dataset) targets(names, variables []string, levels []ensemble.Level) ([]string, error) {
	if len(names) == 0 {
		names = variables
	}
	at := map[string][]ensemble.Level{}
	var order []string
	for _, name := range names {
		p, err := parseVariable(name)
		if err != nil {
			return nil, err
		}
		wanted := levels
		if p.level != nil && levels[0] != ensemble.SingleLevel {
			wanted = []ensemble.Level{*p.level}
		}
		if !slices.Contains(variables, p.variable) || !slices.ContainsFunc(wanted, func(l ensemble.Level) bool { return slices.Contains(levels, l) }) {
			return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("the target %s is not in the files", p), Why: "they have " + d.describeVariables(),
				Fix: "name one of these, such as t2m, t850 or t@850hPa"}
		}
		if at[p.variable] == nil {
			order = append(order, p.variable)
		}
		for _, l := range wanted {
			if !slices.Contains(at[p.variable], l) {
				at[p.variable] = append(at[p.variable], l)
			}
		}
	}
	var out []string
	for _, v := range order {
		slices.SortFunc(at[v], func(a, b ensemble.Level) int { return slices.Index(levels, a) - slices.Index(levels, b) })
		out = append(out, fmt.Sprintf("{variable: %s, levels: [%s]}", strconv.Quote(v), joinValues(at[v])))
	}
	return out, nil
}

// describeVariables lists the variables with their levels.
func (d *Dataset) describeVariables() string {
	var out []string
	for _, v := range d.summary.Variables {
		out = append(out, v.Name+" at "+joinValues(v.Levels))
	}
	if out == nil {
		return "no members of any variable"
	}
	return strings.Join(out, "; ")
}

// joinValues lists values as a sequence of YAML has them.
func joinValues[T fmt.Stringer](v []T) string {
	s := make([]string, len(v))
	for i, x := range v {
		s[i] = x.String()
	}
	return strings.Join(s, ", ")
}

// yamlPaths lists paths as YAML has them, each on a line: patterns in names are no
// patterns.
func yamlPaths(paths []string) string {
	var b strings.Builder
	for _, p := range paths {
		fmt.Fprintf(&b, "\n    - %s", strconv.Quote(escapePattern.Replace(p)))
	}
	return b.String()
}

// escapePattern makes a path a pattern that only it matches.
var escapePattern = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// Loss draws the losses of the training over its epochs.
func (r *Run) Loss() *Picture {
	charts, err := reports.LossCharts(r.Dir)
	if err != nil {
		return &Picture{err: err}
	}
	if len(charts) == 0 {
		return &Picture{err: &exit.Error{Code: exit.NotYet, What: "the training has no losses", At: r.Dir, Fix: "train it with train.epochs above 0"}}
	}
	return pictureOf(charts[0].Picture())
}

// Scores are those of the starts that the training was judged on.
func (r *Run) Scores() *Scores {
	s, err := trained.ReadScores(r.Dir)
	return &Scores{result: s, err: err}
}

// Report makes the page of `ensemble report` and gives its path.
//
// Errors: 73 and 74 for the page.
func (r *Run) Report() (string, error) { return reports.Write(reports.Options{Dir: r.Dir}) }
