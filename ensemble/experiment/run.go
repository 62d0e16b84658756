// Package experiment runs reproducible trainings (experiment.yaml) and records their inputs, results
// and machine. It reproduces records, trains variants of a configuration (studies), and compares
// runs.
package experiment

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/config/experimentfile"
	"github.com/ensemble-weather/ensemble/ensemble/record"
	"github.com/ensemble-weather/ensemble/ensemble/run/optimum"
	"github.com/ensemble-weather/ensemble/ensemble/run/periods"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/ensemble/run/reports"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/quality"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/dirglob"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// Options selects the experiment, its data and the output directory.
type Options struct {
	Experiment *experimentfile.Config
	Dir        string // output directory
	Data       string // data directory; "": $ENSEMBLE_DATA/NAME, or data.folder
	Fetch      bool   // download missing files from their URLs
	Threads    int    // 0: those of the experiment
	Overwrite  bool   // replace runs of other versions or settings
	MLLog      bool   // log the time of each training to the target quality
	ToQuality  bool   // train to the target quality only, and measure that time
	Version    string
	Stop       func() error
	Timings    setup.Timings
	Progress   *progress.Reporter
	Warn       func(string)

	client *http.Client // nil: httpClient
	data   *dataset     // found already; nil: not yet
}

// Result is the record of an experiment.
type Result struct {
	Record  *record.Record
	Path    string          // path of the record
	Optimum *optimum.Result // of an experiment with an oracle; else nil
}

// Run runs an experiment: it finds or generates the data and checks their checksums, trains each
// variant with each seed, compares scores with the expected ones, and writes a record. Finished
// steps are not repeated.
//
// Errors: exit 65 and 66 for the data; those of train.Run. A failed check is no error, but is in the
// record.
func Run(ctx context.Context, o Options) (*Result, error) {
	c := o.Experiment
	res := &Result{Path: filepath.Join(o.Dir, record.File)}
	if o.ToQuality {
		res.Path = filepath.Join(o.Dir, record.QualityFile)
	}
	r := &record.Record{Experiment: c.Name, Title: c.Title, Start: time.Now().UTC().Truncate(time.Second)}
	var err error
	if r.Sources, err = o.sources(); err != nil {
		return nil, err
	}
	if (o.MLLog || o.ToQuality) && c.Quality.Target == 0 {
		return nil, &exit.Error{Code: exit.Usage, What: "experiment " + c.Name + " has no target quality", At: c.Path, Fix: "add `quality: {target: …}`, a validation loss"}
	}
	if err := o.open(ctx); err != nil {
		return nil, err
	}
	r.Data = o.data.record
	if o.ToQuality {
		err = o.timeToQuality(ctx, r, o.data)
	} else {
		err = o.trainAll(ctx, r, o.data)
	}
	if err != nil {
		return nil, err
	}
	if r.Outputs, err = studyOutputs(o.Dir); err != nil {
		return nil, err
	}
	if o.data.oracle != nil && !o.ToQuality {
		if res.Optimum, err = o.compareWithOracle(ctx, r); err != nil {
			return nil, err
		}
	}
	r.Status = record.Pass
	if slices.ContainsFunc(r.Checks, func(c record.Check) bool { return !c.Pass }) || slices.ContainsFunc(r.Quality, func(q record.TimeToQuality) bool { return q.Why != "" }) {
		r.Status = record.Fail
	}
	if r.Periods != nil {
		if err := savePeriods(o.Dir, r); err != nil {
			return nil, err
		}
	}
	r.End = time.Now().UTC().Truncate(time.Second)
	if err := r.Write(res.Path); err != nil {
		return nil, err
	}
	res.Record, err = record.Read(res.Path) // with numbers rounded as in the file, for comparisons
	return res, err
}

