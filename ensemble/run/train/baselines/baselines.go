// Package baselines fits the baselines that networks are compared with to the training and validation samples of a
// training, in bounded memory: training data that exceed [Memory] are in a file without a name.
package baselines

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/internal/scratch"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
	"github.com/ensemble-weather/ensemble/postproc/skill"
)

// Memory is the number of bytes of training data that are held in memory. Beyond, they are in a file.
const Memory = 256 << 20

// fitter fits the baselines of one target after another. On ranks other than 0 it only takes part in reading.
type fitter struct {
	task     *task.Task
	methods  []*baseline.Method
	past     samples.Examples // dates of the fits
	weights  []float64
	fields   int // number of fields that fieldsOf returns per level
	space    *scratch.Space
	onTarget func(name string, set *baseline.Set)
	show     *progress.Task

	all      []task.Baselines
	warnings []string
	err      error // first error of this rank, which all ranks agree on when a target has been fitted
}

// Fit fits baselines for a task's targets, in the order in which targets are stored, in files of dir, which TMPDIR
// replaces.
//
// A target with too few dates lacks the baseline concerned, and a warning names it. onTarget is called with the
// data of each target. On several ranks rank 0 fits, one target at all levels at a time; the other ranks
// return nil.
//
// Memory: rank 0 stores 7 values of 4 bytes per date, point and level, and one more per input member if a method uses
// members. Up to Memory they are resident. Otherwise they are in a file, of which at most scratch.Window is resident, and
// besides 64 KiB of each date for each of the fields that are read together: three, or the members and the analysis.
// The coefficients of fits are in memory. Methods that copy dates (`model.reference`, SAMOS) store 3 more values per date
// and point.
// Errors: those of d; exit 73 and 74 for files in dir.
// Cost: reads the samples once per target variable and lead.
func Fit(ctx context.Context, k *task.Task, methods []*baseline.Method, d *samples.Data, dir string, onTarget func(name string, set *baseline.Set)) (all []task.Baselines, warnings []string, err error) {
	return fit(ctx, k, methods, d, scratch.New(dir, Memory), onTarget)
}

// fit is Fit with arrays of a Space.
func fit(ctx context.Context, k *task.Task, methods []*baseline.Method, d *samples.Data, space *scratch.Space, onTarget func(name string, set *baseline.Set)) (all []task.Baselines, warnings []string, err error) {
	f := &fitter{task: k, methods: methods, past: d.BeforeTest(), weights: d.Grid.Weights(), fields: statistics, space: space, onTarget: onTarget}
	if f.past.Analysed && slices.ContainsFunc(methods, func(m *baseline.Method) bool { return m.Predictors == baseline.MemberPredictors }) {
		f.fields += len(k.UsedMembers)
	}
	f.show = progress.Start(ctx, "fit", int64(len(k.Targets)*len(k.Features.Axes.Levels)*(len(methods)+2)))
	defer f.show.Done()
	for v := range k.Targets {
		if err := f.fitTarget(ctx, d, v); err != nil {
			return nil, nil, err
		}
	}
	return f.all, f.warnings, nil
}

// fitTarget reads the fields of target v and fits its baselines at all levels.
func (f *fitter) fitTarget(ctx context.Context, d *samples.Data, v int) (err error) {
	t := &targetFields{dates: len(f.past.Inits), levels: len(f.task.Features.Axes.Levels), points: d.Grid.Size(), fields: f.fields}
	if d.Ranks.IsRoot() {
		t.array, f.err = f.space.Make(t.dates*t.levels*t.points*t.fields, t.name())
	}
	if err := d.Ranks.AgreeOnError(f.err); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.array.Close()) }()
	err = f.past.Each(ctx, d.Ranks, func(i int, fc *ensemble.Forecast, a []*ensemble.Analysis) error {
		used, err := task.MemberPositions(fc, f.task.UsedMembers)
		if err != nil {
			return err
		}
		part, err := fieldsOf(f.task, fc, a, used, v, f.fields)
		if err != nil {
			return err
		}
		whole, err := team.GatherFields(d.Ranks, part, f.fields)
		if err == nil && d.Ranks.IsRoot() && f.err == nil {
			f.err = t.write(i, whole)
		}
		return err
	})
	if err != nil {
		return err
	}
	for l := range t.levels {
		if d.Ranks.IsRoot() && f.err == nil {
			f.fitLevel(ctx, t, v, l)
		}
	}
	return d.Ranks.AgreeOnError(f.err)
}

