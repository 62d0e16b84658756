package verify

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/run/periods"
	"github.com/ensemble-weather/ensemble/ensemble/run/promote"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/balance"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/internal/version"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/postproc/score"
	"github.com/ensemble-weather/ensemble/postproc/significance"
)

// Reading states how the files of a verification are read. The zero value reads them as they are.
type Reading struct {
	Sparse bool                // missing chunks of Zarr stores are missing values
	Layout config.MemberLayout // how Options.Members are stored
	// Naming states names and units of variables in Options.Analysis and Members, in place of the files and of the training.
	Naming ensemble.Naming
	Regrid task.Interpolation // interpolates members and analyses to the grid of the products
}

// Options are the inputs of [Run]. Forecast and Analysis are required.
type Options struct {
	Forecast []string // products with means and spreads, or calibrated members
	Analysis []string // analyses of their valid times
	Members  []string // raw ensemble of the same initialisations; nil: no scores against it
	Reading
	// RunDir is the training that the products come from, for its baselines. Empty: the baselines that predict
	// saved beside the products.
	RunDir    string
	Out       string                 // folder for scores.json and tables; empty: none
	Selection scoring.Selection      // scores, thresholds, regions, seasons and weights
	Bootstrap significance.Bootstrap // confidence intervals
	By        string                 // year, season or month: also the skill in each, and its trend; "": none
	// Climate is a file of climate quantiles for extreme forecast indices. Empty: the climate of RunDir, if it
	// has one.
	Climate string
	Sums    string // file for the partial sums of all dates, for JoinSums; empty: none
	Fields  string // NetCDF file for scores at each point; empty: none
	Command string // command line, for the history attribute of Fields

	// skip selects products of a target to skip. If it is not nil, products without an analysis are skipped too,
	// and leads are not scored as trajectories.
	skip func(t score.Target, init ensemble.Init) bool
}

// Result is the outcome of a verification.
type Result struct {
	Scores   *score.Result // nil on ranks other than 0
	Outputs  []string      // paths of the written files
	Warnings []string
	All      bool // Sections returns all scores

	by     string
	places *scoring.MapExample // scores by place, for the maps of a report; nil: none
}

// Sections returns the main scores in sentences and one table. With All it returns all scores as tables before.
func (r *Result) Sections() answer.Sections {
	skill := periods.Skill{Periods: r.Scores.Periods, Trends: r.Scores.Trends}
	if r.All {
		return slices.Concat(r.Scores.Sections(), skill.Sections(), r.Scores.Brief("files: --out DIR"))
	}
	more := "all scores: --all, or --out DIR for files"
	if slices.ContainsFunc(r.Scores.Scores, func(v score.Value) bool { return !score.IsOverall(v.Region, v.Season) }) {
		more = "all scores, by region and season too: --all, or --out DIR for files"
	}
	return slices.Concat(r.Scores.Brief(more), skill.Sections())
}

// addPeriods adds the skill in periods to the scores.
func (r *Result) addPeriods(b significance.Bootstrap) error {
	if r.by == "" {
		return nil
	}
	by, err := periods.ParseBy(r.by)
	if err != nil {
		return err
	}
	groups, err := by.Split(r.Scores.Dates)
	if err != nil {
		return err
	}
	skill := periods.Skill{Bootstrap: b}
	if err := skill.Add("", groups, []*score.Result{r.Scores}); err != nil {
		return err
	}
	if r.Scores.Periods, r.Scores.Trends = skill.Periods, skill.Trends; skill.Periods == nil {
		r.Warnings = append(r.Warnings, "no skill by "+r.by+": nothing to compare the products with; give --members, or --run-dir for baselines")
	}
	return nil
}

// ProductKey identifies a verified quantity of a product.
type ProductKey struct {
	Variable string
	Level    ensemble.Level
	Lead     ensemble.Lead
}

// Target is the key as used by package score.
func (k ProductKey) Target() score.Target {
	of, _ := ensemble.VariableNamed(k.Variable)
	return score.Target{Variable: k.Variable, Level: k.Level, Lead: k.Lead, Unit: of.Unit}
}

// target is the target as used by package score; the unit of a variable outside the vocabulary is that of its
// products.
func (t *VerifiedTarget) target() score.Target {
	out := t.Key.Target()
	for _, e := range t.products[t.Inits[0]] {
		if unit, own := ensemble.OwnUnits([]ensemble.Entry{e})[t.Key.Variable]; own {
			out.Unit = unit
		}
	}
	return out
}