// open checks the settings of all trainings, creates the output directory, and finds the data.
//
// Errors: those of training and prepareData.
func (o *Options) open(ctx context.Context) (err error) {
	if o.Threads == 0 {
		o.Threads = o.Experiment.Threads
	}
	if o.client == nil {
		o.client = httpClient
	}
	if o.data != nil {
		return nil
	}
	for _, t := range trainings(o.Experiment) { // report faults in settings before any work
		if _, err := o.training("/", t); err != nil {
			return err
		}
	}
	if err := filesystem.MkdirAll(o.Dir, 0o777); err != nil {
		return exit.CreateError(o.Dir, err)
	}
	o.data, err = o.prepareData(ctx)
	return err
}

// trainAll trains all variants with all seeds and adds the results to a record.
func (o *Options) trainAll(ctx context.Context, r *record.Record, d *dataset) (err error) {
	c := o.Experiment
	if err := o.checkOrigins(ctx, d); err != nil {
		return err
	}
	if err := o.checkOracle(ctx, d); err != nil {
		return err
	}
	var results []*score.Result
	for _, t := range trainings(c) {
		tc, err := o.training(d.folder, t)
		if err != nil {
			return err
		}
		run, scores, err := o.train(ctx, tc, t, d)
		if err != nil {
			return err
		}
		r.Runs, results = append(r.Runs, *run), append(results, scores)
		if len(r.Runs) == 1 {
			r.Machine = machineRecord(ctx, o.Version, tc.Train.Train.Device, o.Threads)
		}
	}
	if c.Origins.Periods > 0 {
		if err := o.addPeriods(ctx, r, results); err != nil {
			return err
		}
	}
	if o.MLLog {
		if r.Quality, err = o.timesToQuality(c.Seeds, o.mllogPath); err != nil {
			return err
		}
	}
	if r.Runs[0].Products, err = o.products(ctx, d); err != nil {
		return err
	}
	r.Checks = checksOf(c, r.Runs, results)
	return nil
}

// sources returns the file of the experiment, as experiment.yaml whatever its name, and the training configuration, with checksums.
func (o *Options) sources() (out []record.Source, err error) {
	e := o.Experiment
	for _, s := range []struct{ name, path string }{{experimentfile.FileName, e.Path}, {e.Config, filepath.Join(e.Dir(), e.Config)}} {
		text, err := filesystem.ReadFile(s.path)
		if err != nil {
			return nil, exit.ReadError(s.path, err)
		}
		out = append(out, record.Source{Name: s.name, SHA256: record.Digest(string(text)), Text: string(text)})
	}
	return out, nil
}

// training returns the configuration of one training on the files of a directory. Environment
// variables have no effect.
//
// Errors: those of config.LoadTrain and Origins.Splits; exit 64 if it reads other files than the data.
func (o *Options) training(folder string, t training) (*config.TrainConfig, error) {
	c, err := o.load(folder, t)
	if err != nil || t.origin == "" {
		return c, err
	}
	parts, err := o.Experiment.Origins.Splits(c)
	if err != nil {
		return nil, err
	}
	return o.load(folder, t, splitKeys(parts[slices.Index(o.Experiment.Origins.Names(), t.origin)])...)
}

// load loads the configuration of one training with additional overrides.
func (o *Options) load(folder string, t training, more ...string) (*config.TrainConfig, error) {
	e := o.Experiment
	set := slices.Concat(e.Set, t.variant.Set, more, []string{fmt.Sprintf("train.seed=%d", t.seed), fmt.Sprintf("train.threads=%d", o.Threads), "data.forecasts=" + quotedPatterns(folder, e.Data.Forecasts)})
	if e.Data.Analyses != nil {
		set = append(set, "data.analyses="+quotedPatterns(folder, e.Data.Analyses))
	}
	if t.variant.Auxiliary != nil {
		set = append(set, auxiliaryKey+"="+quotedPatterns(folder, t.variant.Auxiliary))
	}
	if t.variant.Store != "" {
		set = append(set, storeKey+"="+config.Quote(filepath.Join(folder, t.variant.Store)))
	}
	sources := config.Sources{Files: []string{filepath.Join(e.Dir(), e.Config)}, Set: set, IgnoreEnvironment: true}
	c, err := config.LoadTrain(sources)
	if err != nil {
		return nil, err
	}
	key, auxiliary, store := otherInput(c), e.AuxiliaryOf(t.variant), e.StoreOf(t.variant)
	fix := "remove the key"
	for _, own := range []struct {
		key, list     string
		given, listed bool
		value         string
	}{{auxiliaryKey, "auxiliary", c.Data.Auxiliary.Files != nil, auxiliary != nil, quotedPatterns(folder, auxiliary)},
		{storeKey, "store", c.Data.Store != "", store != "", config.Quote(filepath.Join(folder, store))}} {
		switch {
		case own.given && own.listed:
			sources.Set = append(sources.Set, own.key+"="+own.value)
		case own.given:
			key, fix = own.key, "list them in "+experimentfile.FileName+", as data."+own.list+", or remove the key"
		}
	}
	if key != "" {
		return nil, &exit.Error{Code: exit.Usage, What: "the training reads files that the experiment does not list", At: e.Config + ", " + key,
			Why: "the record could not be reproduced", Fix: fix}
	}
	return config.LoadTrain(sources)
}