// fitLevel fits the baselines of target v at level l.
func (f *fitter) fitLevel(ctx context.Context, t *targetFields, v, l int) {
	name := f.task.TargetName(v*t.levels + l)
	fit := func(what string, do func(watch func(string, int) func(int)) error) {
		if f.err != nil {
			return
		}
		f.show.Note(what + " of " + name)
		watch, end := watchPasses(ctx, what+" of "+name)
		defer end()
		err := do(watch)
		f.show.Add(1)
		if e := (*exit.Error)(nil); errors.As(err, &e) {
			f.err = err
		} else if err != nil {
			f.warnings = append(f.warnings, fmt.Sprintf("%s has no %s: %v", name, what, err))
		}
	}
	set := &baseline.Set{Weights: f.weights, Space: f.space, Mean: t.of(0, l), Std: t.of(1, l), Members: t.members(l)}
	for _, init := range f.past.Inits {
		set.Valid = append(set.Valid, init.Valid(f.task.Targets[v].Lead).Time)
	}
	b := task.Baselines{FittedTo: slices.SortedFunc(slices.Values(set.Valid), time.Time.Compare)}
	fit("affine spread correction", func(watch func(string, int) func(int)) (err error) {
		spreads := &baseline.Set{Valid: set.Valid, Weights: f.weights, Space: f.space, Watch: watch, Std: t.of(2, l), Obs: t.of(3, l)}
		b.Affine, err = baseline.FitAffineSpread(spreads)
		return err
	})
	if f.past.Analysed {
		set.Obs = t.of(6, l)
		watch, end := watchPasses(ctx, "reference of "+name)
		set.Watch = watch
		f.onTarget(name, set)
		end()
		for _, m := range f.methods {
			fit(m.ID, func(watch func(string, int) func(int)) error {
				set.Watch = watch
				fitted, err := m.Fit(set)
				if err != nil {
					return err
				}
				b.Fits = append(b.Fits, task.Baseline{Method: m, Fit: fitted})
				if w, ok := fitted.(baseline.Warner); ok && w.Warning() != "" {
					f.warnings = append(f.warnings, fmt.Sprintf("%s of %s: %s", m.ID, name, w.Warning()))
				}
				return nil
			})
		}
		fit("split of the CRPS reduction", func(watch func(string, int) func(int)) (err error) {
			whole := &baseline.Set{Valid: set.Valid, Obs: set.Obs, Space: f.space, Watch: watch, Mean: t.of(4, l), Std: t.of(5, l)}
			b.Reduction, err = skill.Fit(whole, f.task.FullMembers)
			return err
		})
	}
	f.all = append(f.all, b)
}

// watchPasses returns a Watch that shows each pass of a fit as a task, with the rate of its points and the time left.
// end ends the last one.
func watchPasses(ctx context.Context, what string) (watch func(stage string, points int) (add func(int)), end func()) {
	var t *progress.Task
	return func(stage string, points int) func(int) {
		t.Done()
		of := progress.Start(ctx, what+": "+stage, int64(points))
		t = of
		return func(n int) { of.Add(int64(n)) }
	}, func() { t.Done() }
}

// targetFields holds the fields of one target on all dates.
//
// Shape: array [statistic][level][date][point], then the members as [level][date][member][point].
type targetFields struct {
	dates, levels, points, fields int
	array                         *scratch.Array // nil on ranks other than 0
}

// name describes the array in errors.
func (t *targetFields) name() string { return "the training data of baselines" }

// write stores the fields of date i.
//
// Shape: all [field][level][point].
func (t *targetFields) write(i int, all []float32) error {
	n, members := t.points, t.fields-statistics
	for l := range t.levels {
		for field := range t.fields {
			at := ((field*t.levels+l)*t.dates + i) * n
			if m := field - statistics; m >= 0 {
				at = (statistics*t.levels*t.dates + (l*t.dates+i)*members + m) * n
			}
			if err := t.array.Write(at, all[(field*t.levels+l)*n:][:n], t.name()); err != nil {
				return err
			}
		}
	}
	return nil
}

// of returns a statistic at a level.
//
// Shape: [date][point].
func (t *targetFields) of(statistic, level int) []float32 {
	n := t.dates * t.points
	return t.array.Values[(statistic*t.levels+level)*n:][:n]
}

// members returns the input members at a level, nil if they were not read.
//
// Shape: [date][member][point].
func (t *targetFields) members(level int) []float32 {
	if t.fields == statistics {
		return nil
	}
	n := t.dates * t.points * (t.fields - statistics)
	return t.array.Values[statistics*t.levels*t.dates*t.points+level*n:][:n]
}

// statistics is the number of fields that fieldsOf returns per level, without members.
const statistics = 7

// fieldsOf returns the predictors and the predictand of baselines on one date for target v: mean and
// spread of the input members (divisor M−1), spread of the input members and of all members (divisor of the
// features), mean and spread of all members (divisor M−1), and the analysis. If fields is larger, the input
// members follow.
//
// Shape: [field][level][point] of the forecast.
func fieldsOf(k *task.Task, fc *ensemble.Forecast, analyses []*ensemble.Analysis, used []int, v, fields int) ([]float32, error) {
	n, depth := fc.Grid.Size(), len(fc.Axes.Levels)
	t, x := k.TargetAt(v)
	target, _ := k.TargetInForecast(fc, v)
	out, unused := make([]float32, fields*depth*n), make([]float32, n)
	for l, level := range fc.Axes.Levels {
		of := func(statistic int) []float32 { return out[(statistic*depth+l)*n:][:n] }
		fc.MeanStd(of(0), of(1), t, x, l, used, 1)
		fc.MeanStd(unused, of(2), t, x, l, used, k.Features.DDOF)
		fc.MeanStd(unused, of(3), target, x, l, task.AllMembers(fc), k.Features.DDOF)
		fc.MeanStd(of(4), of(5), target, x, l, task.AllMembers(fc), 1)
		if analyses != nil {
			obs, err := k.AnalysisField(analyses, fc.Init, v, level)
			if err != nil {
				return nil, err
			}
			copy(of(6), obs)
		}
		for i := statistics; i < fields; i++ {
			copy(of(i), fc.Field(t, used[i-statistics], x, l))
		}
	}
	return out, nil
}
