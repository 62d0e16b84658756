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

// Run is a finished training.
type Run struct {
	Dir  string // the run directory, for `ensemble report` and others
	data *Dataset
	err  error
}

// Err returns the error of a training that MustTrain could not finish in a declaration, or nil. The other methods
// return or store this error.
func (r *Run) Err() error { return r.err }

func (r *Run) setErr(err error) { r.err = err }

// Train trains a network on a dataset. A finished run with the same name, files and options is
// reused, and an interrupted run is continued.
//
// The defaults follow from the dataset: all variables, all common pressure levels, all lead times,
// half of the members. The first 70 % of the initialisation times are the training period, the
// next 10 % the validation period, the last 20 % the test period. With analyses the network
// predicts the distribution of the analysis, without them the spread of the full ensemble. Accepts
// Lead, Set, Small, Target, TrainFrom, ValidateFrom and TestFrom.
//
// Errors: 64 for options that do not fit the data, 65 and 66 for the data, 73 and 74 for the
// folder, 75 after an interruption.
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

// locate returns the run of a training and its configuration. The name of the run directory
// contains a checksum of the files, the configuration and the version.
func (d *Dataset) locate(name string, opts []Option) (*Run, *config.TrainConfig, error) {
	if d.err != nil {
		return nil, nil, d.err
	}
	o, err := applyOptions("Train", opts, slices.Concat([]string{"Lead", "Set", "Small", "Target"}, splitOptions[:])...)
	if err != nil {
		return nil, nil, err
	}
	c, err := d.configure(name, o)
	if err != nil {
		return nil, nil, err
	}
	cacheDir := ""
	if d.cached {
		cacheDir = d.cacheDir()
	}
	sums, err := checksums(slices.Concat(d.files, d.analyses), cacheDir)
	if err != nil {
		return nil, nil, err
	}
	return &Run{filepath.Join(d.folder, name+"-"+contentKey(append(sums, version.String(), c.Identity())...)), d, nil}, c, nil
}

// MustTrain calls Train and ends the cell on an error.
func MustTrain(name string, d *Dataset, opts ...Option) *Run { return must(Train(name, d, opts...)) }

var runName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// configure writes the configuration file of a training for `ensemble train`, and loads it.
func (d *Dataset) configure(name string, o options) (*config.TrainConfig, error) {
	if !runName.MatchString(name) {
		return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("invalid name %q of a run", name), Fix: "use letters, digits, dots, dashes and underscores"}
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

// yaml returns the configuration of a training in YAML.
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
		return "", &exit.Error{Code: exit.Usage, What: "lead time not in the files", At: "Lead", Why: "the files have " + joinValues(d.summary.Leads), Fix: "choose one of these"}
	}
	if i := slices.Index(o.periods[:], period{}); i >= 0 && o.periods != [3]period{} {
		return "", &exit.Error{Code: exit.Usage, What: "a split by dates needs three periods", At: "Train", Why: splitOptions[i] + " is missing", Fix: "state TrainFrom, ValidateFrom and TestFrom"}
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
	b.WriteString(o.split())
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

// split returns data.split in YAML, or nothing for fractions.
func (o *options) split() string {
	if o.periods == [3]period{} {
		return ""
	}
	var b strings.Builder
	b.WriteString("  split:\n")
	for i, name := range []string{"train", "validation", "test"} {
		fmt.Fprintf(&b, "    %s: {from: %s, to: %s}\n", name, o.periods[i].from, o.periods[i].to)
	}
	return b.String()
}

// axes returns the levels and the variables of the network input: the variables on pressure levels
// if a target is on pressure levels, else the single-level variables.
func (d *Dataset) axes(targets []string) (levels []ensemble.Level, variables []string, err error) {
	many := map[bool]bool{} // key: whether the variable is on many levels
	for _, text := range targets {
		p, err := parseVariable(text)
		if err != nil {
			return nil, nil, err
		}
		v, _ := ensemble.VariableNamed(p.variable)
		many[v.OnManyLevels()] = true
	}
	if len(many) == 2 {
		return nil, nil, &exit.Error{Code: exit.Usage, What: "targets on pressure levels and single-level targets cannot be combined", At: strings.Join(targets, ", "),
			Why: "a network has one level axis", Fix: "train one run for each kind"}
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
		return nil, nil, &exit.Error{Code: exit.BadData, What: "no usable variables in the files", At: d.files[0],
			Why: "the files have " + d.describeVariables(), Fix: "open files with ensemble members of known variables on common levels"}
	}
	return levels, variables, nil
}

func (v variableSummary) onPressure() bool {
	known, _ := ensemble.VariableNamed(v.Name)
	return known.OnManyLevels()
}

// targets returns the entries of data.targets in YAML.
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
			return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("target %s not in the files", p), Why: "the files have " + d.describeVariables(),
				Fix: "choose one of these, for example t2m, t850 or t@850hPa"}
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
		return "no ensemble members"
	}
	return strings.Join(out, "; ")
}

// joinValues formats values as the elements of a YAML sequence.
func joinValues[T fmt.Stringer](v []T) string {
	s := make([]string, len(v))
	for i, x := range v {
		s[i] = x.String()
	}
	return strings.Join(s, ", ")
}

// yamlPaths formats paths as a YAML sequence. Pattern characters in names are escaped.
func yamlPaths(paths []string) string {
	var b strings.Builder
	for _, p := range paths {
		fmt.Fprintf(&b, "\n    - %s", strconv.Quote(escapePattern.Replace(p)))
	}
	return b.String()
}

// escapePattern escapes the pattern characters of a path.
var escapePattern = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// Loss draws the training and validation losses over the epochs.
func (r *Run) Loss() *Picture {
	if r.err != nil {
		return &Picture{err: r.err}
	}
	charts, err := reports.LossCharts(r.Dir)
	if err != nil {
		return &Picture{err: err}
	}
	if len(charts) == 0 {
		return &Picture{err: &exit.Error{Code: exit.NotYet, What: "the training has no losses", At: r.Dir, Fix: "train with train.epochs above 0"}}
	}
	return chartOf(&charts[0])
}

// Scores returns the scores of the test period of the training.
func (r *Run) Scores() *Scores {
	if r.err != nil {
		return &Scores{err: r.err}
	}
	s, err := trained.ReadScores(r.Dir)
	return &Scores{result: s, dir: r.Dir, err: err}
}

// Report writes the HTML page of `ensemble report` and returns its path.
//
// Errors: 73 and 74 for the page.
func (r *Run) Report() (string, error) {
	if r.err != nil {
		return "", r.err
	}
	return reports.Write(reports.Options{Dir: r.Dir})
}