// Keys of the static fields and of the sample store of a training.
const auxiliaryKey, storeKey = "data.auxiliary.files", "data.store"

// otherInput is a key by which a training reads other files than forecasts, analyses, static fields and a sample store; "": none.
func otherInput(c *config.TrainConfig) string {
	for _, other := range []struct {
		key   string
		given bool
	}{{"climate.file", c.Climate.File != ""},
		{"model.pretrained", c.Model.Pretrained != ""}, {"model.channels_from", c.Model.ChannelsFrom != ""}, {"teacher.runs", c.Teacher.Runs != nil},
		{"train.exchange.replay", c.Train.Train.Exchange.Replay != ""}, {"train.machine", c.Train.Train.Machine != ""}} {
		if other.given {
			return other.key
		}
	}
	return ""
}

// quotedPatterns formats patterns relative to folder as a YAML list.
func quotedPatterns(folder string, patterns []string) string {
	paths := make([]string, len(patterns))
	for i, p := range patterns {
		paths[i] = filepath.Join(folder, p)
	}
	return quotedList(paths)
}

// train does one training, or returns the result of the finished run.
//
// Errors: those of train.Run; exit 66 if no initialisation lies in the test period of an origin.
func (o *Options) train(ctx context.Context, c *config.TrainConfig, of training, d *dataset) (*record.Run, *score.Result, error) {
	dir := filepath.Join(o.Dir, of.dir())
	if err := o.checkSameMachine(ctx, dir, c.Train.Train.Device); err != nil {
		return nil, nil, err
	}
	t := train.Options{Config: c, RunDir: dir, Resume: "auto", Overwrite: o.Overwrite, Version: o.Version, Stop: o.Stop, Timings: o.Timings, Progress: o.Progress, Warn: o.Warn}
	if err := o.enableTiming(&t, of.variant.Name, of.seed); err != nil {
		return nil, nil, err
	}
	if t.Timing == (quality.Options{}) {
		t.Baselines = o.fittedBaselines(of)
	}
	if _, err := train.Run(ctx, t); err != nil {
		return nil, nil, err
	}
	m, err := rundir.ReadManifest(dir)
	if err != nil {
		return nil, nil, err
	}
	if tested, _ := m.Details["inits_test"].(float64); of.origin != "" && tested == 0 {
		return nil, nil, emptyPeriod(of.origin, c)
	}
	scores, err := trained.ReadScores(dir)
	if err != nil {
		return nil, nil, err
	}
	folder, err := filesystem.Absolute("", d.folder)
	if err != nil {
		return nil, nil, err
	}
	run := &record.Run{Variant: of.variant.Name, Origin: of.origin, Seed: of.seed, Config: strings.ReplaceAll(string(c.YAML()), folder, "${"+DataVariable+"}"),
		Outputs: m.Outputs, Scores: scoreRecords(scores), Seconds: m.End.Sub(m.Start).Seconds()}
	if steps, ok := m.Details["steps"].(float64); ok {
		run.Steps = uint64(steps)
	}
	if run.Checkpoint, err = lastCheckpoint(filepath.Join(dir, "checkpoints")); err != nil {
		return nil, nil, err
	}
	return run, scores, nil
}

