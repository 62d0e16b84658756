// Package baselines fits the baselines that networks are compared with, and those that they correct, to the training and
// validation samples of a training, in bounded memory: training data that exceed [Memory] are in a file without a name. On
// several ranks each fits a share, and rank 0 has the results, with the bits of one rank.
package baselines

import (
	"context"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/internal/scratch"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
)

// Memory is the number of bytes of training data that a rank holds in memory. Beyond, they are in a file.
const Memory = 256 << 20

// Options are the baselines to fit.
type Options struct {
	Methods []*baseline.Method // that networks are compared with, in the order of baseline.Methods
	// Reference is the method that networks correct, without members; nil for none. It is fitted once for each of Subsets.
	Reference *baseline.Method
	// Subsets are the dates of each fit of the reference, as indices of the training and validation samples.
	Subsets [][]int
	// Dir is the directory of files, which TMPDIR replaces.
	Dir string
}

// Result holds the fits of all targets, in the order in which targets are stored.
type Result struct {
	Baselines  []task.Baselines
	References []*task.Reference // [subset]
	Warnings   []string
}

// fitter fits the baselines of a number of targets after another.
type fitter struct {
	task  *task.Task
	past  samples.Examples // dates of the fits
	ranks *team.Team
	set   setData // what all sets have in common
	fits  []fit   // of each set
	show  *progress.Task

	result *Result // of rank 0
}

// Fit fits baselines for a task's targets. A target with too few dates lacks the baseline concerned, and a warning names
// it; a reference that cannot be fitted is an error. On several ranks rank 0 has the result, the others an empty one.
//
// All fits of a target at a level belong to one rank, which gets its fields. There are as many targets at a time as ranks, so
// that each rank has at most as many of these sets as there are levels. The fits of sets that are left over are distributed
// by cost over equal parts of the ranks.
//
// Memory: a rank stores 7 values of 4 bytes per date and point of each of its sets, and one more per input member if a method
// uses members. Up to Memory they are resident. Otherwise they are in a file, of which at most scratch.Window is resident,
// and besides 64 KiB of each date for each of the fields that are read together: three, or the members and the
// analysis. The coefficients of fits are in memory, all of them on rank 0. Methods that copy dates (`model.reference`, SAMOS)
// store 3 more values per date and point.
// Errors: those of d; exit 64 for a reference that cannot be fitted; 73 and 74 for files.
// Cost: reads the samples once for each of ⌈targets/ranks⌉ groups of target variables and leads.
func Fit(ctx context.Context, k *task.Task, d *samples.Data, o Options) (*Result, error) {
	return fitAll(ctx, k, d, o, scratch.New(o.Dir, Memory))
}

// fitAll is Fit with arrays of a Space.
func fitAll(ctx context.Context, k *task.Task, d *samples.Data, o Options, space *scratch.Space) (*Result, error) {
	f := &fitter{task: k, past: d.BeforeTest(), ranks: d.Ranks, result: &Result{}}
	f.set = setData{dates: len(f.past.Inits), points: d.Grid.Size(), fields: statistics, weights: d.Grid.Weights(), space: space}
	if f.past.Analysed && slices.ContainsFunc(o.Methods, func(m *baseline.Method) bool { return m.Predictors == baseline.MemberPredictors }) {
		f.set.fields += len(k.UsedMembers)
	}
	f.fits = fitsOf(o, k, f.past)
	for range o.Subsets {
		f.result.References = append(f.result.References, &task.Reference{Method: o.Reference})
	}
	f.show = progress.Start(ctx, "fit", int64(len(k.Targets)*len(k.Features.Axes.Levels)*len(f.fits)))
	defer f.show.Done()
	for v := 0; v < len(k.Targets); v += d.TargetsPerPass() {
		if err := f.newGroup(v, min(v+d.TargetsPerPass(), len(k.Targets))).fit(ctx); err != nil {
			return nil, err
		}
	}
	return f.result, nil
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