// Run scores products against analyses: distributions, or calibrated members, against the analysis of their
// valid time, and estimated spreads against the spread of the full ensemble if its members are given.
//
// Reads: products, analyses, raw members, the baselines of the training, and a climate.
// Writes: in Options.Out scores.json, scores.csv, scores.parquet, dates.parquet, comparisons.parquet,
// diagrams.parquet and report/example.safetensors (scores by place), with Options.By periods.csv and trends.csv; the
// files Options.Sums and Options.Fields.
// Returns: the scores with bootstrap intervals. Raw members and baselines are scored on the same dates and
// points.
//
// Under an MPI launcher initialisations are distributed over the ranks. Rank 0 joins the partial sums in the
// order of dates, so the result has the bits of a single process. Other ranks return no scores.
//
// Errors: exit 64 for an invalid selection of scores or period, or an empty region; 65 for damaged files, grids that
// differ, a mean without its spread, and if no product has an analysis; 66 for missing files; 71 if a rank is
// lost; 73 and 74 for the output.
func Run(ctx context.Context, o Options) (r *Result, err error) {
	if err := o.Selection.Check(); err != nil {
		return nil, err
	}
	if _, err := periods.ParseBy(o.By); err != nil {
		return nil, err
	}
	err = team.RunTeams("", config.DefaultStallTimeout, func(w team.Teams) error {
		r, err = RunRank(ctx, o, w)
		return err
	})
	return r, err
}

// RunRank verifies as one rank of a job.
//
// Errors: as [Run].
func RunRank(ctx context.Context, o Options, w team.Teams) (*Result, error) {
	var err error
	if o.RunDir, _, err = promote.ResolveRunDir(o.RunDir); err != nil {
		return nil, err
	}
	v := &Verification{Options: o, started: time.Now()}
	defer v.Close()
	if err := v.scoreAll(ctx, w); err != nil {
		return nil, err
	}
	res := &Result{Warnings: v.Warnings, by: v.Options.By}
	if w.All.IsRoot() {
		defer progress.Start(ctx, "intervals of scores", 0).Done()
		err := v.publish(ctx, res)
		return res, w.All.AgreeOnError(err)
	}
	return res, w.All.AgreeOnError(nil)
}