// fittedBaselines is the run directory of an earlier seed of a training, whose baselines are the same; "" if there is none
// without warnings, which the next seed would lack.
func (o *Options) fittedBaselines(of training) string {
	for _, seed := range o.Experiment.Seeds[:slices.Index(o.Experiment.Seeds, of.seed)] {
		dir := filepath.Join(o.Dir, training{of.variant, of.origin, seed}.dir())
		if m, err := rundir.ReadManifest(dir); err == nil && m.Version == o.Version && len(m.Warnings) == 0 {
			return dir
		}
	}
	return ""
}

// lastCheckpoint returns the checksums of the tensor files of the newest checkpoint, without its
// index, which contains the program version.
func lastCheckpoint(root string) ([]manifest.File, error) {
	step, ok := ckpt.Latest(root)
	if !ok {
		return nil, nil
	}
	dir := filepath.Join(root, ckpt.Name(step))
	parts, err := dirglob.In(dir, "*.st")
	if err != nil {
		return nil, err
	}
	for i := range parts {
		parts[i] = filepath.Base(parts[i])
	}
	return manifest.SumBelow(dir, parts)
}

// scoreRecords selects the scores for the whole area and all seasons: all scores of the network, and the
// CRPS of other systems.
func scoreRecords(r *score.Result) (out []record.Score) {
	for _, v := range r.Scores {
		ofEvent := v.Threshold == v.Threshold
		if !score.IsOverall(v.Region, v.Season) || ofEvent || v.System != scoring.SystemNetwork && !strings.HasPrefix(v.ID, "crps") {
			continue
		}
		out = append(out, record.Score{ID: v.ID, System: v.System, Variable: v.Variable, Level: v.Level, Lead: v.Lead, Unit: v.Unit, N: v.N, Value: v.Value, CILow: v.CILow, CIHigh: v.CIHigh})
	}
	return out
}

// products predicts the initialisations of the key products with the first training.
func (o *Options) products(ctx context.Context, d *dataset) ([]manifest.File, error) {
	e := o.Experiment
	if e.Products == nil {
		return nil, nil
	}
	out, runDir := filepath.Join(o.Dir, "products"), filepath.Join(o.Dir, trainings(e)[0].dir())
	var input []string
	for _, p := range e.Data.Forecasts {
		input = append(input, filepath.Join(d.folder, p))
	}
	var made []string
	for _, text := range e.Products {
		start, err := config.ParseDate(text)
		if err != nil {
			return nil, err
		}
		if _, err := predict.Run(ctx, predict.Options{RunDir: runDir, Input: input, Init: start.Time, Out: out, Formats: []product.Format{product.NetCDF}, Overwrite: product.OverwriteAlways,
			Threads: o.Threads, Command: "ensemble experiment run " + e.Name, Version: o.Version, Created: start.Time, Timings: o.Timings, Progress: o.Progress}); err != nil { // a record has no time of its own
			return nil, err
		}
		files, err := dirglob.In(out, ensemble.InitAt(start.Time).Format("2006010215")+"*/*.nc")
		if err != nil {
			return nil, err
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("no products of %s in %s", text, out)
		}
		for _, f := range files {
			name, err := filepath.Rel(out, f)
			if err != nil {
				return nil, err
			}
			made = append(made, name)
		}
	}
	return manifest.SumBelow(out, made)
}

// checksOf compares scores and skill scores with the expected ones.
func checksOf(e *experimentfile.Config, runs []record.Run, results []*score.Result) (out []record.Check) {
	bound := func(v float64) score.Number {
		if v == 0 {
			return score.Missing()
		}
		return score.Number(v)
	}
	for _, x := range e.Scores {
		c := record.Check{Variant: x.Variant, Score: x.Score, System: x.System, Variable: x.Variable, Level: x.Level.ForVariable(x.Variable).String(), Lead: x.Lead.String(),
			Expected: score.Missing(), Tolerance: x.Tolerance, AtMost: bound(x.AtMost), AtLeast: bound(x.AtLeast), Low: score.Missing()}
		if x.Tolerance > 0 {
			c.Expected = score.Number(x.Value)
		}
		for i, r := range results {
			if runs[i].Variant != x.Variant {
				continue
			}
			v := r.Find(c.Score, c.System, c.Variable, c.Level, c.Lead)
			if v == nil {
				c.Values = append(c.Values, score.Missing())
				continue
			}
			c.Values, c.Unit = append(c.Values, v.Value), v.Unit
		}
		c.Evaluate()
		out = append(out, c)
	}
	for _, x := range e.SkillScores {
		c := record.Check{Variant: x.Variant, Score: x.Score, System: x.System, Reference: x.Reference, ReferenceScore: x.ReferenceScore, Variable: x.Variable, Level: x.Level.ForVariable(x.Variable).String(),
			Lead: x.Lead.String(), Expected: score.Missing(), AtMost: score.Missing(), AtLeast: score.Number(x.AtLeast), Low: score.Missing()}
		if c.ReferenceScore == "" {
			c.ReferenceScore = c.Score
		}
		for i, r := range results {
			if runs[i].Variant != x.Variant {
				continue
			}
			at := slices.IndexFunc(r.Comparisons, func(g score.Comparison) bool {
				return g.ID == c.Score && g.System == c.System && g.Reference == c.Reference && g.ReferenceID == c.ReferenceScore &&
					g.Variable == c.Variable && g.Level == c.Level && g.Lead == c.Lead && score.IsOverall(g.Region, g.Season)
			})
			if at < 0 {
				c.Values = append(c.Values, score.Missing())
				continue
			}
			g := r.Comparisons[at]
			c.Values = append(c.Values, g.SkillScore)
			if c.Low != c.Low || g.CILow < c.Low || g.CILow != g.CILow {
				c.Low = g.CILow
			}
		}
		c.Evaluate()
		out = append(out, c)
	}
	return out
}

// Outputs lists the record, of an experiment with origins the tables and the page of its test periods, and of one with an
// oracle the table and the page of the shares.
func (r *Result) Outputs() []string {
	dir := filepath.Dir(r.Path)
	if r.Optimum != nil {
		return []string{filepath.Join(dir, optimumTable), filepath.Join(dir, "report", reports.PageFile), r.Path}
	}
	if r.Record.Periods == nil {
		return []string{r.Path}
	}
	return []string{filepath.Join(dir, periods.Files[0]), filepath.Join(dir, periods.Files[1]), filepath.Join(dir, "report", reports.PageFile), r.Path}
}

// Passed reports whether all checks passed.
func (r *Result) Passed() bool { return r.Record.Status == record.Pass }

// fiveDigits is the format of scores and times in tables.
const fiveDigits = "%.5g"

// Sections is the result as tables: checks, times to quality, path of the record.
func (r *Result) Sections() answer.Sections {
	var all answer.Sections
	s := answer.Section{Columns: slices.Concat(answer.TextColumns("check"), answer.NumberColumns(fiveDigits, "value"), answer.TextColumns("unit"), answer.NumberColumns(fiveDigits, "expected", "± tolerance", "at least", "at most"),
		answer.NumberColumns("", "trainings"), answer.TextColumns(""))}
	for i := range r.Record.Checks {
		c := &r.Record.Checks[i]
		var tolerance any
		if c.Tolerance > 0 {
			tolerance = c.Tolerance
		}
		verdict := "pass"
		if !c.Pass {
			verdict = "FAIL: " + c.Why
		}
		s.Rows = append(s.Rows, []any{c.Label(), c.Value, c.Unit, c.Expected, tolerance, c.AtLeast, c.AtMost, len(c.Values), verdict})
	}
	if s.Rows != nil {
		all = append(all, s)
	}
	if r.Optimum != nil {
		all = append(all, r.Optimum.Sections()...)
	}
	skill := periods.Skill{Periods: r.Record.Periods, Trends: r.Record.Trends}
	all = append(append(all, timeTables(r.Record.Quality)...), skill.Sections(seedNotes(seedsOf(r.Record))...)...)
	return append(all, answer.Section{Text: r.Outputs()})
}