// scoreAll opens the files and adds the contributions of all initialisations; the sums are complete on rank 0.
func (v *Verification) scoreAll(ctx context.Context, w team.Teams) error {
	var err error
	if w.All.IsRoot() {
		err = v.Options.checkWritable()
	}
	if err == nil {
		err = v.Open(ctx)
	}
	if err := w.All.AgreeOnError(err); err != nil {
		return err
	}
	compared, err := setup.CompareRanks(w.All, version.String(), false, 0, team.Settings("the files or the command line", v.identity(), v.identity()))
	if err != nil {
		return err
	}
	if compared != nil {
		v.Warnings = append(v.Warnings, compared.Warnings...)
	}
	task := progress.Start(ctx, "verify", int64(len(v.inits)))
	defer task.Done()
	pieces, tasks := v.pieces(w.Groups())
	return team.Distribute(ctx, w, tasks, func(i int) ([][]scoring.DateSums, error) { return v.sumScores(ctx, pieces[i]) }, func(i int, sums [][]scoring.DateSums) error {
		task.Add(int64(len(pieces[i])))
		for i, t := range v.Targets {
			for _, d := range sums[i] {
				if !w.All.IsRoot() { // only rank 0 writes scores by place
					d.Map, d.Field = nil, nil
				}
				if err := t.scoring.Join(d); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// checkWritable reports outputs that cannot be written before any file is read.
func (o Options) checkWritable() error {
	for _, of := range []struct{ path, dir string }{{o.Out, o.Out}, {o.Sums, filepath.Dir(o.Sums)}, {o.Fields, filepath.Dir(o.Fields)}} {
		if of.path == "" {
			continue
		}
		if err := rundir.CheckWritable(of.dir); err != nil {
			return err
		}
	}
	return nil
}

// initsPerBatch is the mean number of initialisations of a rank between two exchanges of results, which limits its memory.
const initsPerBatch = 8

// pieces cuts the initialisations into pieces of about equal numbers of fields. Several dates at a time keep all decoding
// processes busy.
func (v *Verification) pieces(groups int) (pieces [][]ensemble.Init, t team.Tasks) {
	costs := v.fieldCounts()
	rounds := (len(costs) + initsPerBatch*groups - 1) / (initsPerBatch * groups)
	cuts := balance.Contiguous(costs, rounds*groups)
	t.PerExchange = 1
	for k, to := range cuts[1:] {
		if from := cuts[k]; from < to {
			sum := int64(0)
			for _, c := range costs[from:to] {
				sum += c
			}
			pieces, t.Costs = append(pieces, v.inits[from:to]), append(t.Costs, sum)
		}
	}
	return pieces, t
}

// fieldCounts returns the number of fields of products and members that each initialisation needs. Those of analyses are
// about as many as targets.
func (v *Verification) fieldCounts() []int64 {
	counts := map[ensemble.Init]int64{}
	for _, t := range v.Targets {
		for _, init := range t.Inits {
			counts[init] += int64(1 + len(t.products[init]) + len(t.calibrated[init]) + len(t.parameters[init]))
		}
		if t.members == nil {
			continue
		}
		for _, e := range t.members.Entries {
			counts[e.Init]++
		}
	}
	costs := make([]int64, len(v.inits))
	for i, init := range v.inits {
		costs[i] = counts[init]
	}
	return costs
}

// Verification is an open verification: files, targets and their scoring.
type Verification struct {
	Options         Options
	reference       *model.Model  // baselines of the training; nil without
	Climate         *task.Climate // nil without
	Warnings        []string
	pool            *decode.Pool
	products        *fio.Input
	members         *fio.Input // nil without
	analyses        *fio.Input
	Grid            *ensemble.Grid
	Targets         []*VerifiedTarget
	inits           []ensemble.Init // initialisations of all targets, ascending
	withoutAnalysis int             // initialisations skipped because an analysis is missing
	started         time.Time       // for the history attribute of Options.Fields
}

// VerifiedTarget is one target of a verification.
type VerifiedTarget struct {
	Key        ProductKey
	statistic  ensemble.TimeStatistic // of the products over time, completed by that of the analyses
	products   map[ensemble.Init]map[product.Kind]ensemble.Entry
	calibrated map[ensemble.Init][]ensemble.Entry // published members by number; nil unless all initialisations have as many
	Inits      []ensemble.Init                    // ascending
	members    *input.Selection                   // nil without raw members
	analyses   *input.AnalysisSelection
	scoring    *scoring.Scoring
	// earlier are the targets of the same variable and level at earlier leads, with the same initialisations.
	earlier []*VerifiedTarget

	published published
	repeats   map[ensemble.Init][][2]ensemble.Entry // products that occur twice

	Family     *dist.Family // family of the published distribution parameters; nil without: normal
	parameters map[ensemble.Init][]ensemble.Entry
}

// Open opens the files and selects what is scored. The caller calls Close in any case.
//
// Errors: those of fio.Open and of [Run].
func (v *Verification) Open(ctx context.Context) (err error) {
	if v.pool, err = decode.NewPool(decode.Options{}); err != nil {
		return err
	}
	if v.reference, err = findReference(v.Options, &v.Warnings); err != nil {
		return err
	}
	if v.products, err = fio.Open(ctx, v.Options.Forecast, fio.Options{Pool: v.pool, Sparse: v.Options.Sparse}); err != nil {
		return err
	}
	if err := v.selectProducts(); err != nil {
		return err
	}
	if v.Climate, err = findClimate(v.Options, v.Grid); err != nil {
		return err
	}
	if v.analyses, err = fio.Open(ctx, v.Options.Analysis, fio.Options{Pool: v.pool, Sparse: v.Options.Sparse, Naming: v.naming(ensemble.AnalysisFiles)}); err != nil {
		return err
	}
	if v.Options.skip != nil {
		if err := v.dropScored(); err != nil {
			return err
		}
		if len(v.Targets) == 0 {
			return errNothingNew
		}
	}
	for _, t := range v.Targets {
		if t.analyses, err = input.SelectAnalyses(v.analyses, t.analysisRequest(), v.destination()); err != nil {
			return err
		}
		v.warn(t.analyses.Warnings...)
		if s, ok := t.analyses.Statistics[t.Key.Variable]; ok {
			t.statistic = s
		}
	}
	if len(v.Options.Members) > 0 {
		if v.members, err = fio.Open(ctx, v.Options.Members, fio.Options{Pool: v.pool, Sparse: v.Options.Sparse, Members: input.LayoutOf(v.Options.Layout), Naming: v.naming(ensemble.ForecastFiles)}); err != nil {
			return err
		}
		if err := input.CheckUsable(v.members, v.Options.Members); err != nil {
			return err
		}
		if err := input.CheckNaming(v.Options.Naming, "--", v.analyses, v.members); err != nil {
			return err
		}
		if err := v.selectMembers(); err != nil {
			return err
		}
	} else {
		if err := input.CheckNaming(v.Options.Naming, "--", v.analyses); err != nil {
			return err
		}
		v.Warnings = append(v.Warnings, "no --members: the raw ensemble, EMOS, the error of the full ensemble's spread and extreme forecast indices are not scored")
	}
	for _, t := range v.Targets {
		j := v.targetOptions(t.Key)
		j.Target = t.target()
		j.Published = t.published.Published
		j.Family = t.Family
		j.Inits, j.Source, j.KeepSums = t.Inits, score.FromProducts, v.Options.Sums != "" || v.Options.skip != nil
		if j.EveryPoint = v.Options.Fields != ""; v.Options.Out != "" && v.Options.skip == nil {
			j.MapStep = scoring.MapStep(v.Grid, len(v.inits), len(v.Targets))
		}
		if j.Baselines != nil {
			if seen := t.countAmong(j.Baselines.FittedTo); seen > 0 {
				j.Baselines = nil
				v.Warnings = append(v.Warnings, fmt.Sprintf("%s at %s: baselines are not scored, because they were fitted to the analyses of %d of the %d verified initialisations; the network was trained with these too, so its scores are too good",
					t.Key.Variable, t.Key.Level, seen, len(t.Inits)))
			}
		}
		if t.scoring, err = j.Begin(t.shape(v.reference)); err != nil {
			return err
		}
	}
	var all []*scoring.Scoring
	for _, t := range v.Targets {
		all = append(all, t.scoring)
		v.warn(t.scoring.ThresholdWarnings()...)
	}
	v.warn(v.Options.Selection.Unscored(all)...)
	return nil
}

// naming returns what the options, or else the training, state of names and units in files of a scope.
func (v *Verification) naming(scope string) ensemble.Naming {
	base := ensemble.Naming{}
	if v.reference != nil {
		base = v.reference.Naming
	}
	return v.Options.Naming.Over(base).In(scope)
}

// Close closes the files.
func (v *Verification) Close() {
	for _, in := range []*fio.Input{v.products, v.members, v.analyses} {
		if in != nil {
			in.Close()
		}
	}
	if v.pool != nil {
		v.pool.Close()
	}
}

// identity returns what all ranks must agree on.
func (v *Verification) identity() string {
	text := fmt.Sprint(v.Options.Forecast, v.Options.Analysis, v.Options.Members, v.Options.RunDir, v.Options.Regrid, v.Options.Selection, v.Options.Climate, v.Options.Fields != "", v.Options.Out != "", v.inits, v.Warnings)
	for _, t := range v.Targets {
		text += "\n" + fmt.Sprint(t.Key, t.Inits, t.scoring.Shape, t.scoring.Systems)
	}
	return text
}

// destination is the grid of the products, and the interpolation to it: as requested, or as for the network's input.
func (v *Verification) destination() input.Destination {
	to := input.Destination{Grid: v.Grid, How: v.Options.Regrid, Fix: input.FixRegrid}
	if !to.How.IsEnabled() && v.reference != nil {
		to.How = v.reference.Interpolation
	}
	return to
}

// targetOptions returns the scoring options of one target.
func (v *Verification) targetOptions(k ProductKey) scoring.TargetOptions {
	j := scoring.TargetOptions{Target: k.Target(), Grid: v.Grid, DDOF: 1, Bootstrap: v.Options.Bootstrap, Selection: v.Options.Selection}
	if v.reference != nil {
		j.DDOF, j.Baselines = v.reference.Task.Features.DDOF, BaselinesOf(v.reference, k)
	}
	j.Climate = v.Climate.Find(k.Target())
	return j
}

// shape returns what the first initialisation's case contains.
func (t *VerifiedTarget) shape(reference *model.Model) scoring.Shape {
	have := t.products[t.Inits[0]]
	_, mean := have[product.Mean]
	_, spread := have[product.EnsembleSpread]
	f := scoring.Shape{Mean: mean, Spread: spread, Obs: true, Calibrated: len(t.calibrated[t.Inits[0]]), Earlier: len(t.earlier), PublishedFields: len(t.published.fields[t.Inits[0]])}
	if t.members != nil {
		f.Full = len(t.members.Members)
		f.Used = f.Full
		if reference != nil {
			f.Used = len(reference.Task.UsedMembers)
		}
	}
	return f
}

// analysisRequest returns the analyses that verify the target.
func (t *VerifiedTarget) analysisRequest() input.AnalysisRequest {
	r := input.AnalysisRequest{Variables: []string{t.Key.Variable}, Levels: []ensemble.Level{t.Key.Level}, Valids: t.valids(t.Inits), Derive: true}
	if t.statistic != (ensemble.TimeStatistic{}) {
		r.Statistics = map[string]ensemble.TimeStatistic{t.Key.Variable: t.statistic}
	}
	return r
}

// valids returns the valid times of initialisations.
func (t *VerifiedTarget) valids(inits []ensemble.Init) []ensemble.Valid {
	out := make([]ensemble.Valid, len(inits))
	for i, init := range inits {
		out[i] = init.Valid(t.Key.Lead)
	}
	return out
}

// countAmong counts the initialisations whose valid times are in times, which ascend.
func (t *VerifiedTarget) countAmong(times []time.Time) (n int) {
	for _, v := range t.valids(t.Inits) {
		if _, found := slices.BinarySearchFunc(times, v.Time, time.Time.Compare); found {
			n++
		}
	}
	return n
}

// sumScores reads initialisations and returns what each contributes to the scores of each target.
//
// Shape: [target][initialisation].
func (v *Verification) sumScores(ctx context.Context, inits []ensemble.Init) ([][]scoring.DateSums, error) {
	out := make([][]scoring.DateSums, len(v.Targets))
	earlier := map[ensemble.Init][]*scoring.Case{} // cases of the current variable and level
	for i, t := range v.Targets {
		if len(t.earlier) == 0 {
			clear(earlier)
		}
		cases, err := v.Cases(ctx, t, slices.DeleteFunc(slices.Clone(inits), func(i ensemble.Init) bool { return t.products[i] == nil }))
		if err != nil {
			return out, err
		}
		for n := range cases {
			c := &cases[n]
			if len(t.earlier) > 0 {
				c.EarlierLeads = slices.Clone(earlier[c.Init])
			}
			d, err := t.scoring.Sum(*c)
			if err != nil {
				return out, err
			}
			out[i] = append(out[i], d)
			earlier[c.Init] = append(earlier[c.Init], c)
		}
	}
	return out, nil
}

// Cases reads fields, members and analysis of one target at some initialisations.
func (v *Verification) Cases(ctx context.Context, t *VerifiedTarget, inits []ensemble.Init) ([]scoring.Case, error) {
	if len(inits) == 0 {
		return nil, nil
	}
	cases := make([]scoring.Case, len(inits))
	var entries []ensemble.Entry
	var into []*[]float32
	for i, init := range inits {
		c := &cases[i]
		c.Init = init
		for _, f := range []struct {
			kind product.Kind
			to   *[]float32
		}{{product.Mean, &c.Mean}, {product.Spread, &c.Sigma}, {product.EnsembleSpread, &c.Spread}} {
			if e, ok := t.products[init][f.kind]; ok {
				entries, into = append(entries, e), append(into, f.to)
			}
		}
		c.Parameters = make([][]float32, len(t.parameters[init]))
		for k, e := range t.parameters[init] {
			entries, into = append(entries, e), append(into, &c.Parameters[k])
		}
		c.Published = make([][]float32, len(t.published.fields[init]))
		for k, f := range t.published.fields[init] {
			entries, into = append(entries, f.Entry), append(into, &c.Published[k])
		}
		c.Calibrated = make([][]float32, len(t.calibrated[init]))
		for m, e := range t.calibrated[init] {
			entries, into = append(entries, e), append(into, &c.Calibrated[m])
		}
	}
	if err := v.products.Read(ctx, entries, func(i int, f *ensemble.Field) error { *into[i] = f.Values; return nil }); err != nil {
		return nil, err
	}
	if err := v.compareRepeats(ctx, t, inits); err != nil {
		return nil, err
	}
	for i, init := range inits {
		for k, f := range t.published.fields[init] {
			if f.complement {
				for p, x := range cases[i].Published[k] {
					cases[i].Published[k][p] = 1 - x
				}
			}
		}
	}
	if t.members != nil {
		if err := t.members.CheckDuplicates(ctx, inits, nil); err != nil {
			return nil, err
		}
		raw, _, err := t.members.Read(ctx, inits, nil)
		if err != nil {
			return nil, err
		}
		for i, fc := range raw {
			c := &cases[i]
			for m := range fc.Members {
				c.Members = append(c.Members, fc.Field(0, m, 0, 0))
			}
			c.Used = task.AllMembers(fc)
			if v.reference != nil {
				if c.Used, err = task.MemberPositions(fc, v.reference.Task.UsedMembers); err != nil {
					return nil, err
				}
			}
			for _, m := range c.Used {
				if len(fc.Axes.Leads) > 1 {
					c.LastRead = append(c.LastRead, fc.Field(1, m, 0, 0))
				}
			}
		}
	}
	analyses, _, err := t.analyses.Read(ctx, t.valids(inits), nil)
	if err != nil {
		return nil, err
	}
	for i, a := range analyses {
		cases[i].Obs = a.Field(0, 0)
	}
	return cases, nil
}

// publish computes the scores and writes their files.
func (v *Verification) publish(ctx context.Context, res *Result) error {
	var all []*scoring.Scoring
	for _, t := range v.Targets {
		all = append(all, t.scoring)
	}
	trained := v.trainingCoupling()
	if v.Options.Out != "" {
		res.places = v.places(all)
	}
	if err := publishScores(v.Options.Out, all, trained, v.Options.Bootstrap, res); err != nil {
		return err
	}
	if path := v.Options.Fields; path != "" {
		if err := publishFile(path, func(to string) error { return v.writeFields(ctx, to) }); err != nil {
			return err
		}
		res.Outputs = append(res.Outputs, path)
	}
	return res.publishSums(v.Options.Sums, all, trained)
}

// publishSums writes the sums of several targets; an empty name writes nothing.
func (r *Result) publishSums(path string, all []*scoring.Scoring, finished []score.Coupling) error {
	if path == "" {
		return nil
	}
	r.Outputs = append(r.Outputs, path)
	return publishFile(path, func(to string) error { return scoring.SaveSums(to, all, finished) })
}

// scoreFiles are the files that publishScores writes, without those of periods.
var scoreFiles = []string{trained.ScoresFile, trained.ScoresTable, trained.DatesTable, scoring.ScoresCSV, scoring.ComparisonsTable, scoring.DiagramsTable}

// publishScores computes the results of several targets, adds the coupling tests of the training, and writes
// them into a folder; an empty name writes nothing. It holds the lease of the folder while it writes.
//
// Errors: also exit 73 if another process writes to the folder.
func publishScores(out string, all []*scoring.Scoring, finished []score.Coupling, b significance.Bootstrap, res *Result) (err error) {
	res.Scores = &score.Result{}
	for _, s := range all {
		empty, dates := s.EmptyDates()
		what := fmt.Sprintf("%s at %s, lead %s", s.Target.Variable, s.Target.Level, s.Target.Lead)
		switch {
		case empty == dates && dates > 0:
			return &exit.Error{Code: exit.BadData, What: "nothing to score: no point has both forecast and reference", At: what,
				Why: fmt.Sprintf("all values of the products, the members or the analyses are missing on all %d dates", dates), Fix: "give other dates, or files with values"}
		case empty > 0:
			res.Warnings = append(res.Warnings, fmt.Sprintf("%s: %d of %d dates have no point with both forecast and reference: they are left out", what, empty, dates))
		}
		r, err := s.Result()
		if err != nil {
			return err
		}
		res.Scores.Append(r)
	}
	res.Scores.Coupling = append(res.Scores.Coupling, finished...)
	if err := res.addPeriods(b); err != nil || out == "" {
		return err
	}
	if err := atomicfile.MkdirAll(out, 0o755); err != nil {
		return exit.CreateError(out, err)
	}
	lease, err := rundir.TakeLease(out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lease.Release()) }()
	return lease.Guard(func() error { return res.write(out) })
}

// write writes the results into a folder whose lease this process holds, and removes what a killed process has left of the
// same files.
func (r *Result) write(out string) error {
	if err := atomicfile.RemoveTemporary(out, slices.Concat(scoreFiles, periods.Files)...); err != nil {
		return exit.CreateError(out, err)
	}
	if err := trained.WriteScores(out, r.Scores); err != nil {
		return err
	}
	places := filepath.Join(out, scoring.ExampleFile) // of an earlier verification
	if err := filesystem.RemoveAll(places); err != nil {
		return exit.CreateError(places, err)
	}
	tables, err := scoring.WriteTables(out, r.Scores)
	if r.Outputs = append([]string{filepath.Join(out, trained.ScoresFile), filepath.Join(out, trained.ScoresTable), filepath.Join(out, trained.DatesTable)}, tables...); err != nil {
		return err
	}
	if r.Scores.Periods != nil {
		for _, name := range periods.Files {
			r.Outputs = append(r.Outputs, filepath.Join(out, name))
		}
		skill := periods.Skill{Periods: r.Scores.Periods, Trends: r.Scores.Trends}
		if err := skill.Save(out); err != nil {
			return err
		}
	}
	if r.places == nil {
		return nil
	}
	r.Outputs = append(r.Outputs, places)
	return r.places.Save(out)
}

// findReference loads the model's description and baselines; nil with a warning if there are none with the
// products.
//
// Errors: exit 65 and 66 for Options.RunDir.
func findReference(o Options, warnings *[]string) (*model.Model, error) {
	dirs := []string{filepath.Join(filepath.Dir(filepath.Dir(o.Forecast[0])), trained.ReferenceDir)}
	if o.RunDir != "" {
		dirs = []string{filepath.Join(o.RunDir, "model")}
	}
	for _, dir := range dirs {
		if _, err := filesystem.Stat(filepath.Join(dir, model.File)); err == nil {
			m, _, err := model.LoadDescription(dir)
			return m, err
		} else if o.RunDir != "" {
			_, _, err := model.LoadDescription(dir) // returns the error for what is missing
			return nil, err
		}
	}
	*warnings = append(*warnings, "no baselines found with the products: climatology and EMOS are not scored; give --run-dir of the training")
	return nil, nil
}

// BaselinesOf returns the baselines of a target; nil if the model does not have it.
func BaselinesOf(m *model.Model, k ProductKey) *task.Baselines {
	d := len(m.Task.Features.Axes.Levels)
	v, l := slices.Index(m.Task.Targets, task.Target{Variable: k.Variable, Lead: k.Lead}), ensemble.FindLevel(m.Task.Features.Axes.Levels, k.Variable, k.Level)
	if v < 0 || l < 0 || v*d+l >= len(m.Baselines) {
		return nil
	}
	return &m.Baselines[v*d+l]
}

// leadsFor returns the leads of raw members that a target is scored with: its own and, if the network did not
// read that lead, the last lead that it read.
func leadsFor(m *model.Model, k ProductKey) []ensemble.Lead {
	out := []ensemble.Lead{k.Lead}
	if m == nil {
		return out
	}
	v := slices.Index(m.Task.Targets, task.Target{Variable: k.Variable, Lead: k.Lead})
	if known := m.Task.Features.Axes.Leads; v >= 0 && !slices.Contains(known, k.Lead) {
		out = append(out, known[len(known)-1])
	}
	return out
}

// KindOf distinguishes statistics that share a cell method: the predicted standard deviation and the
// estimated spread of the full ensemble.
func KindOf(e ensemble.Entry) product.Kind {
	switch kind := product.KindOf(e); kind {
	case product.Mean, product.Spread, product.EnsembleSpread:
		return kind
	}
	return ""
}

// selectProducts finds the products by target and initialisation.
func (v *Verification) selectProducts() error {
	byKey := map[ProductKey]*VerifiedTarget{}
	var entries, directions []ensemble.Entry
	all := v.products.Catalogue().Entries
	onGrid := slices.ContainsFunc(all, func(e ensemble.Entry) bool { return KindOf(e) != "" && e.Grid.Kind != ensemble.Points })
	for _, e := range all {
		kind := KindOf(e)
		if kind == "" || onGrid && e.Grid.Kind == ensemble.Points { // products at stations are compared with observations, not with analyses
			continue
		}
		if e.IsDirection() {
			directions = append(directions, e)
			continue
		}
		entries = append(entries, e)
		k := ProductKey{e.Variable, e.Level, e.Lead}
		t := byKey[k]
		if t == nil {
			t = &VerifiedTarget{Key: k, statistic: e.TimeStatistic(), products: map[ensemble.Init]map[product.Kind]ensemble.Entry{}}
			byKey[k] = t
			v.Targets = append(v.Targets, t)
		}
		if s := e.TimeStatistic(); s != t.statistic {
			return input.WindowFault(k.Variable, t.statistic, "the products", s, "the product of "+e.Init.String(), "give products over the same interval").AtEntry(e).AsError()
		}
		if t.products[e.Init] == nil {
			t.products[e.Init] = map[product.Kind]ensemble.Entry{}
			t.Inits = append(t.Inits, e.Init)
		}
		if first, twice := t.products[e.Init][kind]; twice {
			t.repeat(first, e)
		} else {
			t.products[e.Init][kind] = e
		}
	}
	for _, f := range input.DirectionFaults(directions) {
		if len(entries) == 0 {
			return f.AsError()
		}
		v.warn(f.What + ": not scored; " + f.Why)
	}
	if len(entries) == 0 {
		return &exit.Error{Code: exit.BadData, What: "the forecast files contain neither mean nor spread", At: input.FileList(v.products.Files()),
			Why: "verification scores products with mean and spread; raw members are given with --members, probabilities, quantiles and members alone are not scored", Fix: "give the files that `ensemble predict` wrote, with its products mean and spread"}
	}
	var err error
	if v.Grid, err = input.CommonGrid(entries, "give products of one grid"); err != nil {
		return err
	}
	slices.SortFunc(v.Targets, func(a, b *VerifiedTarget) int {
		return scoring.CompareTargets(a.Key.Target(), b.Key.Target())
	})
	ascending := func(a, b ensemble.Init) int { return a.Compare(b.Time) }
	for _, t := range v.Targets {
		slices.SortFunc(t.Inits, ascending)
		v.inits = append(v.inits, t.Inits...)
		for _, init := range t.Inits {
			_, mean := t.products[init][product.Mean]
			if _, sigma := t.products[init][product.Spread]; mean != sigma {
				return &exit.Error{Code: exit.NotYet, What: "a mean without spread, or a spread without mean",
					At: fmt.Sprintf("%s at %s, initialisation %s, lead %s", t.Key.Variable, t.Key.Level, init, t.Key.Lead), Fix: "give all files of the initialisation"}
			}
		}
	}
	slices.SortFunc(v.inits, ascending)
	v.inits = slices.Compact(v.inits)
	var verified []score.Target
	for _, t := range v.Targets {
		verified = append(verified, t.Key.Target())
	}
	if err := v.Options.Selection.CheckEvents(verified); err != nil && v.Options.skip == nil {
		return err
	}
	v.selectCalibrated()
	v.linkEarlierLeads()
	v.selectParameters(all)
	v.selectPublished(all)
	repeats := 0
	for _, t := range v.Targets {
		for _, pairs := range t.repeats {
			repeats += len(pairs)
		}
	}
	v.warn(input.DuplicateWarning(repeats)...)
	return nil
}

// selectParameters finds the parameters of the distributions by target and initialisation. Targets without
// parameters at some initialisation are scored as normal distributions, by mean and spread.
func (v *Verification) selectParameters(all []ensemble.Entry) {
	for _, t := range v.Targets {
		found := map[ensemble.Init]map[string]ensemble.Entry{}
		id := ""
		for _, e := range all {
			variable, name, family, ok := product.ParameterNamed(e.Variable, e.LongName)
			if !ok || variable != t.Key.Variable || e.Lead != t.Key.Lead || !sameLevel(e.Level, t.Key.Level) || !e.Grid.SameAs(v.Grid, input.GridTolerance) {
				continue
			}
			if found[e.Init] == nil {
				found[e.Init] = map[string]ensemble.Entry{}
			}
			if first, twice := found[e.Init][name]; twice {
				t.repeat(first, e)
				continue
			}
			found[e.Init][name], id = e, family
		}
		if len(found) > 0 {
			t.Family = dist.FamilyByID(id, len(found[t.Inits[0]]))
		}
		t.parameters = map[ensemble.Init][]ensemble.Entry{}
		for _, init := range t.Inits {
			if t.Family == nil {
				break
			}
			for _, name := range t.Family.Parameters {
				e, ok := found[init][name]
				if _, _, family, _ := product.ParameterNamed(e.Variable, e.LongName); !ok || family != id {
					t.Family = nil
					break
				}
				t.parameters[init] = append(t.parameters[init], e)
			}
		}
		if t.Family == nil {
			t.parameters = nil
		}
		if m := v.reference; t.Family == nil && (len(found) > 0 || m != nil && m.IsNonNormal()) {
			v.Warnings = append(v.Warnings, fmt.Sprintf("%s at %s is scored as a normal distribution, by mean and spread, although its distribution is not normal: parameters are not among the products of all initialisations",
				t.Key.Variable, t.Key.Level))
		}
	}
}

// sameLevel reports whether two fields are at the same level. Parameters of a variable with one level may
// lack the level.
func sameLevel(a, b ensemble.Level) bool {
	return a == b || a.Kind != ensemble.Pressure && b.Kind != ensemble.Pressure
}

// selectMembers finds the raw members of all targets.
func (v *Verification) selectMembers() error {
	members := slices.DeleteFunc(v.members.Catalogue().Members(), func(m ensemble.Member) bool { return m == ensemble.NoMember })
	if v.reference != nil {
		if len(members) > v.reference.Task.FullMembers {
			members = members[:v.reference.Task.FullMembers]
		}
		for _, m := range v.reference.Task.UsedMembers {
			if !slices.Contains(members, m) {
				return &exit.Error{Code: exit.NotYet, What: fmt.Sprintf("member %s is missing", m), At: input.FileList(v.Options.Members),
					Why: "the network read it", Fix: "give the files of all members that the network read"}
			}
		}
	}
	for _, t := range v.Targets {
		axes := ensemble.Axes{Variables: []string{t.Key.Variable}, Levels: []ensemble.Level{t.Key.Level}, Leads: leadsFor(v.reference, t.Key)}
		if v.reference != nil {
			axes.Statistics = slices.Clone(v.reference.Task.Features.Axes.Statistics)
		}
		axes = input.CompleteStatistics(axes, []ensemble.Lead{t.Key.Lead}, map[string]ensemble.TimeStatistic{t.Key.Variable: t.statistic})
		var err error
		if t.members, err = input.SelectForecasts(v.members, input.RequiredFields{Axes: axes, Members: members, OfTraining: true}, v.destination(), input.StatisticRequest{Known: "the products"}); err != nil {
			return err
		}
		v.warn(t.members.Warnings...)
		if g := t.members.Grid; !g.SameAs(v.Grid, input.GridTolerance) {
			return input.GridMismatchFault("the members", g, "the products", v.Grid, input.FixRegrid).AtEntry(t.members.Entries[0]).AsError()
		}
		found := 0
		for _, init := range t.Inits {
			if slices.Contains(t.members.Inits, init) {
				found++
			}
		}
		if found != len(t.Inits) {
			return &exit.Error{Code: exit.NotYet, What: fmt.Sprintf("members are given for %d of %d initialisations", found, len(t.Inits)),
				At: fmt.Sprintf("%s at %s, lead %s", t.Key.Variable, t.Key.Level, t.Key.Lead), Fix: "give the members of all initialisations, or of none"}
		}
	}
	return nil
}

// linkEarlierLeads links each target to those at earlier leads if initialisations and members are the same, so that
// trajectories are scored. Other targets are scored separately.
func (v *Verification) linkEarlierLeads() {
	for i, t := range v.Targets {
		if i == 0 {
			continue
		}
		last := v.Targets[i-1]
		same := last.Key.Variable == t.Key.Variable && last.Key.Level == t.Key.Level && slices.Equal(last.Inits, t.Inits)
		for _, init := range t.Inits {
			same = same && slices.EqualFunc(last.calibrated[init], t.calibrated[init], func(a, b ensemble.Entry) bool { return a.Member == b.Member })
		}
		if same {
			t.earlier = append(slices.Clone(last.earlier), last)
		}
	}
}
